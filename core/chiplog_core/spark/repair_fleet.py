"""The state of the cluster as repairs of replicas depend on it: which replicas are undamaged and in
sync, and which are ordered to be fetched again.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from chiplog_core.ids import BrokerId, PartitionIndex, TopicId
from chiplog_core.model.broker import Broker, RefetchOrder
from chiplog_core.model.broker_status import RefetchAnswer
from chiplog_core.model.partition_map import PartitionMap, PartitionState
from chiplog_core.model.spark_result import Check
from chiplog_core.model.verification import RepairState, ReplicaRepair
from chiplog_core.spark.steps import OrderRefetch
from chiplog_core.spark.verification_report import ReportedDamage

MAX_AT_ONCE: Final = 2
"""How many replicas of a cluster may be fetched again at the same time: each reads the whole
replica of its leader."""

MAJORITY: Final = 2
"""How many other undamaged replicas are required if the replica was reported only because its
records differ from theirs: then they are the majority."""

Place: TypeAlias = tuple[TopicId, PartitionIndex]
Replica: TypeAlias = tuple[BrokerId, Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The state of the cluster, as far as repairs depend on it."""

    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    maps: Mapping[str, PartitionMap] = field(default_factory=dict)
    """By topic name."""
    damaged_elsewhere: frozenset[Replica] = frozenset()
    """The replicas that other Verifications have reported as damaged and whose repair has not
    ended."""
    why_no_orders: str = ""
    """Why no repair at all may be ordered now; empty if repairs may be ordered."""


