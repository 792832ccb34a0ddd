"""For how long a refused batch is remembered."""

import pytest

from chiplog_broker.partitions.refusals import ALIKE_S, REMEMBERED_S, Refusals
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import BatchHeader, read_header
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

NOW_S = 100.0
REFUSED = ErrorCode.not_leader_or_follower


def header(sequence: int) -> BatchHeader:
    producer = Producer(producer_id=7, epoch=0, base_sequence=sequence)
    return read_header(build_batch([NewRecord(b"x")], BatchOptions(producer=producer)))


def test_without_a_refusal() -> None:
    refusals = Refusals()
    assert not refusals
    assert not refusals.first_sequences.refuses(header(5))


@pytest.mark.parametrize(
    ("after_s", "code"), [(0, REFUSED), (ALIKE_S - 0.01, REFUSED), (ALIKE_S, ErrorCode.none)]
)
def test_what_follows_is_refused_alike_for_some_seconds(after_s: float, code: ErrorCode) -> None:
    refusals = Refusals()
    refusals.note(REFUSED, NOW_S)
    assert refusals
    assert refusals.recent_code(NOW_S + after_s) is code
    assert bool(refusals) == (code is REFUSED)


@pytest.mark.parametrize(
    ("after_s", "is_refused"), [(ALIKE_S, True), (REMEMBERED_S - 0.01, True), (REMEMBERED_S, False)]
)
def test_a_batch_is_not_taken_before_one_that_is_sent_again(
    after_s: float, is_refused: bool
) -> None:
    """The seconds may end between two batches of a producer."""
    refusals = Refusals()
    refusals.note(REFUSED, NOW_S - 1)
    refusals.recent_code(NOW_S)
    assert refusals.first_sequences.refuses(header(7))
    assert refusals.recent_code(NOW_S + after_s) is ErrorCode.none, "others may go on"
    assert bool(refusals) == is_refused
    assert refusals.first_sequences.refuses(header(8)) == is_refused
    assert not refusals.first_sequences.refuses(header(7))


def test_a_refused_batch_of_long_ago_is_not_remembered_by_a_new_refusal() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, NOW_S)
    refusals.recent_code(NOW_S)
    assert refusals.first_sequences.refuses(header(7))
    later_s = NOW_S + REMEMBERED_S
    refusals.note(REFUSED, later_s)
    refusals.recent_code(later_s)
    assert refusals.first_sequences.refuses(header(8))
    refusals.recent_code(later_s + ALIKE_S)
    assert not refusals.first_sequences.refuses(header(8))
