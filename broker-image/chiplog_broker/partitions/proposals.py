"""The proposals of this broker that no map has answered yet, the oldest first.

They outlive what made them: a leader that resigns, or a topic that goes and comes back, has
still promised. Only the map ends a promise, or the order to delete the topic (R5).
"""

from collections.abc import Callable
from itertools import islice
from uuid import UUID

from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.partitions.isr import BindingProposal, is_answered
from chiplog_core.ids import LeaderEpoch, PartitionEpoch, PartitionIndex, Session, TopicId
from chiplog_core.model.broker_status import IsrProposal


class Proposals:
    """By topic id and partition."""

    def __init__(self, changed: Callable[[], None]) -> None:
        """`changed` is called after every change. It must not raise."""
        self._open: dict[tuple[UUID, int], IsrProposal] = {}
        self._changed = changed

    def __len__(self) -> int:
        return len(self._open)

    def oldest(self, most: int) -> tuple[IsrProposal, ...]:
        """What the operator is told; what is beyond the limit comes when others are answered."""
        return tuple(islice(self._open.values(), most))

    def open_proposal(self, topic_id: UUID, index: int) -> BindingProposal | None:
        """What was promised for a partition and not answered."""
        found = self._open.get((topic_id, index))
        if found is None:
            return None
        return BindingProposal(base_partition_epoch=found.base_partition_epoch, isr=found.isr)

    def make(self, topic_id: UUID, view: PartitionView, proposal: BindingProposal) -> None:
        """BindingProposal it. There must be none for this partition."""
        key = topic_id, view.index
        assert key not in self._open, "a promise is neither changed nor withdrawn"
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
        """A map is in force here: the promises that it answers are kept."""
        if not self._open:
            return
        for view in topic.partitions:
            proposal = self.open_proposal(topic.topic_id, view.index)
            if proposal is not None and is_answered(proposal, view.partition_epoch):
                del self._open[topic.topic_id, view.index]
                self._changed()

    def forget(self, topic_id: UUID) -> None:
        """The topic is deleted for good."""
        for key in [key for key in self._open if key[0] == topic_id]:
            del self._open[key]
            self._changed()
