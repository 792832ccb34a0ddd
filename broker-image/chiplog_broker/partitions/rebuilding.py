"""When a refetched replica has all records that the damaged one had.

Until a replica is found damaged, it helps to acknowledge records: its leader knows its offset, and
the PartitionMap may list it in the ISR, also for a while afterwards. The *catch-up goal* of the new
copy is an offset above all records that were acknowledged with its help. In the leader epoch in
which the damage was found, the copy counts as damaged until it has reached the goal, even if the
ISR lists it. Under a later leader the goal is dropped as soon as an ISR of that leader does not
contain this broker: this leader knows only the new copy, and adds it to the ISR when it has caught
up (rules R4, R5). A restarted process has no goals: it is not in sync before its leader has
proposed it in its new session.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import BrokerId


@dataclass(frozen=True, slots=True)
class CatchUpGoal:
    """The offset that the new copy of a damaged replica has to reach."""

    end_offset: int
    """Records below this offset may have been acknowledged because the damaged replica had them."""
    leader_epoch: int
    """The newest leader epoch in which the leader may have counted the damaged replica as in
    sync."""


class CatchUpGoals:
    """The goals of all replicas of this broker that were found damaged since the process
    started."""

    __slots__ = ("_goals",)

    def __init__(self) -> None:
        self._goals: dict[TopicPartition, CatchUpGoal] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._goals)

    def add(self, partition: TopicPartition, goal: CatchUpGoal) -> None:
        """Add the goal of a replica that was found damaged.

        If it was a copy that had not reached its own goal yet, the higher values of both apply.
        """
        before = self._goals.get(partition)
        if before is not None:
            goal = CatchUpGoal(
                max(before.end_offset, goal.end_offset),
                max(before.leader_epoch, goal.leader_epoch),
            )
        self._goals[partition] = goal

    def is_open(self, partition: TopicPartition) -> bool:
        """Whether the new copy must not count as undamaged yet, even if the ISR lists it."""
        return partition in self._goals

    def reached(self, partition: TopicPartition, end_offset: int) -> bool:
        """Remove the goal if the copy, confirmed by its leader up to `end_offset`, has reached it.

        Returns whether it was removed.
        """
        goal = self._goals.get(partition)
        if goal is None or end_offset < goal.end_offset:
            return False
        del self._goals[partition]
        return True

    def map_applied(self, partition: TopicPartition, view: PartitionView, broker_id: int) -> None:
        """Remove the goal if the map has a later leader whose ISR does not contain this broker.

        That leader never counted the damaged replica: it adds this broker to the ISR only after the
        new copy has caught up.
        """
        goal = self._goals.get(partition)
        if goal is None or view.leader_epoch <= goal.leader_epoch:
            return
        if all(replica.broker_id != BrokerId(broker_id) for replica in view.isr_refs):
            del self._goals[partition]

    def forget(self, partition: TopicPartition) -> None:
        """Remove the catch-up goal of a replica that was deleted, if it has one."""
        self._goals.pop(partition, None)
