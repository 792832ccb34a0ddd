"""When a new copy of what was found damaged here is all that its forerunner was counted for.

A replica that is found damaged while it is open was counted until then: its leader knows how far
it was, its map may list it as in sync, and may still do so for a while. What was acknowledged
with its help lies below where it had come, its *debt*. So in the reign in which it was found, a
copy counts as nothing before it has reached the debt, whoever lists it. Under a later leader the
debt falls when that leader has once not listed it: such a leader knows the copy only, and lists
it when that is whole (R4, R5). A process that starts anew owes nothing: nobody counts it before
its leader has proposed it in its new session.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Debt:
    """What a damaged replica was counted for."""

    end_offset: int
    """Everything below may have been acknowledged with its help."""
    leader_epoch: int
    """The newest reign in which somebody may believe so."""


class Debts:
    """Of all replicas of this broker that were found damaged since it started."""

    __slots__ = ("_debts",)

    def __init__(self) -> None:
        self._debts: dict[TopicPartition, Debt] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._debts)

    def owe(self, partition: TopicPartition, debt: Debt) -> None:
        """It was found damaged, after it had come so far. A copy may be damaged, too."""
        before = self._debts.get(partition)
        if before is not None:
            debt = Debt(
                max(before.end_offset, debt.end_offset),
                max(before.leader_epoch, debt.leader_epoch),
            )
        self._debts[partition] = debt

    def owes(self, partition: TopicPartition) -> bool:
        """Whether its copy is not to be relied on, whoever says that it is in sync."""
        return partition in self._debts

    def reached(self, partition: TopicPartition, end_offset: int) -> bool:
        """Its leader's log agrees with the copy up to here; whether that pays a debt."""
        debt = self._debts.get(partition)
        if debt is None or end_offset < debt.end_offset:
            return False
        del self._debts[partition]
        return True

    def seen(self, partition: TopicPartition, view: PartitionView, broker_id: int) -> None:
        """The map as it is now."""
        debt = self._debts.get(partition)
        if debt is None or view.leader_epoch <= debt.leader_epoch:
            return
        if all(one.broker_id != BrokerId(broker_id) for one in view.isr_refs):
            del self._debts[partition]

    def forget(self, partition: TopicPartition) -> None:
        """The replica is gone."""
        self._debts.pop(partition, None)
