"""The share of keys that get another partition."""

from fractions import Fraction
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.planner.topics.remapped_keys import remapped_share

COUNTS = st.integers(1, 40)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(6, 12, "1/2"), (12, 4, "2/3"), (2, 6, "2/3"), (4, 6, "2/3"), (10, 11, "10/11"), (7, 7, "0")],
)
def test_known_shares(before: int, after: int, expected: str) -> None:
    assert remapped_share(before, after) == Fraction(expected)


@given(COUNTS, COUNTS)
def test_it_is_the_share_of_remainders_that_differ(before: int, after: int) -> None:
    hashes = range(before * after)
    moved = sum(one % before != one % after for one in hashes)
    assert remapped_share(before, after) == Fraction(moved, before * after)


def test_keys_of_a_real_hash_move_as_often() -> None:
    keys = [b"key-%d" % number for number in range(20_000)]
    moved = sum(crc32(key) % 6 != crc32(key) % 16 for key in keys)
    assert moved / len(keys) == pytest.approx(float(remapped_share(6, 16)), abs=0.02)
