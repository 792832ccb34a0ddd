"""Verifications end with the next marker of their producer, and with the leadership."""

from chiplog_broker.partitions.verification import Verifications


def test_a_marker_ends_the_verifications_of_its_producer() -> None:
    verifications = Verifications()
    first, second, other = (verifications.begin(producer_id) for producer_id in (5, 5, 6))
    verifications.marker_appended(5)
    assert [one.is_valid for one in (first, second, other)] == [False, False, True]
    later = verifications.begin(5)
    assert later.is_valid
    verifications.end(first)
    assert later.is_valid, "an older one that ends does not matter"
    verifications.marker_appended(7)
    assert len(verifications) == 2


def test_what_has_ended_takes_no_memory() -> None:
    verifications = Verifications()
    first, second = verifications.begin(5), verifications.begin(5)
    verifications.end(first)
    verifications.end(first)
    assert (len(verifications), first.is_valid, second.is_valid) == (1, False, True)
    verifications.end(second)
    assert len(verifications) == 0


def test_another_leader_may_have_written_markers() -> None:
    verifications = Verifications()
    begun = [verifications.begin(producer_id) for producer_id in (5, 6)]
    verifications.give_up()
    assert not any(one.is_valid for one in begun)
    assert len(verifications) == 0
