"""For how long a refused batch is remembered."""

import pytest

from chiplog_broker.partitions.refusals import ALIKE_S, Refusals
from chiplog_broker.storage.producers import MOST_REFUSED, REMEMBERED_S
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import BatchHeader, read_header
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

NOW_S = 100.0
REFUSED = ErrorCode.not_leader_or_follower


def batch(sequence: int, producer_id: int = 7, epoch: int = 0) -> memoryview:
    producer = Producer(producer_id=producer_id, epoch=epoch, base_sequence=sequence)
    return memoryview(build_batch([NewRecord(b"x")], BatchOptions(producer=producer)))


def code_at(refusals: Refusals, now_s: float, producer_id: int = 7) -> ErrorCode:
    """How a gap before this producer's next batch is answered at this time."""
    refusals.pass_time(now_s)
    return refusals.code_of_gap(batch(9, producer_id))


def header(sequence: int, producer_id: int = 7, epoch: int = 0) -> BatchHeader:
    return read_header(batch(sequence, producer_id, epoch))


def changed(sequence: int, epoch: int = 0) -> memoryview:
    """A batch of which a bit was changed on its way."""
    one = memoryview(bytearray(batch(sequence, epoch=epoch)))
    one[-1] ^= 1
    return one


def test_without_a_refusal() -> None:
    refusals = Refusals()
    assert not refusals
    assert not refusals.first_sequences.refuses(header(5))


@pytest.mark.parametrize(
    ("after_s", "code"), [(0, REFUSED), (ALIKE_S - 0.01, REFUSED), (ALIKE_S, ErrorCode.none)]
)
def test_what_follows_is_refused_alike_for_some_seconds(after_s: float, code: ErrorCode) -> None:
    refusals = Refusals()
    refusals.note_unknown(REFUSED, NOW_S)
    assert refusals
    assert code_at(refusals, NOW_S + after_s) is code
    assert bool(refusals) == (code is REFUSED)


@pytest.mark.parametrize(
    ("after_s", "is_refused"), [(ALIKE_S, True), (REMEMBERED_S - 0.01, True), (REMEMBERED_S, False)]
)
def test_a_batch_is_not_taken_before_one_that_is_sent_again(
    after_s: float, is_refused: bool
) -> None:
    """The seconds may end between two batches of a producer."""
    refusals = Refusals()
    refusals.note_unknown(REFUSED, NOW_S - 1)
    refusals.pass_time(NOW_S)
    assert refusals.first_sequences.refuses(header(7))
    assert code_at(refusals, NOW_S + after_s) is ErrorCode.none, "others may go on"
    assert bool(refusals) == is_refused
    assert refusals.first_sequences.refuses(header(8)) == is_refused
    assert not refusals.first_sequences.refuses(header(7))


def test_a_refused_batch_of_long_ago_is_not_remembered_by_a_new_refusal() -> None:
    refusals = Refusals()
    refusals.note_unknown(REFUSED, NOW_S)
    refusals.pass_time(NOW_S)
    assert refusals.first_sequences.refuses(header(7))
    later_s = NOW_S + REMEMBERED_S
    refusals.note_unknown(REFUSED, later_s)
    refusals.pass_time(later_s)
    assert refusals.first_sequences.refuses(header(8))
    refusals.pass_time(later_s + ALIKE_S)
    assert not refusals.first_sequences.refuses(header(8))


def test_a_refusal_binds_only_the_producer_of_the_refused_batch() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, batch(0), NOW_S)
    assert code_at(refusals, NOW_S) is REFUSED
    assert not refusals.first_sequences.refuses(header(500, producer_id=8))
    assert refusals.first_sequences.refuses(header(1))
    assert not refusals.first_sequences.refuses(header(0))


@pytest.mark.parametrize("refused", [batch(0, producer_id=-1), memoryview(b"no batch")])
def test_a_refused_batch_that_nobody_can_overtake(refused: memoryview) -> None:
    refusals = Refusals()
    refusals.note(REFUSED, refused, NOW_S)
    assert not refusals


def test_refusals_do_not_extend_the_seconds_in_which_all_begin_at_0() -> None:
    refusals = Refusals()
    refusals.note_unknown(REFUSED, NOW_S)
    for second in range(1, 5):
        refusals.note(REFUSED, batch(0), NOW_S + second)
        assert refusals.first_sequences.refuses(header(second, producer_id=second))
    refusals.note(REFUSED, batch(0), NOW_S + ALIKE_S)
    assert not refusals.first_sequences.refuses(header(500, producer_id=8))
    assert code_at(refusals, NOW_S + ALIKE_S) is REFUSED


def test_a_batch_is_remembered_from_its_last_refusal_on() -> None:
    """Not from the refusal of a later one: the producer may have given up the first."""
    refusals = Refusals()
    for at_s in (0.0, 20.0, 40.0):
        refusals.note(REFUSED, batch(5), NOW_S + at_s)
    refusals.note(REFUSED, batch(6), NOW_S + 50)
    last_s = NOW_S + 40 + REMEMBERED_S
    refusals.pass_time(last_s - 0.01)
    assert refusals.first_sequences.refuses(header(6))
    refusals.pass_time(last_s)
    assert not refusals.first_sequences.refuses(header(6))


