"""What a follower counts for many batches at once is what a leader counts for each."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.segment import Segment
from chiplog_broker.storage.transactions import EndedTransaction
from chiplog_wire.records.batch import (
    CONTROL_MASK,
    HEADER_BYTES,
    MAX_SEQUENCE,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
    seal,
    set_place,
)
from chiplog_wire.records.control import EndMarker, build_marker, read_markers
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.storage.conftest import StorageKit

NOW_MS = 1_000_000
ATTRIBUTES_AT = 21
RECORD_COUNT_AT = 57
PRODUCERS = st.one_of(
    st.just(Producer()),
    st.builds(
        Producer,
        producer_id=st.integers(1, 3),
        epoch=st.integers(0, 1),
        base_sequence=st.sampled_from([0, 1, 2, 5, MAX_SEQUENCE]),
    ),
)
FLAGS = st.sampled_from(
    [0, 0, 0, TRANSACTIONAL_MASK, TRANSACTIONAL_MASK | CONTROL_MASK],
)
BATCHES = st.lists(
    st.tuples(PRODUCERS, FLAGS, st.integers(1, 3), st.integers(0, 3), st.integers(0, 300)),
    min_size=1,
    max_size=30,
)


def replicated(start: int, batches: list[Any]) -> list[memoryview]:
    """The batches as a leader stores them from offset `start` on."""
    found = []
    for producer, flags, count, later_ms, size_bytes in batches:
        timestamp_ms = NOW_MS + later_ms
        records = [NewRecord(bytes(size_bytes), timestamp_ms=timestamp_ms)] * count
        if flags & CONTROL_MASK:
            marker = build_marker(EndMarker(size_bytes % 2 == 0, 1), producer, timestamp_ms)
            set_place(memoryview(marker), start, len(marker) - 12, 0)
            if producer.producer_id != NO_PRODUCER_ID:
                found.append(memoryview(marker))
                start += 1
            continue
        batch = memoryview(bytearray(build_batch(records, BatchOptions(producer=producer))))
        if producer.producer_id != NO_PRODUCER_ID and flags:
            batch[ATTRIBUTES_AT + 1] |= flags
            seal(batch)
        set_place(batch, start, len(batch) - 12, 0)
        found.append(batch)
        start += count
    return found


def count_each(segment: Segment, run: Sequence[BatchHeader]) -> None:
    for one in run:
        segment.count(one.last_offset, one.newest_record_ms, one.size_bytes)


def record_each(
    states: ProducerStates, run: Sequence[BatchHeader], batches: memoryview
) -> list[EndedTransaction]:
    markers = read_markers(batches, run)
    found = [states.record(one, one.base_offset, markers.get(one.base_offset)) for one in run]
    return [ended for ended in found if ended is not None]


def counted(log: PartitionLog) -> list[object]:
    """All that is counted of the log."""
    state = log._state
    segments = [
        (
            one.base_offset,
            one.end_offset,
            one.size_bytes,
            one.first_timestamp_ms,
            one.max_timestamp_ms,
            one._max_timestamp_offset,
            [one.offset_index.entry(number) for number in range(len(one.offset_index))],
            [one.time_index.entry(number) for number in range(len(one.time_index))],
            list(one.aborted_from(0)),
        )
        for one in state.segments.as_list()
    ]
    producers = [
        (
            number,
            one.epoch,
            list(one.batches),
            one.in_a_row,
            one.transaction_start,
            one.coordinator_epoch,
        )
        for number, one in state.producers._entries.items()
    ]
    unstable = state.producers.transactions.first_unstable_offset
    return [state.end_offset, state.producers.end_offset, unstable, segments, producers]


@settings(max_examples=60, deadline=None)
@given(batches=BATCHES, segment_bytes=st.sampled_from([700, 2_000, 1_000_000]))
def test_a_run_counts_as_its_batches_do(
    kits: "Callable[[], StorageKit]", batches: list[Any], segment_bytes: int
) -> None:
    async def follower(*, at_once: bool) -> list[object]:
        kit = kits()
        kit.config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=500)
        _, log = await kit.new_log()
        stored = replicated(0, batches)
        if at_once:
            log.append_as_follower(memoryview(b"".join(stored)), 0, NOW_MS)
        else:
            with (
                patch.object(Segment, "count_all", count_each),
                patch.object(ProducerStates, "record_all", record_each),
            ):
                for batch in stored:
                    log.append_as_follower(batch, 0, NOW_MS)
        return counted(log)

    kit = kits()
    assert kit.run(follower(at_once=True)) == kit.run(follower(at_once=False))


def test_a_batch_without_records_has_no_timestamp(kit: "StorageKit") -> None:
    """Compaction has removed all of its records, and keeps its timestamps."""
    _, log = kit.run(kit.new_log())
    (batch,) = replicated(0, [(Producer(), 0, 2, 3, 10)])
    empty = memoryview(bytearray(batch[:HEADER_BYTES]))
    empty[RECORD_COUNT_AT:] = bytes(4)
    seal(empty)
    log.append_as_follower(empty, 0, NOW_MS)
    assert log._state.segments.active.max_timestamp_ms == NO_TIMESTAMP
    assert log.end_offset == 2
