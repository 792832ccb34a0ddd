"""Each hash beside the real client library whose producers use it."""

import warnings
import zlib

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2  # type: ignore[import-untyped]
from confluent_kafka import cimpl
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.verify.hashes import (
    PARTITIONERS,
    by_crc32,
    by_fnv1a,
    by_murmur2,
    fnv1a,
    murmur2,
)

with warnings.catch_warnings():
    # It reads its own files in a way that Python would rather it did not.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import (  # type: ignore[import-untyped]
        murmur2 as kafka_python_murmur2,
    )

keys = st.binary(max_size=40)
partitions = st.integers(1, 1_000)


@given(keys, partitions)
def test_librdkafka_agrees(key: bytes, count: int) -> None:
    assert by_murmur2(key, count) == cimpl.murmur2(key, count)
    assert by_fnv1a(key, count) == cimpl.fnv1a(key, count)
    if key:  # without one `consistent` stays in one partition; its default sibling spreads
        assert by_crc32(key, count) == cimpl.consistent(key, count)


@given(keys)
def test_kafka_python_and_aiokafka_agree(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)],
)
def test_fnv1a_as_its_authors_publish_it(key: bytes, expected: int) -> None:
    """Test vectors of RFC 9923."""
    assert fnv1a(key) == expected


def test_saramas_sign() -> None:
    """b"a" hashes to a negative number of 32 bits: Go's remainder is negative, then made positive.

    Making the number positive first by its lower 31 bits, as its `NewReferenceHashPartitioner`
    does, gives another partition.
    """
    signed = 0xE40C292C - 2**32
    assert by_fnv1a(b"a", 7) == -signed % 7
    assert by_fnv1a(b"a", 7) != (0xE40C292C & 0x7FFFFFFF) % 7


@given(keys, partitions)
def test_all_stay_within_the_topic(key: bytes, count: int) -> None:
    for place in PARTITIONERS.values():
        assert 0 <= place(key, count) < count
    assert by_crc32(key, count) == zlib.crc32(key) % count
