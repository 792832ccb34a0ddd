"""Idempotent producers: duplicates, gaps, epochs, wrapping, expiry."""

import struct

import pytest
from crc32c import crc32c

from chiplog_broker.storage import producers
from chiplog_broker.storage.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    OvertakesRefusedError,
    StorageError,
)
from chiplog_broker.storage.producer_snapshot import decode_snapshot, encode_snapshot
from chiplog_broker.storage.producers import (
    MOST_IN_A_ROW,
    REMEMBERED_S,
    RETAINED_BATCHES,
    UNKNOWN_OFFSET,
    FirstSequences,
    ProducerEntry,
    ProducerStates,
    SentBatch,
)
from chiplog_broker.storage.transactions import EndedTransaction
from chiplog_wire.records.batch import MAX_SEQUENCE, BatchHeader
from chiplog_wire.records.control import EndMarker

EXPIRATION_MS = 1_000
NOW_MS = 1_700_000_000_000


def header(
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = 7,
    timestamp_ms: int = 100,
    attributes: int = 0,
) -> BatchHeader:
    return BatchHeader(
        base_offset=0,
        length_bytes=0,
        leader_epoch=0,
        magic=2,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=count,
    )


def states_after(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for written in headers:
        states.record(written, states.end_offset)
    return states


def test_the_next_sequence_passes() -> None:
    states = states_after(header(0, count=3))
    assert states.check(header(3)) is None


@pytest.mark.parametrize("sequence", [0, 5, 1_000])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    states = states_after(header(0, producer_id=-1))
    assert states.check(header(sequence)) is None


def begins(states: ProducerStates, first: FirstSequences, *sequences: int, **what: int) -> bool:
    """Whether a producer may begin with the last of these sequence numbers."""
    for sequence in sequences:
        refused = None
        try:
            assert states.check(header(sequence, **what), first) is None
        except OvertakesRefusedError as error:
            refused = error
    return refused is None


def test_an_unknown_producer_begins_at_0_where_a_batch_was_just_refused() -> None:
    """It may have been its first batch."""
    states, first = ProducerStates(), FirstSequences()
    assert not first
    first.all_at_0 = True
    assert first
    assert begins(states, first, 0)
    assert not begins(states, first, 5)
    assert not begins(states, first, MAX_SEQUENCE)
    assert states.check(header(5)) is None


def test_an_unknown_producer_begins_with_what_was_refused_before() -> None:
    """Its other batches were in flight, too, and arrive when it may begin anywhere again."""
    states, first = ProducerStates(), FirstSequences()
    first.all_at_0 = True
    assert not begins(states, first, 7, 9, 8)
    first.all_at_0 = False
    assert first
    assert not begins(states, first, 8)
    assert begins(states, first, 7)
    assert begins(states, first, 0)
    assert begins(states, first, 8, producer_id=6)
    assert begins(states, first, 8, epoch=1)


def test_what_follows_a_refused_batch_may_be_numbered_from_0_again() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.all_at_0 = True
    assert not begins(states, first, 5, MAX_SEQUENCE - 3)
    first.all_at_0 = False
    assert not begins(states, first, 5)
    assert begins(states, first, MAX_SEQUENCE - 3)


def test_later_is_what_is_ahead_by_less_than_half_of_all_sequence_numbers() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.note_refused(header(5))
    assert not begins(states, first, 5 + MOST_IN_A_ROW - 1)
    assert begins(states, first, 5 + MOST_IN_A_ROW)


def test_producer_0_is_bound_by_its_refused_batch_and_no_producer_by_none() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.note_refused(header(3, producer_id=-1))
    first.note_refused(header(-1, producer_id=8))
    assert not first
    first.note_refused(header(3, producer_id=0))
    assert not begins(states, first, 4, producer_id=0)


def test_a_batch_that_was_refused_for_its_number_shows_a_newer_epoch() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.all_at_0 = True
    assert not begins(states, first, 4, epoch=1)
    assert not begins(states, first, 0, epoch=0), "it is late"
    assert begins(states, first, 0, epoch=1)


def test_an_unchecked_batch_of_another_epoch_changes_nothing() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.note_refused(header(3, epoch=1), is_checked=False)
    first.note_refused(header(2, epoch=2), is_checked=False)
    assert not begins(states, first, 4, epoch=1)
    assert begins(states, first, 4, epoch=2)


@pytest.mark.parametrize("order", [(False, True), (True, False), (False, False)])
def test_one_checked_batch_is_enough_to_show_a_newer_epoch(order: tuple[bool, bool]) -> None:
    states, first = ProducerStates(), FirstSequences()
    for is_checked in order:
        first.note_refused(header(3, epoch=1), is_checked=is_checked)
    assert begins(states, first, 0, epoch=0) is not any(order)


def test_a_refused_batch_is_forgotten_some_time_after_it_came_first() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.all_at_0 = True
    for first.now_s in (10.0, 20.0, 30.0):
        assert not begins(states, first, 7, producer_id=1)
    assert not begins(states, first, 7, producer_id=2)
    first.all_at_0 = False
    first.now_s = 10.0 + REMEMBERED_S - 0.1
    assert not begins(states, first, 8, producer_id=1)
    first.now_s = 10.0 + REMEMBERED_S
    assert begins(states, first, 8, producer_id=1)
    first.forget_expired()
    assert not begins(states, first, 8, producer_id=2)
    first.now_s = 30.0 + REMEMBERED_S
    first.forget_expired()
    assert not first


def test_a_shorter_memory_ends_although_a_longer_one_is_before_it() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.note_refused(header(0, producer_id=1))
    first.note_refused(header(0, producer_id=2), 5.0)
    first.now_s = 5.0
    first.forget_expired()
    assert begins(states, first, 1, producer_id=2)
    assert not begins(states, first, 1, producer_id=1)


def test_of_a_producer_only_the_newest_epoch_is_remembered() -> None:
    states, first = ProducerStates(), FirstSequences()
    for epoch in (0, 2, 1):
        first.note_refused(header(0, epoch=epoch))
    assert not begins(states, first, 1, epoch=0), "it is late"
    assert not begins(states, first, 0, epoch=1), "it is late"
    assert not begins(states, first, 1, epoch=2)
    first.now_s = REMEMBERED_S
    first.note_refused(header(0, epoch=1))
    assert not begins(states, first, 1, epoch=1)


def test_a_broker_remembers_a_limited_number_of_refused_producers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "MOST_REFUSED", 2)
    states, first = ProducerStates(), FirstSequences()
    first.all_at_0 = True
    for producer_id, sequence in ((1, 9), (2, 9), (2, 7), (3, 9)):
        assert not begins(states, first, sequence, producer_id=producer_id)
    first.all_at_0 = False
    assert begins(states, first, 10, producer_id=1), "it was refused longest ago"
    assert not begins(states, first, 8, producer_id=2)
    assert not begins(states, first, 10, producer_id=3)


