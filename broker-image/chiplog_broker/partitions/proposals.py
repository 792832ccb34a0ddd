"""The ISR proposals of this broker that no PartitionMap has answered yet, the oldest first.

A proposal stays binding after the leadership that made it has ended, and while its topic is unknown
here. It ends only with a map that answers it, or when the topic is deleted (rule R5).
"""

from collections.abc import Callable
from itertools import islice
from uuid import UUID

from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.partitions.isr import BindingProposal, is_answered
from chiplog_core.ids import LeaderEpoch, PartitionEpoch, PartitionIndex, Session, TopicId
from chiplog_core.model.broker_status import IsrProposal


class Proposals:
    """The open proposals, by topic id and partition."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after every change. It must not raise."""
        self._open: dict[tuple[UUID, int], IsrProposal] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._open)

    def oldest(self, most: int) -> tuple[IsrProposal, ...]:
        """The oldest proposals, at most `most`, to be sent to the operator. The others are sent
        when these are answered."""
        return tuple(islice(self._open.values(), most))

    def open_proposal(self, topic_id: UUID, index: int) -> BindingProposal | None:
        """The proposal for a partition that is not answered yet, or None."""
        found = self._open.get((topic_id, index))
        if found is None:
            return None
        return BindingProposal(base_partition_epoch=found.base_partition_epoch, isr=found.isr)

    def make(self, topic_id: UUID, view: PartitionView, proposal: BindingProposal) -> None:
        """Add a proposal. The partition must not have an open one."""
        key = topic_id, view.index
        assert key not in self._open, "an open proposal is neither changed nor withdrawn"
        self._open[key] = IsrProposal(
            topic_id=TopicId(topic_id.bytes),
            partition=PartitionIndex(view.index),
            session=Session(view.leader_session),
            leader_epoch=LeaderEpoch(view.leader_epoch),
            base_partition_epoch=PartitionEpoch(proposal.base_partition_epoch),
            isr=proposal.isr,
        )
        self._changed()

    def applied(self, topic: TopicView) -> None:
        """Remove the proposals that this map, which was just applied, has answered."""
        if not self._open:
            return
        for view in topic.partitions:
            proposal = self.open_proposal(topic.topic_id, view.index)
            if proposal is not None and is_answered(proposal, view.partition_epoch):
                del self._open[topic.topic_id, view.index]
                self._changed()

    def forget(self, topic_id: UUID) -> None:
        """Remove all proposals of a topic that was deleted."""
        for key in [key for key in self._open if key[0] == topic_id]:
            del self._open[key]
            self._changed()
