"""The sketch against exact counts, however records are split and put together."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_spark.rebalance.sketch import MAX_KEY_BYTES, Sketch, shortened

KEYS = st.binary(min_size=0, max_size=2)


def of(keys: list[bytes], capacity: int, step: int) -> Sketch:
    sketch = Sketch(capacity)
    for at in range(0, len(keys), step):
        sketch.add(Counter(keys[at : at + step]))
    return sketch


def check(sketch: Sketch, keys: list[bytes]) -> None:
    exact = Counter(keys)
    assert sketch.total == len(keys)
    assert len(sketch.counters) <= sketch.capacity
    assert sketch.error * (sketch.capacity + 1) <= len(keys)
    for key in {*exact, *sketch.counters}:
        counted = sketch.counters.get(key, 0)
        assert counted <= exact[key] <= counted + sketch.error
    for key, count in exact.items():
        if count * (sketch.capacity + 1) > len(keys):
            assert key in sketch.counters


@given(st.lists(KEYS, max_size=300), st.integers(1, 8), st.integers(1, 50))
def test_every_count_is_within_the_bound_that_is_reported(
    keys: list[bytes], capacity: int, step: int
) -> None:
    check(of(keys, capacity, step), keys)


@given(st.lists(st.lists(KEYS, max_size=60), max_size=6), st.integers(1, 8), st.integers(1, 20))
def test_merged_sketches_keep_the_bound(parts: list[list[bytes]], capacity: int, step: int) -> None:
    merged = Sketch(capacity)
    for part in parts:
        merged.merge(of(part, capacity, step))

    check(merged, [key for part in parts for key in part])


@given(st.lists(KEYS, max_size=200))
def test_counts_are_exact_while_there_is_room(keys: list[bytes]) -> None:
    sketch = of(keys, 200, 7)

    assert sketch.error == 0
    assert sketch.counters == dict(Counter(keys))


def test_the_most_frequent_come_first() -> None:
    sketch = Sketch(3)
    sketch.add({b"b": 5, b"a": 5, b"c": 9, b"d": 1})

    assert sketch.error == 1
    assert sketch.most_frequent(5) == ((b"c", 8),)
    assert sketch.most_frequent(4) == ((b"c", 8), (b"a", 4), (b"b", 4))


@pytest.mark.parametrize("length", [0, 1, MAX_KEY_BYTES])
def test_keys_are_counted_as_they_are(length: int) -> None:
    assert shortened(b"k" * length) == b"k" * length


def test_long_keys_stay_different_and_bounded() -> None:
    one, other = b"k" * 1000 + b"1", b"k" * 1000 + b"2"

    assert shortened(one) != shortened(other)
    assert len(shortened(one)) == len(shortened(other)) == MAX_KEY_BYTES
