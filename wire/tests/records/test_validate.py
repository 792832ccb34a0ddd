"""What a client may send, and the Kafka error that each wrong thing gets."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_wire.records.batch import HEADER, BatchHeader, Codec, seal
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.validate import ProduceLimits, TimestampType, validate_produced
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

NOW_MS = 1_700_000_000_000
LIMITS = ProduceLimits(
    max_message_bytes=10_000,
    segment_bytes=100_000,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=2**63 - 1,
    timestamp_after_max_ms=3_600_000,
)
PRODUCER = Producer(producer_id=5, epoch=0, base_sequence=0)

FIELDS = BatchHeader._fields


def batch_with(**fields: int) -> bytes:
    """A good batch with some header fields replaced, sealed again."""
    batch = build_batch(
        [NewRecord(b"a", timestamp_ms=NOW_MS), NewRecord(b"b", timestamp_ms=NOW_MS)],
        BatchOptions(producer=PRODUCER),
    )
    values = dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True)) | fields
    HEADER.pack_into(batch, 0, *(values[name] for name in FIELDS))
    if "length_bytes" not in fields and "crc" not in fields:
        seal(memoryview(batch))
    return bytes(batch)


def refusal(data: bytes, limits: ProduceLimits = LIMITS) -> str:
    with pytest.raises(RecordsError) as raised:
        validate_produced(data, limits, NOW_MS)
    return raised.value.kafka_error


@pytest.mark.parametrize("codec", list(Codec))
def test_honest_batches_pass(codec: Codec) -> None:
    records = [NewRecord(b"x" * 100, b"key", NOW_MS) for _ in range(20)]
    header = validate_produced(build_batch(records, BatchOptions(codec=codec)), LIMITS, NOW_MS)
    assert header.record_count == 20


def test_without_timestamp_passes() -> None:
    validate_produced(build_batch([NewRecord(b"x")]), LIMITS, NOW_MS)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"magic": 0}, "INVALID_RECORD"),
        ({"magic": 1}, "INVALID_RECORD"),
        ({"magic": 3}, "CORRUPT_MESSAGE"),
        ({"magic": -1}, "CORRUPT_MESSAGE"),
        ({"crc": 12345}, "CORRUPT_MESSAGE"),
        ({"length_bytes": 48}, "CORRUPT_MESSAGE"),
        ({"length_bytes": 10**6}, "CORRUPT_MESSAGE"),
        ({"length_bytes": -1}, "CORRUPT_MESSAGE"),
        ({"base_offset": 1}, "INVALID_RECORD"),
        ({"record_count": 0, "last_offset_delta": -1}, "INVALID_RECORD"),
        ({"record_count": 3}, "INVALID_RECORD"),
        ({"record_count": -1}, "INVALID_RECORD"),
        ({"last_offset_delta": 5}, "INVALID_RECORD"),
        ({"last_offset_delta": 2**31 - 1, "record_count": -(2**31)}, "INVALID_RECORD"),
        ({"attributes": 5}, "UNSUPPORTED_COMPRESSION_TYPE"),
        ({"attributes": 7}, "UNSUPPORTED_COMPRESSION_TYPE"),
        ({"attributes": 0x08}, "INVALID_TIMESTAMP"),
        ({"attributes": 0x20}, "INVALID_RECORD"),
        ({"attributes": 0x30}, "INVALID_RECORD"),
        ({"attributes": 0x40}, "INVALID_RECORD"),
        ({"attributes": -0x8000}, "INVALID_RECORD"),
        ({"base_sequence": -1}, "INVALID_RECORD"),
        ({"producer_epoch": -1}, "INVALID_RECORD"),
        ({"max_timestamp_ms": NOW_MS + 3_600_001}, "INVALID_TIMESTAMP"),
        ({"max_timestamp_ms": -2}, "INVALID_TIMESTAMP"),
        ({"base_timestamp_ms": -5}, "INVALID_TIMESTAMP"),
    ],
)
def test_each_wrong_field_has_its_error(fields: dict[str, int], error: str) -> None:
    assert refusal(batch_with(**fields)) == error


def test_nothing_and_too_little() -> None:
    assert refusal(b"") == "INVALID_RECORD"
    assert refusal(batch_with()[:60]) == "CORRUPT_MESSAGE"
    assert refusal(batch_with()[:-1]) == "CORRUPT_MESSAGE"


def test_more_than_one_batch() -> None:
    assert refusal(batch_with() + batch_with()) == "INVALID_RECORD"
    assert refusal(batch_with() + b"rest") == "CORRUPT_MESSAGE"


def test_sizes() -> None:
    data = batch_with()
    small = replace(LIMITS, max_message_bytes=len(data) - 1)
    assert refusal(data, small) == "MESSAGE_TOO_LARGE"
    assert refusal(data, replace(LIMITS, segment_bytes=len(data) - 1)) == "RECORD_LIST_TOO_LARGE"
    validate_produced(data, replace(small, max_message_bytes=len(data)), NOW_MS)


def test_old_timestamps_are_refused_where_the_topic_says_so() -> None:
    limits = replace(LIMITS, timestamp_before_max_ms=1_000)
    validate_produced(batch_with(base_timestamp_ms=NOW_MS - 1_000), limits, NOW_MS)
    assert refusal(batch_with(base_timestamp_ms=NOW_MS - 1_001), limits) == "INVALID_TIMESTAMP"


def test_append_time_topics_ignore_timestamps() -> None:
    limits = replace(LIMITS, timestamp_type=TimestampType.LOG_APPEND_TIME)
    validate_produced(batch_with(max_timestamp_ms=2**62), limits, NOW_MS)
    validate_produced(batch_with(attributes=0x08), limits, NOW_MS)


def test_a_transactional_batch_needs_a_producer() -> None:
    validate_produced(batch_with(attributes=0x10), LIMITS, NOW_MS)
    assert refusal(batch_with(attributes=0x10, producer_id=-1)) == "INVALID_RECORD"


@given(st.binary(max_size=300))
def test_garbage_is_refused_with_a_typed_error(data: bytes) -> None:
    refusal(data)


@given(st.data())
def test_mutated_batches_pass_or_get_a_typed_error(data: st.DataObject) -> None:
    batch = bytearray(batch_with())
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        seal(memoryview(batch))
    with suppress(RecordsError):
        assert validate_produced(batch, LIMITS, NOW_MS).record_count > 0
