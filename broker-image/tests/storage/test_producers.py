"""Idempotent producers: duplicates, gaps, epochs, wrapping, expiry."""

import pytest

from chiplog_broker.records.batch import MAX_SEQUENCE, NO_PRODUCER_ID, BatchHeader
from chiplog_broker.storage.errors import (
    InvalidProducerEpochError,
    OutOfOrderSequenceError,
    StorageError,
)
from chiplog_broker.storage.producer_snapshot import decode_snapshot, encode_snapshot
from chiplog_broker.storage.producers import RETAINED_BATCHES, ProducerStates

EXPIRATION_MS = 1_000


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
    states = ProducerStates(EXPIRATION_MS)
    for written in headers:
        states.record(written, states.end_offset)
    return states


def test_the_next_sequence_passes() -> None:
    states = states_after(header(0, count=3))
    assert states.check(header(3)) is None


@pytest.mark.parametrize("sequence", [0, 5, 1_000])
def test_an_unknown_producer_may_begin_anywhere(sequence: int) -> None:
    assert ProducerStates(EXPIRATION_MS).check(header(sequence)) is None


@pytest.mark.parametrize("sequence", [1, 2, 4, 100])
def test_a_gap_or_an_overlap_is_refused(sequence: int) -> None:
    states = states_after(header(0, count=3))
    with pytest.raises(OutOfOrderSequenceError) as raised:
        states.check(header(sequence))
    assert raised.value.kafka_error == "OUT_OF_ORDER_SEQUENCE_NUMBER"


def test_the_last_five_batches_are_known_again() -> None:
    sent = [header(number * 2, count=2) for number in range(8)]
    states = states_after(*sent)
    for number, again in enumerate(sent):
        if number < len(sent) - RETAINED_BATCHES:
            with pytest.raises(OutOfOrderSequenceError):
                states.check(again)
        else:
            known = states.check(again)
            assert known is not None
            assert (known.first_offset, known.last_offset) == (number * 2, number * 2 + 1)


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


def test_expiry_goes_by_the_logs_own_time() -> None:
    states = states_after(header(0, timestamp_ms=100))
    states.record(header(0, producer_id=NO_PRODUCER_ID, timestamp_ms=1_099), 1)
    assert states.get(7) is not None
    states.record(header(0, producer_id=NO_PRODUCER_ID, timestamp_ms=1_100), 2)
    assert states.get(7) is None
    assert states.check(header(9)) is None


def test_a_producer_of_old_records_does_not_expire_while_it_writes() -> None:
    """An import of last year's records beside today's keeps its place in the sequence."""
    states = states_after(
        header(0, producer_id=1, timestamp_ms=10**9),
        header(0, producer_id=2, timestamp_ms=5),
    )
    assert states.check(header(1, producer_id=2)) is None
    with pytest.raises(OutOfOrderSequenceError):
        states.check(header(2, producer_id=2))


def test_a_marker_ends_the_transaction() -> None:
    states = states_after(header(0, attributes=0x10))
    entry = states.get(7)
    assert entry is not None
    assert entry.transaction_start == 0
    states.record(header(-1, attributes=0x30, epoch=1), 1)
    assert entry.transaction_start == -1
    assert entry.epoch == 1
    assert states.check(header(0, epoch=1)) is None


def test_a_snapshot_brings_back_the_last_batch_of_each() -> None:
    states = states_after(header(0, count=2), header(2, count=4), header(5, producer_id=8, epoch=3))
    again = ProducerStates(EXPIRATION_MS, states.end_offset)
    again.restore(decode_snapshot(encode_snapshot(states)))
    known = again.check(header(2, count=4))
    assert known is not None
    assert (known.first_offset, known.last_offset) == (2, 5)
    assert again.check(header(6)) is None
    with pytest.raises(StorageError):
        again.check(header(5, producer_id=8, epoch=2))
    assert again.log_time_ms == states.log_time_ms
