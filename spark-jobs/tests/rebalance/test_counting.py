"""Tallies of Arrow batches against counting record by record."""

import pickle
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.rebalance.measured import PartitionName
from chiplog_spark.rebalance.counting import count_batch
from chiplog_spark.rebalance.tally import Tally
from chiplog_spark.rebalance.window import Window

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIGURES = (
    "records",
    "bytes",
    "records_in_window",
    "bytes_in_window",
    "records_without_key",
    "first_timestamp_ms",
    "last_timestamp_ms",
)
WINDOW = Window(start_ms=1_000, end_ms=2_000)

RECORDS = st.fixed_dictionaries(
    {
        "key": st.none() | st.binary(max_size=2),
        "value": st.none() | st.binary(max_size=9),
        "topic": st.sampled_from(["a", "b"]),
        "partition": st.integers(0, 1),
        "offset": st.just(0),
        "timestamp": st.integers(-1, 3_000).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
        "headers": st.none()
        | st.lists(
            st.fixed_dictionaries(
                {"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)}
            ),
            max_size=3,
        ),
    }
)


def size(record: dict[str, Any]) -> int:
    headers = record["headers"] or []
    return (
        len(record["key"] or b"")
        + len(record["value"] or b"")
        + sum(len(one["key"].encode()) + len(one["value"] or b"") for one in headers)
    )


def ms(record: dict[str, Any]) -> int:
    return int((record["timestamp"] - EPOCH) / timedelta(milliseconds=1))


def exactly(records: list[dict[str, Any]]) -> dict[str, Any]:
    inside = [one for one in records if WINDOW.start_ms <= ms(one) <= WINDOW.end_ms]
    return {
        "records": len(records),
        "bytes": sum(map(size, records)),
        "records_in_window": len(inside),
        "bytes_in_window": sum(map(size, inside)),
        "records_without_key": sum(one["key"] is None for one in records),
        "first_timestamp_ms": min(map(ms, records)),
        "last_timestamp_ms": max(map(ms, records)),
    }


def plain(tally: Tally) -> dict[str, Any]:
    return {name: getattr(tally, name) for name in FIGURES}


@given(st.lists(st.lists(RECORDS, max_size=12), max_size=4))
def test_tallies_of_batches_that_travel_are_exact(batches: list[list[dict[str, Any]]]) -> None:
    found: dict[PartitionName, Tally] = {}
    for records in batches:  # each is a task of its own
        tallies: dict[PartitionName, Tally] = {}
        batch = pa.RecordBatch.from_pylist(records, schema=SCHEMA)
        assert count_batch(batch, WINDOW, tallies) == sum(map(size, records))
        for name, tally in pickle.loads(pickle.dumps(tallies)).items():  # noqa: S301
            found.setdefault(name, Tally()).merge(tally)

    by_place: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for record in (one for records in batches for one in records):
        by_place.setdefault((record["topic"], record["partition"]), []).append(record)
    assert {tuple(name): plain(one) for name, one in found.items()} == {
        place: exactly(records) for place, records in by_place.items()
    }
    for name, tally in found.items():
        keys = Counter(one["key"] for one in by_place[name] if one["key"] is not None)
        assert tally.keys.counters == dict(keys)
        assert tally.keys.total == sum(keys.values())
