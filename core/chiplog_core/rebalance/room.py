"""How much room brokers have for more replicas while a proposal is made, and what is above a limit
after it.

The two capacity goals are hard: a replica moves only to a broker that stays within its limits. The
bytes that move away from a broker are not free space before their deletion, so they do not count as
such.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.capacity import UNLIMITED, Capacity
from chiplog_core.rebalance.measured import Broker, Measurements, PartitionName
from chiplog_core.rebalance.settings import Goal, Mode, Settings

MAX_NAMED = 5
"""So many brokers are named in the text about unmet goals."""

NO_ROOM = -1

Orders = Mapping[PartitionName, Sequence[BrokerId]]


class Room:
    """What each broker holds and may hold."""

    def __init__(
        self,
        brokers: Iterable[Broker],
        orders: Orders,
        measurements: Measurements,
        settings: Settings,
    ) -> None:
        """`orders` are the replicas of all partitions now; those that were not measured count as
        empty. Limits whose goals are not among the settings do not count."""
        self._has_max_replicas = Goal.REPLICA_CAPACITY in settings.goals
        self._has_max_bytes = Goal.DISK_CAPACITY in settings.goals
        self._capacities = {broker.broker_id: broker.capacity for broker in brokers}
        self.replicas = Counter(
            {one: capacity.internal_replicas for one, capacity in self._capacities.items()}
        )
        self.bytes: Counter[BrokerId] = Counter()
        self._gained_bytes: Counter[BrokerId] = Counter()
        for name, replicas in orders.items():
            self.replicas.update(replicas)
            if name in measurements:
                size = measurements[name].bytes
                for broker_id in replicas:
                    self.bytes[broker_id] += size
        self.largest = {one: self._largest(one) for one in self._capacities}
        """The size of the largest replica that each broker may take; below 0 if it may take
        none."""

    def _largest(self, broker_id: BrokerId) -> float:
        """The value for `largest` of the broker, from what it holds now."""
        capacity = self.capacity(broker_id)
        is_limited = self._has_max_replicas and capacity.max_replicas is not None
        if is_limited and self.excess_replicas(broker_id, and_more=1):
            return NO_ROOM
        if not self._has_max_bytes:
            return inf
        of_share, free_bytes = capacity.max_bytes, capacity.free_bytes
        return min(
            inf if of_share is None else of_share - self.bytes[broker_id],
            inf if free_bytes is None else free_bytes - self._gained_bytes[broker_id],
        )

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


def unmet_text(
    room: Room,
    brokers: Sequence[Broker],
    orders: Orders,
    measurements: Measurements,
    settings: Settings,
) -> str:
    """Which brokers are above a limit after all moves and by how much, and which replicas have to
    stay on a broker that is to be removed; empty if nothing is wrong. `room` and `orders` are
    those after all moves."""
    found = [*_above(room, brokers), *_stuck(room, brokers, orders, measurements, settings)]
    if not found:
        return ""
    more = f"; {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    remedy = "add brokers, delete data, or raise spec.brokerCapacity of the BrokerCluster"
    return f"{'; '.join(found[:MAX_NAMED])}{more}: {remedy}"


def _above(room: Room, brokers: Iterable[Broker]) -> Iterator[str]:
    """Each broker that is above a limit."""
    for broker_id in sorted(broker.broker_id for broker in brokers):
        capacity = room.capacity(broker_id)
        if excess := room.excess_replicas(broker_id):
            yield (
                f"{Goal.REPLICA_CAPACITY} is not met: broker {broker_id} would hold "
                f"{room.replicas[broker_id]} replicas, {excess} more than {capacity.max_replicas}"
            )
        if excess := room.excess_bytes(broker_id):
            yield (
                f"{Goal.DISK_CAPACITY} is not met: broker {broker_id} would hold "
                f"{_mb(room.bytes[broker_id])} MB, {_mb(excess)} MB more than "
                f"{capacity.max_disk_percent} % of its volume"
            )


def _stuck(
    room: Room,
    brokers: Sequence[Broker],
    orders: Orders,
    measurements: Measurements,
    settings: Settings,
) -> Iterator[str]:
    """Each broker that is to be removed, but keeps replicas that are too large for all others."""
    if settings.mode is not Mode.REMOVE_BROKERS:
        return
    largest = max((room.largest[one] for one in settings.usable(brokers)), default=inf)
    for broker_id in sorted(settings.brokers):
        sizes = [
            measurements[name].bytes
            for name, replicas in orders.items()
            if broker_id in replicas and name in measurements and settings.may_move(name)
        ]
        if too_large := [size for size in sizes if size > largest]:
            room_mb = _mb(max(0, int(largest)))
            yield (
                f"broker {broker_id} cannot be emptied: it keeps {len(too_large)} replicas "
                f"({_mb(sum(too_large))} MB), and no other broker has room for a replica of more "
                f"than {room_mb} MB"
            )


def _mb(size_bytes: int) -> int:
    """In MiB, rounded up."""
    return -(-size_bytes // 2**20)
