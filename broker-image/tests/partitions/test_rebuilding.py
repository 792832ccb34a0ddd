"""The catch-up goal of a new copy, and when it is reached or dropped."""

from dataclasses import replace

from chiplog_broker.metadata.view import NO_LEADER, PartitionView
from chiplog_broker.partitions.rebuilding import CatchUpGoal, CatchUpGoals
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.ids import BrokerId, ReplicaRef, Session

ORDERS = TopicPartition("orders", 0)
OWN = 2


def ref(broker_id: int) -> ReplicaRef:
    return ReplicaRef(BrokerId(broker_id), Session(1))


LISTED = PartitionView(
    index=0,
    leader_id=1,
    leader_epoch=5,
    replicas=(1, 2),
    isr=(1, 2),
    isr_refs=(ref(1), ref(2)),
    live_refs=(ref(1), ref(2)),
)
NOT_LISTED = replace(LISTED, isr=(1,), isr_refs=(ref(1),))


def goals_with_one(end_offset: int = 10, leader_epoch: int = 5) -> CatchUpGoals:
    goals = CatchUpGoals()
    goals.add(ORDERS, CatchUpGoal(end_offset, leader_epoch))
    return goals


def test_it_is_paid_when_the_copy_has_come_as_far() -> None:
    goals = goals_with_one()
    assert goals.is_open(ORDERS)
    assert not goals.reached(ORDERS, 9)
    assert goals.is_open(ORDERS)
    assert goals.reached(ORDERS, 10)
    assert not goals.is_open(ORDERS)
    assert not goals.reached(ORDERS, 10)


def test_in_the_leader_epoch_that_counted_it_no_map_ends_the_debt() -> None:
    """Its leader believes what it was told before, and may propose it for that."""
    goals = goals_with_one()
    for view in (LISTED, NOT_LISTED, LISTED):
        goals.map_applied(ORDERS, view, OWN)
        assert goals.is_open(ORDERS)


def test_a_later_leader_lets_it_off_by_not_listing_it() -> None:
    goals = goals_with_one()
    later = replace(LISTED, leader_epoch=6)
    goals.map_applied(ORDERS, later, OWN)
    assert goals.is_open(ORDERS), "listed for what it had, at the floor"
    goals.map_applied(ORDERS, replace(later, isr_refs=(ref(1),)), OWN)
    assert not goals.is_open(ORDERS)


def test_nobody_leading_is_not_a_word_about_the_copy_under_the_old_leader() -> None:
    goals = goals_with_one()
    goals.map_applied(ORDERS, replace(NOT_LISTED, leader_id=NO_LEADER), OWN)
    assert goals.is_open(ORDERS)


def test_a_copy_that_is_damaged_too_owes_the_more_of_both() -> None:
    goals = goals_with_one(end_offset=10, leader_epoch=5)
    goals.add(ORDERS, CatchUpGoal(3, 6))
    goals.map_applied(ORDERS, replace(NOT_LISTED, leader_epoch=6), OWN)
    assert not goals.reached(ORDERS, 9)
    assert goals.reached(ORDERS, 10)


def test_what_is_deleted_owes_nothing() -> None:
    goals = goals_with_one()
    goals.forget(ORDERS)
    goals.forget(ORDERS)
    assert list(goals) == []
