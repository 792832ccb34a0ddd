"""What survived a long full collection is not looked at again, for an hour."""

import gc
from collections.abc import Iterator

import pytest

from chiplog_broker.full_collections import FULL_SCAN_INTERVAL_S, LONG_MS, FullCollections


class SlowClock:
    """Every look at it takes a while, so every collection does."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.step_s = 2 * LONG_MS / 1000

    def __call__(self) -> float:
        self.now_s += self.step_s
        return self.now_s


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


@pytest.fixture(autouse=True)
def collections(clock: SlowClock) -> Iterator[FullCollections]:
    gc.collect()
    one = FullCollections(monotonic_s=clock)
    one.begin()
    yield one
    one.end()


def test_survivors_of_a_long_one_are_set_apart() -> None:
    gc.collect()
    frozen = gc.get_freeze_count()
    assert frozen > 1_000
    assert len(gc.get_objects()) < frozen


def test_not_those_of_a_short_one(clock: SlowClock) -> None:
    clock.step_s = LONG_MS / 1000 / 2
    gc.collect()
    assert gc.get_freeze_count() == 0


def test_not_those_of_a_young_one() -> None:
    gc.collect(0)
    gc.collect(1)
    assert gc.get_freeze_count() == 0


def test_after_an_hour_all_are_checked_again(clock: SlowClock) -> None:
    class Node:
        """Knows itself, so only a collection frees it."""

        def __init__(self) -> None:
            self.me = self

    gone: list[str] = []
    node = Node()
    node.__class__.__del__ = lambda _: gone.append("node")  # type: ignore[attr-defined]
    gc.collect()
    del node
    gc.collect()
    assert not gone, "it was set apart before it became garbage"

    clock.now_s += FULL_SCAN_INTERVAL_S
    gc.collect()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gone == ["node"]
    assert gc.get_freeze_count() > 1_000, "and again for an hour"


def test_in_the_end_it_is_as_it_was(collections: FullCollections) -> None:
    gc.collect()
    collections.end()
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert gc.get_freeze_count() == 0
    collections.begin()