class Fleet:
    """The state of the cluster, including the orders of this pass."""

    def __init__(self, cluster_state: ClusterState, repairs: Collection[ReplicaRepair]) -> None:
        """`repairs` are all repairs of the Verification."""
        self._cluster_state = cluster_state
        self.brokers = cluster_state.brokers
        reported = {
            replica_of(repair) for repair in repairs if repair.state is not RepairState.DONE
        }
        self._reported_damaged = reported | cluster_state.damaged_elsewhere
        # The replicas that their own broker reports as damaged, and those with an order in the
        # spec of their Broker.
        self._damaged: set[Replica] = {
            (broker_id, (damage.topic_id, damage.partition))
            for broker_id, broker in cluster_state.brokers.items()
            for directory in broker.status.directories
            for damage in directory.damaged
        }
        self._ordered: set[Replica] = {
            (broker_id, (order.topic_id, order.partition))
            for broker_id, broker in cluster_state.brokers.items()
            for order in broker.spec.refetches
        }

    def state_of(self, repair: ReplicaRepair) -> PartitionState | None:
        """The entry of the repair's partition in the PartitionMap; None if the topic was deleted
        since it was verified."""
        found = self._cluster_state.maps.get(repair.topic)
        generation = None if found is None else found.spec.current_generation
        if generation is None or generation.topic_id != repair.topic_id:
            return None
        return generation.state_of(repair.partition)

    def is_damaged(self, broker_id: BrokerId, place: Place) -> bool:
        """Whether the broker reports the replica as damaged."""
        return (broker_id, place) in self._damaged

    def in_sync(self, repair: ReplicaRepair) -> frozenset[BrokerId]:
        """The brokers in the ISR of the repair's partition that are alive in the session that the
        ISR lists."""
        state = self.state_of(repair)
        listed = () if state is None else state.isr
        return frozenset(
            ref.broker_id
            for ref in listed
            if (broker := self.brokers.get(ref.broker_id)) is not None
            and broker.spec.session == ref.session
            and not broker.spec.fenced
            and not broker.spec.retired
        )

    def order_for(self, repair: ReplicaRepair) -> RefetchOrder | None:
        """The repair's order in the Broker's spec; None if there is none."""
        broker = self.brokers.get(repair.replica)
        orders = () if broker is None else broker.spec.refetches
        return next((order for order in orders if _is_for(order, repair)), None)

    def answer_for(self, repair: ReplicaRepair) -> RefetchAnswer | None:
        """The broker's answer to the repair's order; None if there is none."""
        broker = self.brokers.get(repair.replica)
        answers = () if broker is None else broker.status.refetches
        return next((answer for answer in answers if _is_for(answer, repair)), None)

    def order(self, repair: ReplicaRepair) -> OrderRefetch:
        """Order the repair now: the action to carry out. `why_not` counts it from now on."""
        self._ordered.add((repair.replica, place_of(repair)))
        new_order = RefetchOrder(
            run=repair.run,
            topic_id=repair.topic_id,
            partition=repair.partition,
            session=self.brokers[repair.replica].spec.session,
        )
        return OrderRefetch(repair.replica, new_order)

    def why_not(self, repair: ReplicaRepair) -> str:
        """Why the repair must not be ordered now; empty if it may."""
        if self._cluster_state.why_no_orders:
            return self._cluster_state.why_no_orders
        state, found = self.state_of(repair), self._cluster_state.maps[repair.topic]
        assert state is not None, "a replica that does not exist any more is refused"
        if state.leader is None or state.reports_wanted or found.spec.hibernated:
            return "the partition has no leader"
        if state.is_moving:
            return "the partition is being moved"
        if repair.replica not in self.in_sync(repair):
            return f"broker {repair.replica} is not in sync, or does not exist"
        return (
            self._too_many(repair)
            or self._too_few(repair, found.spec.min_isr)
            or self._wrong_source(repair, state.leader.broker_id)
        )

    def _too_many(self, repair: ReplicaRepair) -> str:
        """Why there are too many repairs at the same time; empty if there are not."""
        busy = self._damaged | self._ordered
        if any(place == place_of(repair) for _, place in busy):
            return "another replica of the partition is damaged or being fetched again"
        if len(self._ordered) >= MAX_AT_ONCE:
            return f"{MAX_AT_ONCE} replicas are already being fetched again, which is the limit"
        return ""

    def _too_few(self, repair: ReplicaRepair, min_isr: int) -> str:
        """Why there are too few other undamaged replicas; empty if there are enough.

        The partition stays writable without the repaired replica only with `min_isr` others.
        """
        place = place_of(repair)
        undamaged = [
            broker_id
            for broker_id in self.in_sync(repair)
            if broker_id != repair.replica and (broker_id, place) not in self._reported_damaged
        ]
        required = max(min_isr, 1)
        if set(repair.checks) <= {Check.REPLICA_MISMATCH}:
            required = max(required, MAJORITY)
        count = len(undamaged)
        if count >= required:
            return ""
        return f"only {count} other replicas are undamaged and in sync, and {required} are required"

    def _wrong_source(self, repair: ReplicaRepair, leader: BrokerId) -> str:
        """Why the replica must not be fetched from its leader; empty if it may.

        If the replica to repair is the leader, it resigns first, and any other replica in the ISR
        may become the leader. None of the possible leaders may be reported as damaged.
        """
        place = place_of(repair)
        may_lead = self.in_sync(repair) if leader == repair.replica else {leader}
        wrong = [
            broker_id
            for broker_id in sorted(may_lead)
            if broker_id != repair.replica and (broker_id, place) in self._reported_damaged
        ]
        if not wrong:
            return ""
        return (
            f"the replica would be fetched from broker {wrong[0]}, whose replica may be damaged too"
        )


def _is_for(order: RefetchOrder | RefetchAnswer, repair: ReplicaRepair) -> bool:
    """Whether an order or a broker's answer belongs to the repair."""
    return (order.run, order.topic_id, order.partition) == (
        repair.run,
        repair.topic_id,
        repair.partition,
    )


def place_of(replica: ReportedDamage | ReplicaRepair) -> Place:
    """The partition of a replica: (topic id, partition index)."""
    return replica.topic_id, replica.partition


def replica_of(repair: ReplicaRepair) -> Replica:
    """The replica to repair: (broker id, partition as in `place_of`)."""
    return repair.replica, place_of(repair)
