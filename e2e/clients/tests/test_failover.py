"""What counts as the end of a failover, on records as they could have been stored."""

import pytest

from e2e.clients.failover import (
    Acknowledged,
    Stored,
    first_of_successor_s,
    is_found,
    longest_gap_s,
)

OLD, NEW = 4, 5


def acknowledged(*times_s: float) -> tuple[Acknowledged, ...]:
    return tuple(Acknowledged(b"%d" % n, n, at_s) for n, at_s in enumerate(times_s))


def stored(*epochs: int) -> dict[int, Stored]:
    return {n: Stored(b"%d" % n, epoch) for n, epoch in enumerate(epochs)}


def test_an_answer_of_the_old_leader_after_the_kill_does_not_count() -> None:
    records = acknowledged(1.0, 2.1, 5.0, 5.1)
    found = stored(OLD, OLD, NEW, NEW)
    assert first_of_successor_s(records, found, killed_s=2.0) == 5.0


def test_without_a_later_epoch_nobody_succeeded() -> None:
    with pytest.raises(ValueError, match="higher leader epoch than 4"):
        first_of_successor_s(acknowledged(1.0, 2.1), stored(OLD, OLD), killed_s=2.0)


def test_a_record_counts_as_found_only_with_its_value_at_its_offset() -> None:
    (one,) = acknowledged(1.0)
    assert is_found(one, {0: Stored(b"0", OLD)})
    assert not is_found(one, {0: Stored(b"1", OLD)})
    assert not is_found(one, {1: Stored(b"0", OLD)})


def test_the_longest_gap_is_between_answers_in_order_of_time() -> None:
    assert longest_gap_s(acknowledged(3.0, 1.0, 1.5)) == 1.5
    assert longest_gap_s(acknowledged(1.0)) == 0
