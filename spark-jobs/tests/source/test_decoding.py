"""The quick reader finds what the careful one finds, and whatever it is given it ends well."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.source.decoding import decoded
from chiplog_wire.records.batch import HEADER_BYTES, Codec, read_header
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.reader import Header, read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

FIELDS = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.builds(Header, st.text(max_size=9), FIELDS), max_size=3)
RECORDS = st.lists(
    st.builds(
        NewRecord, value=FIELDS, key=FIELDS, timestamp_ms=st.integers(0, 2**60), headers=HEADERS
    ),
    min_size=1,
    max_size=200,
)


@given(RECORDS, st.sampled_from(Codec))
def test_it_reads_what_the_careful_one_reads(records: list[NewRecord], codec: Codec) -> None:
    batch = build_batch(records, BatchOptions(base_offset=7, codec=codec))
    header = read_header(batch)
    found = decoded(memoryview(batch), header)
    careful = list(read_records(batch, header))
    assert found.keys == [one.key for one in careful]
    assert found.values == [one.value for one in careful]
    assert [header.base_offset + one for one in found.offset_deltas] == [
        one.offset for one in careful
    ]
    assert [header.base_timestamp_ms + one for one in found.time_deltas_ms] == [
        one.timestamp_ms for one in careful
    ]
    assert [one or [] for one in found.headers] == [list(one.headers) for one in careful]
    assert found.has_headers == any(one.headers for one in careful)


@pytest.mark.parametrize("size", [0, 63, 64, 8_191, 8_192, 2_000_000])
def test_lengths_of_every_width(size: int) -> None:
    record = NewRecord(bytes(size), bytes(size), 5, (Header("h" * (size % 10_000), bytes(size)),))
    batch = build_batch([record] * 2)
    found = decoded(memoryview(batch), read_header(batch))
    assert {len(one or b"") for one in (*found.keys, *found.values)} == {size}


@given(RECORDS, st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4))
def test_any_bytes_end_in_records_or_in_their_error(
    records: list[NewRecord], changes: list[tuple[int, int]]
) -> None:
    batch = build_batch(records)
    header = read_header(batch)
    for at, value in changes:
        batch[HEADER_BYTES + at % (len(batch) - HEADER_BYTES)] = value
    with suppress(RecordsError):
        found = decoded(memoryview(batch), header)
        columns = (found.keys, found.values, found.headers, found.offset_deltas)
        assert {len(one) for one in columns} == {len(records)}


@pytest.mark.parametrize("count", [0, 1, 3])
def test_another_number_of_records_than_there_are(count: int) -> None:
    batch = build_batch([NewRecord(b"a"), NewRecord(b"b")])
    header = read_header(batch)._replace(record_count=count)
    with pytest.raises(RecordsError):
        decoded(memoryview(batch), header)