def test_of_many_refused_producers_the_last_ones_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "MOST_REFUSED", 2)
    states, first = ProducerStates(), FirstSequences()
    for producer_id in (1, 2, 1, 3):
        first.note_refused(header(0, producer_id=producer_id))
    assert begins(states, first, 1, producer_id=2)
    assert not begins(states, first, 1, producer_id=1)
    assert not begins(states, first, 1, producer_id=3)


@pytest.mark.parametrize("sequence", [1, 2, 4, 100])
def test_a_gap_or_an_overlap_is_refused(sequence: int) -> None:
    states = states_after(header(0, count=3))
    with pytest.raises(OutOfOrderSequenceError) as raised:
        states.check(header(sequence))
    assert raised.value.kafka_error == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_the_last_five_batches_are_known_again() -> None:
    sent = [header(number * 2, count=2) for number in range(8)]
    states = states_after(*sent)
    for number, again in list(enumerate(sent))[-RETAINED_BATCHES:]:
        known = states.check(again)
        assert known is not None
        assert (known.first_offset, known.last_offset) == (number * 2, number * 2 + 1)


def test_batches_before_the_last_five_are_stored_somewhere_below_them() -> None:
    """Sent to a leader before this one, and answered by it only after many that came later."""
    sent = [header(number * 2, count=2) for number in range(8)]
    states = states_after(*sent)
    for again in sent[:-RETAINED_BATCHES]:
        known = states.check(again)
        assert known == SentBatch(again.base_sequence, again.last_sequence, UNKNOWN_OFFSET, 5, -1)


@pytest.mark.parametrize(("sequence", "count"), [(5, 2), (4, 4), (0, 9), (4, 12), (15, 1)])
def test_what_is_partly_among_the_last_five_is_refused(sequence: int, count: int) -> None:
    """The producer numbered it otherwise before: nobody can say what of it is stored."""
    states = states_after(*(header(number * 2, count=2) for number in range(8)))
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(sequence, count=count))


def test_nothing_is_known_before_a_gap() -> None:
    """The leader had forgotten the producer, which then began anywhere; this replica had not."""
    before = [header(number) for number in range(3)]
    after = [header(number) for number in range(10, 20)]
    states = states_after(*before, *after)
    assert states.check(after[0]) is not None
    for again in (*before, header(9), header(9, count=2)):
        with pytest.raises(OutOfOrderSequenceError):
            states.check(again)


