"""When a refetched replica has all records that the damaged one was counted for.

A replica that is found damaged while it is open had counted until then: its leader knows its
offset, and the map may list it in the ISR, also for a while afterwards. Records acknowledged with
its help are below its log end offset at that time, its *debt*. In the leader epoch in which the
damage was found, the new replica does not count before it has reached the debt, even if the ISR
lists it. Under a later leader the debt ends when the ISR of that leader once does not contain it:
this leader knows only the new replica, and adds it when it has caught up (R4, R5). A restarted
process has no debts: it does not count before its leader has proposed it in its new session.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Debt:
    """The records that a damaged replica was counted for."""

    end_offset: int
    """Records below this offset may have been acknowledged with its help."""
    leader_epoch: int
    """The newest leader epoch in which it may have been counted."""


class Debts:
    """The debts of all replicas of this broker that were found damaged since the process
    started."""

    __slots__ = ("_debts",)

    def __init__(self) -> None:
        self._debts: dict[TopicPartition, Debt] = {}

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._debts)

    def owe(self, partition: TopicPartition, debt: Debt) -> None:
        """A replica was found damaged at this log end offset; it may have been a refetched one."""
        before = self._debts.get(partition)
        if before is not None:
            debt = Debt(
                max(before.end_offset, debt.end_offset),
                max(before.leader_epoch, debt.leader_epoch),
            )
        self._debts[partition] = debt

    def owes(self, partition: TopicPartition) -> bool:
        """Whether the new replica must not be counted yet, even if the ISR lists it."""
        return partition in self._debts

    def reached(self, partition: TopicPartition, end_offset: int) -> bool:
        """The leader has confirmed the new replica up to here; returns whether the debt is paid."""
        debt = self._debts.get(partition)
        if debt is None or end_offset < debt.end_offset:
            return False
        del self._debts[partition]
        return True

    def map_applied(self, partition: TopicPartition, view: PartitionView, broker_id: int) -> None:
        """Update the debt of a partition from the present map."""
        debt = self._debts.get(partition)
        if debt is None or view.leader_epoch <= debt.leader_epoch:
            return
        if all(replica.broker_id != BrokerId(broker_id) for replica in view.isr_refs):
            del self._debts[partition]

    def forget(self, partition: TopicPartition) -> None:
        """The replica was removed."""
        self._debts.pop(partition, None)
