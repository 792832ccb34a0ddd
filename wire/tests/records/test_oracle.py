"""Another client's record code, both ways: it reads what we write, we read what it writes."""

import pytest
from aiokafka.record.default_records import (  # type: ignore[import-untyped]
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)

from chiplog_wire.records.batch import Codec
from chiplog_wire.records.reader import Header, read_records
from chiplog_wire.records.validate import ProduceLimits, TimestampType, validate_produced
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

NOW_MS = 1_700_000_000_000
NEVER_MS = 2**63 - 1
LIMITS = ProduceLimits(
    max_message_bytes=1024**2 + 12,
    segment_bytes=1024**3,
    timestamp_type=TimestampType.CREATE_TIME,
    timestamp_before_max_ms=NEVER_MS,
    timestamp_after_max_ms=3_600_000,
)
"""A topic's by default."""
VALUES = [b"value %d " % number * 50 for number in range(40)]


@pytest.mark.parametrize("codec", list(Codec))
def test_it_reads_ours(codec: Codec) -> None:
    records = [
        NewRecord(value, b"key", NOW_MS + at, (Header("h", b"x"), Header("n", None)))
        for at, value in enumerate(VALUES)
    ]
    theirs = DefaultRecordBatch(build_batch(records, BatchOptions(base_offset=7, codec=codec)))
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == [
        (7 + at, NOW_MS + at, b"key", value, [("h", b"x"), ("n", None)])
        for at, value in enumerate(VALUES)
    ]


@pytest.mark.parametrize("codec", list(Codec))
def test_we_read_its(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec.value,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for at, value in enumerate(VALUES):
        builder.append(at, NOW_MS + at, b"key", value, [("h", b"x")])
    data = bytes(builder.build())
    header = validate_produced(data, LIMITS, NOW_MS)
    assert header.codec is codec
    assert [(r.timestamp_ms, r.key, r.value, r.headers) for r in read_records(data)] == [
        (NOW_MS + at, b"key", value, (("h", b"x"),)) for at, value in enumerate(VALUES)
    ]