def test_a_snapshot_says_nothing_of_what_was_before_the_last_five() -> None:
    sent = [header(number) for number in range(8)]
    states = states_after(*sent)
    read = ProducerStates(8, *decode_snapshot(encode_snapshot(states, NOW_MS)))
    assert read.check(sent[-RETAINED_BATCHES]) is not None
    with pytest.raises(OutOfOrderSequenceError):
        read.check(sent[-RETAINED_BATCHES - 1])
    more = [header(number) for number in range(8, 11)]
    for one in more:
        read.record(one, read.end_offset)
    known = read.check(sent[-RETAINED_BATCHES])
    assert known is not None
    assert known.first_offset == UNKNOWN_OFFSET


def test_a_snapshot_of_a_first_batch_says_nothing_of_one_before_it() -> None:
    states = states_after(header(0))
    read = ProducerStates(1, *decode_snapshot(encode_snapshot(states, NOW_MS)))
    for number in range(1, 8):
        read.record(header(number), read.end_offset)
    assert read.check(header(0)) is not None
    with pytest.raises(OutOfOrderSequenceError):
        read.check(header(MAX_SEQUENCE))


def test_an_epoch_says_nothing_of_the_one_before() -> None:
    states = states_after(*(header(number) for number in range(8)))
    states.record(header(0, epoch=1), 8)
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(MAX_SEQUENCE, epoch=1))
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(5, epoch=1))


def test_sequences_wrap_behind_the_last_five() -> None:
    start = MAX_SEQUENCE - 3
    sent = [header((start + number) & MAX_SEQUENCE) for number in range(9)]
    states = states_after(*sent)
    for again in sent:
        assert states.check(again) is not None
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(start - 1))


def test_half_of_all_sequence_numbers_are_ahead() -> None:
    """A producer that has used all of them begins again with 0: that is no duplicate for ever."""
    entry = ProducerEntry(0)
    for number in range(4):
        first, last = number << 29, ((number + 1) << 29) - 1
        entry.add(SentBatch(first, last, first, last, 0))
    assert entry.in_a_row == MOST_IN_A_ROW
    assert entry.next_sequence == 0
    entry.add(SentBatch(0, 0, 2**31, 2**31, 0))
    assert entry.earlier(2, 2) is None


def test_the_same_start_with_another_length_is_no_duplicate() -> None:
    states = states_after(header(0, count=3))
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(0, count=2))


def test_sequences_wrap() -> None:
    states = states_after(header(MAX_SEQUENCE - 1, count=3))
    assert states.check(header(1)) is None
    assert states.check(header(MAX_SEQUENCE - 1, count=3)) is not None
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(0))


def test_a_new_epoch_begins_with_zero() -> None:
    states = states_after(header(0), header(1))
    assert states.check(header(0, epoch=1)) is None
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(2, epoch=1))
    states.record(header(0, epoch=1), 2)
    assert states.check(header(1, epoch=1)) is None
    with pytest.raises(InvalidProducerEpochError):
        states.check(header(2, epoch=0))


def test_a_producer_that_is_idle_is_forgotten() -> None:
    states = ProducerStates()
    states.pass_time(5_000)
    states.record(header(0), 0)
    states.pass_time(5_999)
    states.forget_idle(EXPIRATION_MS)
    assert states.get(7) is not None
    states.pass_time(6_000)
    states.forget_idle(EXPIRATION_MS)
    assert states.get(7) is None
    assert states.check(header(9)) is None


def test_who_writes_is_not_idle() -> None:
    states = ProducerStates()
    for step, producer_id in enumerate((1, 2, 1, 3)):
        states.pass_time(step * 600)
        states.record(header(step, producer_id=producer_id), step)
    states.forget_idle(EXPIRATION_MS)
    assert [producer_id for producer_id, _ in states] == [1, 3]


@pytest.mark.parametrize("timestamp_ms", [-1, 0, 10**9, 2**63 - 1])
def test_the_times_of_records_let_nobody_expire(timestamp_ms: int) -> None:
    sent = [header(number, timestamp_ms=timestamp_ms * (number % 2)) for number in range(4)]
    states = states_after(header(0, producer_id=8), *sent)
    states.pass_time(0)
    states.forget_idle(EXPIRATION_MS)
    assert states.check(header(0, producer_id=8)) is not None
    for again in sent:
        assert states.check(again) is not None


def test_who_has_a_transaction_open_is_not_forgotten() -> None:
    states = states_after(header(0, attributes=0x10), header(0, producer_id=8))
    states.pass_time(0)
    states.pass_time(EXPIRATION_MS)
    states.forget_idle(EXPIRATION_MS)
    assert [producer_id for producer_id, _ in states] == [7]


def test_a_marker_ends_the_transaction() -> None:
    states = states_after(header(0, attributes=0x10))
    entry = states.get(7)
    assert entry is not None
    assert entry.transaction_start == 0
    ended = states.record(header(-1, attributes=0x30, epoch=1), 1, EndMarker(False, 4))
    assert (entry.transaction_start, entry.coordinator_epoch) == (-1, 4)
    assert ended == EndedTransaction(7, 0, 1, 2, is_commit=False)
    assert entry.epoch == 1
    assert states.check(header(0, epoch=1)) is None


