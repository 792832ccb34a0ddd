"""Which partition a group belongs to, against what Java and Apache Kafka 4.3.1 say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.groups.placement import java_hash, partition_of


@pytest.mark.parametrize(
    ("group", "hash_code", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("my-group", -1_906_497_762, 12),
        ("console-consumer-12345", 158_455_506, 6),
        ("ümläut", -1_271_284_472, 22),
        ("\N{GRINNING FACE}", 1_772_899, 49),  # two code units
        ("polygenelubricants", -(2**31), 0),  # the one that has no absolute value
        ("a-long-name-of-a-group-that-overflows", 1_860_950_270, 20),
    ],
)
def test_as_kafka_does(group: str, hash_code: int, partition: int) -> None:
    assert java_hash(group) == hash_code
    assert partition_of(group, 50) == partition


@given(st.text(), st.integers(1, 1_000))
def test_always_a_partition_that_exists(group: str, partitions: int) -> None:
    assert 0 <= partition_of(group, partitions) < partitions
    # Java's own definition: s[0] * 31^(n-1) + ... + s[n-1], over UTF-16.
    units = group.encode("utf-16-be")
    pairs = zip(units[::2], units[1::2], strict=True)
    total = 0
    for high, low in pairs:
        total = total * 31 + high * 256 + low
    assert (java_hash(group) - total) % 2**32 == 0
    assert -(2**31) <= java_hash(group) < 2**31
