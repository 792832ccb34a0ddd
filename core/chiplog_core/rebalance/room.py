"""How much room brokers have for more replicas while a proposal is made.

The two capacity goals are hard: a replica moves only to a broker that stays within its limits. The
bytes that move away from a broker are not free space before their deletion, so they do not count as
such.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.capacity import UNLIMITED, Capacity
from chiplog_core.rebalance.measured import Broker, PartitionName
from chiplog_core.rebalance.settings import Goal, Settings

NO_ROOM = -1

Orders = Mapping[PartitionName, Sequence[BrokerId]]

NOTHING: Mapping[PartitionName, Sequence[BrokerId]] = {}
"""No replica is being copied."""


class Room:
    """What each broker holds and may hold."""

    def __init__(
        self,
        brokers: Iterable[Broker],
        orders: Orders,
        sizes: Mapping[PartitionName, int],
        settings: Settings,
        copying: Mapping[PartitionName, Sequence[BrokerId]] = NOTHING,
    ) -> None:
        """`orders` are the replicas of all partitions now, `sizes` the bytes of one replica. A
        broker with a replica of unknown size has as many bytes as it reported itself, if these are
        more. Replicas that are being copied to brokers now, `copying`, take free space.

        Limits whose goals are not among the settings do not count."""
        self._has_max_replicas = Goal.REPLICA_CAPACITY in settings.goals
        self._has_max_bytes = Goal.DISK_CAPACITY in settings.goals
        self._capacities = {broker.broker_id: broker.capacity for broker in brokers}
        self.replicas = Counter(
            {one: capacity.internal_replicas for one, capacity in self._capacities.items()}
        )
        self.bytes: Counter[BrokerId] = Counter()
        self._gained_bytes: Counter[BrokerId] = Counter()
        is_unknown: set[BrokerId] = set()
        for name, replicas in orders.items():
            self.replicas.update(replicas)
            size = sizes.get(name)
            if size is None:
                is_unknown.update(replicas)
                continue
            for broker_id in replicas:
                self.bytes[broker_id] += size
            for broker_id in copying.get(name, ()):
                self._gained_bytes[broker_id] += size
        for broker_id in is_unknown:
            reported = self.capacity(broker_id).log_bytes or 0
            self.bytes[broker_id] = max(self.bytes[broker_id], reported)
        self.largest = {one: self._largest(one) for one in self._capacities}
        """The size of the largest replica that each broker may take; below 0 if it may take
        none."""

    def _largest(self, broker_id: BrokerId) -> float:
        """The value for `largest` of the broker, from what it holds now."""
        capacity = self.capacity(broker_id)
        if self.holds_most_replicas(broker_id):
            return NO_ROOM
        if not self._has_max_bytes:
            return inf
        of_share, free_bytes = capacity.max_bytes, capacity.free_bytes
        return min(
            inf if of_share is None else of_share - self.bytes[broker_id],
            inf if free_bytes is None else free_bytes - self._gained_bytes[broker_id],
        )

    def holds_most_replicas(self, broker_id: BrokerId) -> bool:
        """Whether the broker may get no replica because of their number."""
        return bool(self.excess_replicas(broker_id, and_more=1))

    def excess_replicas(self, broker_id: BrokerId, *, and_more: int = 0) -> int:
        """By how many replicas the broker is above its limit, if it got so many more."""
        most = self.capacity(broker_id).max_replicas
        if not self._has_max_replicas or most is None:
            return 0
        return max(0, self.replicas[broker_id] + and_more - most)

    def excess_bytes(self, broker_id: BrokerId) -> int:
        """By how many bytes the broker's replicas are above their share of the volume."""
        most = self.capacity(broker_id).max_bytes
        if not self._has_max_bytes or most is None:
            return 0
        return max(0, self.bytes[broker_id] - most)

    def move(self, leaving: BrokerId, to: BrokerId, size: int) -> None:
        """Record that a replica moves from the broker `leaving` to the broker `to`."""
        self.replicas[leaving] -= 1
        self.replicas[to] += 1
        self.bytes[leaving] -= size
        self.bytes[to] += size
        self._gained_bytes[to] += size
        self.largest[leaving], self.largest[to] = self._largest(leaving), self._largest(to)

    def capacity(self, broker_id: BrokerId) -> Capacity:
        """The limits of the broker."""
        return self._capacities.get(broker_id, UNLIMITED)