def restored(states: ProducerStates, now_ms: int = NOW_MS) -> ProducerStates:
    """The states as the next process finds them in a snapshot of that time."""
    return ProducerStates(states.end_offset, *decode_snapshot(encode_snapshot(states, now_ms)))


def test_a_snapshot_brings_back_the_last_five_batches_of_each() -> None:
    sent = [header(number * 2, count=2) for number in range(8)]
    states = restored(states_after(*sent, header(5, producer_id=8, epoch=3)))
    for number, again in enumerate(sent[-RETAINED_BATCHES:], len(sent) - RETAINED_BATCHES):
        known = states.check(again)
        assert known is not None
        assert (known.first_offset, known.last_offset) == (number * 2, number * 2 + 1)
        assert known.timestamp_ms == again.max_timestamp_ms
    assert states.check(header(16)) is None
    with pytest.raises(OutOfOrderSequenceError):
        states.check(sent[-RETAINED_BATCHES - 1])
    with pytest.raises(StorageError):
        states.check(header(5, producer_id=8, epoch=2))


def test_a_snapshot_brings_back_transactions() -> None:
    states = restored(states_after(header(0, attributes=0x10), header(1, attributes=0x10)))
    entry = states.get(7)
    assert entry is not None
    assert (entry.epoch, entry.transaction_start, entry.coordinator_epoch) == (0, 0, -1)


@pytest.mark.parametrize("wall_ms", [0, NOW_MS, -(10**12)])
def test_who_was_idle_is_forgotten_after_restarts_too(wall_ms: int) -> None:
    """Time while no process ran counts for nothing, and so does the wall clock."""
    states = ProducerStates()
    for number in range(3):
        states.pass_time(number * 10**6)
        states.pass_time(number * 10**6 + 400)
        states.record(header(number, producer_id=number + 1), number)
        states.forget_idle(EXPIRATION_MS)
        assert len(states) == number + 1
        states = restored(states, wall_ms * number)
    states.pass_time(0)
    states.pass_time(200)
    states.forget_idle(EXPIRATION_MS)
    assert [producer_id for producer_id, _ in states] == [2, 3]
    states.pass_time(1_000)
    states.forget_idle(EXPIRATION_MS)
    assert len(states) == 0


def test_a_snapshot_of_one_entry_a_producer_is_read() -> None:
    """As Kafka writes it, and Chiplog did: what it says of time is the records' own."""
    rows = b"".join(
        struct.pack(">qhiqiqiq", producer_id, 0, 3, 9, 1, timestamp_ms, -1, -1)
        for producer_id, timestamp_ms in ((1, 5), (2, 2**62))
    )
    body = struct.pack(">i", 2) + rows
    states = ProducerStates(10, *decode_snapshot(struct.pack(">hI", 1, crc32c(body)) + body))
    states.pass_time(0)
    states.forget_idle(1)
    for producer_id in (1, 2):
        assert states.check(header(2, count=2, producer_id=producer_id)) is not None


def test_who_was_idle_the_longest_is_found_whatever_the_order_of_a_snapshot() -> None:
    """Kafka writes a snapshot in the order of a hash table."""
    entries = []
    for producer_id, written_ms in ((1, 0), (2, -700), (3, -300)):
        entry = ProducerEntry(epoch=0)
        entry.written_ms = written_ms
        entries.append((producer_id, entry))
    states = ProducerStates(10, entries)
    states.pass_time(0)
    states.pass_time(300)
    states.forget_idle(EXPIRATION_MS)
    assert [producer_id for producer_id, _ in states] == [3, 1]


def test_producer_0_is_one_and_minus_1_is_none() -> None:
    states = states_after(header(0, producer_id=0), header(0, producer_id=-1))
    assert [producer_id for producer_id, _ in states] == [0]


def test_a_producer_that_is_refused_in_a_new_epoch_was_refused_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "MOST_REFUSED", 2)
    states, first = ProducerStates(), FirstSequences()
    for producer_id, epoch in ((1, 0), (2, 0), (1, 1), (3, 0)):
        first.note_refused(header(0, producer_id=producer_id, epoch=epoch))
    assert begins(states, first, 1, producer_id=2)
    assert not begins(states, first, 1, producer_id=1, epoch=1)


def test_a_batch_that_is_changed_on_its_way_later_is_remembered_as_long_as_before() -> None:
    states, first = ProducerStates(), FirstSequences()
    first.note_refused(header(0))
    first.now_s = 1.0
    first.note_refused(header(0), 5.0)
    first.now_s = REMEMBERED_S - 0.1
    assert not begins(states, first, 1)
    first.now_s = REMEMBERED_S
    assert begins(states, first, 1)