def test_an_earlier_batch_that_is_refused_later_is_the_first_one() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, batch(6), NOW_S)
    refusals.note(REFUSED, batch(5), NOW_S)
    assert refusals.first_sequences.refuses(header(6))
    assert not refusals.first_sequences.refuses(header(5))


OTHER = ErrorCode.not_enough_replicas


def test_a_gap_is_answered_as_the_batch_of_this_producer_was() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, batch(5), NOW_S)
    refusals.note(OTHER, batch(5, producer_id=8), NOW_S + 1)
    refusals.note(OTHER, batch(5, producer_id=8), NOW_S + 4)
    assert code_at(refusals, NOW_S + 4, producer_id=7) is REFUSED
    assert code_at(refusals, NOW_S + 4, producer_id=8) is OTHER
    assert code_at(refusals, NOW_S + 4, producer_id=9) is ErrorCode.none, "a gap of its own"
    assert code_at(refusals, NOW_S + ALIKE_S, producer_id=7) is ErrorCode.none
    assert code_at(refusals, NOW_S + ALIKE_S, producer_id=8) is OTHER
    assert code_at(refusals, NOW_S + 4 + ALIKE_S, producer_id=8) is ErrorCode.none


def test_a_gap_of_any_producer_may_come_from_refusals_of_unknown_ones() -> None:
    refusals = Refusals()
    refusals.note_unknown(REFUSED, NOW_S)
    refusals.note(OTHER, batch(5), NOW_S)
    assert code_at(refusals, NOW_S, producer_id=9) is REFUSED
    assert code_at(refusals, NOW_S, producer_id=7) is OTHER


def test_the_codes_of_producers_that_are_too_many_are_for_all() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, batch(5, producer_id=0), NOW_S)
    for producer_id in range(1, MOST_REFUSED):
        refusals.note(OTHER, batch(5, producer_id), NOW_S + 1)
    refusals.pass_time(NOW_S + 2)
    assert refusals.code_of_gap(batch(9, producer_id=5_000)) is ErrorCode.none
    refusals.note(OTHER, batch(5, producer_id=MOST_REFUSED), NOW_S + 2)
    assert code_at(refusals, NOW_S + 2, producer_id=0) is REFUSED, "although it is forgotten"
    assert code_at(refusals, NOW_S + 2, producer_id=1) is OTHER
    assert code_at(refusals, NOW_S + ALIKE_S, producer_id=0) is ErrorCode.none


def test_a_surplus_of_producers_does_not_shorten_the_first_seconds_of_a_leadership() -> None:
    """A leader that refused as many producers as it remembers resigns, and leads again."""
    refusals = Refusals()
    for producer_id in range(MOST_REFUSED):
        refusals.note(OTHER, batch(5, producer_id), NOW_S - 4)
    refusals.note_unknown(REFUSED, NOW_S)
    refusals.note(OTHER, batch(5, producer_id=5_000), NOW_S)
    assert code_at(refusals, NOW_S + ALIKE_S - 1, producer_id=9_999) is REFUSED


def test_an_invalid_batch_is_not_overtaken_and_has_no_code() -> None:
    refusals = Refusals()
    refusals.note_invalid(batch(0), NOW_S)
    assert refusals
    assert refusals.first_sequences.refuses(header(1))
    assert not refusals.first_sequences.refuses(header(0))
    assert code_at(refusals, NOW_S) is ErrorCode.none
    refusals.pass_time(NOW_S + ALIKE_S)
    assert not refusals


def test_a_batch_without_a_sequence_number_binds_nobody() -> None:
    """Refused batches are not checked first, and a negative number would be before all others."""
    refusals = Refusals()
    refusals.note(REFUSED, batch(-2), NOW_S)
    assert not refusals.first_sequences.refuses(header(0))


def test_a_changed_batch_takes_the_place_of_no_other_epoch_while_that_is_remembered() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, batch(0, 6), NOW_S)  # it stays longer than those behind it
    refusals.note_invalid(batch(0), NOW_S)
    refusals.note_invalid(changed(0, epoch=1), NOW_S)
    assert not refusals.first_sequences.refuses(header(1, epoch=1))
    assert refusals.first_sequences.refuses(header(1))
    refusals.note_invalid(changed(0, epoch=1), NOW_S + ALIKE_S)
    assert refusals.first_sequences.refuses(header(1, epoch=1))


def test_a_changed_copy_of_a_batch_does_not_let_an_older_epoch_begin() -> None:
    refusals = Refusals()
    refusals.note(REFUSED, batch(0, epoch=1), NOW_S)
    refusals.note(REFUSED, changed(0, epoch=1), NOW_S)
    assert refusals.first_sequences.refuses(header(0))
    assert not refusals.first_sequences.refuses(header(0, epoch=1))
