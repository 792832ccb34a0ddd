"""What a leader promised stands until a map answers it or the topic is deleted for good."""

from uuid import UUID

import pytest

from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.partitions.isr import BindingProposal
from chiplog_broker.partitions.proposals import Proposals
from chiplog_core.config.effective import TopicConfig
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.broker_status import IsrProposal

ORDERS, CLICKS = UUID(int=7), UUID(int=8)
ISR = (ReplicaRef(BrokerId(1), Session(4)), ReplicaRef(BrokerId(2), Session(5)))


def view(index: int, partition_epoch: int = 9) -> PartitionView:
    return PartitionView(
        index, 1, 3, (1, 2), (1, 2), partition_epoch=partition_epoch, leader_session=4
    )


def promise(base_partition_epoch: int = 9) -> BindingProposal:
    return BindingProposal(base_partition_epoch=base_partition_epoch, isr=ISR)


def applied(*views: PartitionView, topic_id: UUID = ORDERS) -> TopicView:
    return TopicView("orders", topic_id, views, TopicConfig({}, {}))


class Counted(Proposals):
    """Says how often it was told of a change."""

    def __init__(self) -> None:
        super().__init__(self._count)
        self.changes = 0

    def _count(self) -> None:
        self.changes += 1


def test_what_the_operator_gets_names_all_that_it_depends_on() -> None:
    made = Counted()
    assert (len(made), made.oldest(9), made.open_proposal(ORDERS, 2)) == (0, (), None)
    made.make(ORDERS, view(2), promise())
    assert made.oldest(9) == (
        IsrProposal(
            topic_id=TopicId(ORDERS.bytes),
            partition=PartitionIndex(2),
            session=Session(4),
            leader_epoch=LeaderEpoch(3),
            base_partition_epoch=PartitionEpoch(9),
            isr=ISR,
        ),
    )
    assert made.open_proposal(ORDERS, 2) == promise()
    assert (made.open_proposal(ORDERS, 1), made.open_proposal(CLICKS, 2)) == (None, None)
    assert (len(made), made.changes) == (1, 1)


def test_a_promise_is_neither_changed_nor_withdrawn() -> None:
    made = Counted()
    made.make(ORDERS, view(2), promise())
    with pytest.raises(AssertionError):
        made.make(ORDERS, view(2), promise(10))
    assert made.open_proposal(ORDERS, 2) == promise(9)


def test_only_a_higher_partition_epoch_of_this_very_partition_answers() -> None:
    made = Counted()
    made.applied(applied(view(0, 100)))
    for index in (0, 2):
        made.make(ORDERS, view(index), promise())
    made.applied(applied(view(0), view(1, 100), view(2)))
    made.applied(applied(view(0, 100), view(2, 100), topic_id=CLICKS))
    assert (len(made), made.changes) == (2, 2)
    made.applied(applied(view(0), view(1, 100), view(2, 10)))
    assert made.open_proposal(ORDERS, 2) is None
    assert made.open_proposal(ORDERS, 0) == promise()
    assert (len(made), made.changes) == (1, 3)


def test_with_the_topic_go_its_promises_only() -> None:
    made = Counted()
    for topic_id, index in ((ORDERS, 0), (CLICKS, 0), (ORDERS, 1)):
        made.make(topic_id, view(index), promise())
    made.forget(ORDERS)
    assert [one.topic_id for one in made.oldest(9)] == [TopicId(CLICKS.bytes)]
    assert made.changes == 5


def test_the_oldest_are_reported_first() -> None:
    made = Counted()
    for index in range(5):
        made.make(ORDERS, view(index), promise())
    assert [one.partition for one in made.oldest(3)] == [0, 1, 2]
    made.applied(applied(view(0, 10)))
    assert [one.partition for one in made.oldest(3)] == [1, 2, 3]
