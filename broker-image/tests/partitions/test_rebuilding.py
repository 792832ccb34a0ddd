"""What a new copy owes, and when that is paid."""

from dataclasses import replace

from chiplog_broker.metadata.view import NO_LEADER, PartitionView
from chiplog_broker.partitions.rebuilding import Debt, Debts
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


def owing(end_offset: int = 10, leader_epoch: int = 5) -> Debts:
    debts = Debts()
    debts.owe(ORDERS, Debt(end_offset, leader_epoch))
    return debts


def test_it_is_paid_when_the_copy_has_come_as_far() -> None:
    debts = owing()
    assert debts.owes(ORDERS)
    assert not debts.reached(ORDERS, 9)
    assert debts.owes(ORDERS)
    assert debts.reached(ORDERS, 10)
    assert not debts.owes(ORDERS)
    assert not debts.reached(ORDERS, 10)


def test_in_the_leader_epoch_that_counted_it_no_map_ends_the_debt() -> None:
    """Its leader believes what it was told before, and may propose it for that."""
    debts = owing()
    for view in (LISTED, NOT_LISTED, LISTED):
        debts.map_applied(ORDERS, view, OWN)
        assert debts.owes(ORDERS)


def test_a_later_leader_lets_it_off_by_not_listing_it() -> None:
    debts = owing()
    later = replace(LISTED, leader_epoch=6)
    debts.map_applied(ORDERS, later, OWN)
    assert debts.owes(ORDERS), "listed for what it had, at the floor"
    debts.map_applied(ORDERS, replace(later, isr_refs=(ref(1),)), OWN)
    assert not debts.owes(ORDERS)


def test_nobody_leading_is_not_a_word_about_the_copy_under_the_old_leader() -> None:
    debts = owing()
    debts.map_applied(ORDERS, replace(NOT_LISTED, leader_id=NO_LEADER), OWN)
    assert debts.owes(ORDERS)


def test_a_copy_that_is_damaged_too_owes_the_more_of_both() -> None:
    debts = owing(end_offset=10, leader_epoch=5)
    debts.owe(ORDERS, Debt(3, 6))
    debts.map_applied(ORDERS, replace(NOT_LISTED, leader_epoch=6), OWN)
    assert not debts.reached(ORDERS, 9)
    assert debts.reached(ORDERS, 10)


def test_what_is_deleted_owes_nothing() -> None:
    debts = owing()
    debts.forget(ORDERS)
    debts.forget(ORDERS)
    assert list(debts) == []
