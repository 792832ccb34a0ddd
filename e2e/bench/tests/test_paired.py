"""The method: the order of cells, what is dropped, and what a ratio is made of."""

import math
from collections.abc import Callable

import pytest

from e2e.bench.lines import JAVA_PRODUCE_100 as LINE
from e2e.bench.lines import TRANSACTIONS_COPY_HANGING as HANGING
from e2e.bench.paired import FULL, Cell, Effort, Measured, Pair, measure


def recording(log: list[str], name: str, values: list[float]) -> Cell:
    """A cell that notes that it ran and returns the next of its values."""
    left = iter(values)

    def cell() -> dict[object, float]:
        log.append(name)
        return {LINE: next(left)}

    return cell  # type: ignore[return-value]


def test_the_order_changes_with_each_pair() -> None:
    log: list[str] = []
    ones = [1.0] * 4
    measure(recording(log, "A", ones), recording(log, "B", ones), Effort(4, 0, 1))
    assert "".join(log) == "ABBAABBA"


def test_the_first_pairs_do_not_count() -> None:
    ours = recording([], "A", [1, 1, 8, 9])
    theirs = recording([], "B", [100, 100, 4, 3])
    measured = measure(ours, theirs, Effort(rounds=2, warm_ups=2, scale=1))[LINE]
    assert measured.pairs == (Pair(8, 4), Pair(9, 3))


def test_each_cell_is_reported_when_done() -> None:
    done: list[None] = []
    count: Callable[[], None] = lambda: done.append(None)  # noqa: E731
    measure(recording([], "A", [1] * 3), recording([], "B", [1] * 3), Effort(2, 1, 1), count)
    assert len(done) == 6


def test_the_ratio_is_the_median_of_the_pairs_ratios() -> None:
    """Not the ratio of medians: here those would be equal, although each pair differs twofold."""
    measured = Measured((Pair(2, 1), Pair(20, 10), Pair(1, 0.5)))
    assert (measured.lowest, measured.ratio, measured.highest) == (2, 2, 2)
    assert Measured((Pair(1, 2), Pair(2, 1), Pair(9, 3))).ratio == 2


def test_a_full_run_has_six_pairs_after_two() -> None:
    assert (FULL.rounds, FULL.warm_ups) >= (6, 2)


def test_what_must_never_happen_counts_if_it_happened_once() -> None:
    counts = iter([0, 0, 1, 0, 0, 0])
    measured = measure(
        lambda: {HANGING: next(counts)}, lambda: {HANGING: 0}, Effort(rounds=5, warm_ups=1, scale=1)
    )[HANGING]
    assert (measured.ours, measured.theirs) == (1, 0)
    assert not HANGING.goal.met_by(measured.ours)


@pytest.mark.parametrize(
    ("pair", "ratio"),
    [(Pair(3, 2), 1.5), (Pair(1, 4), 0.25), (Pair(0, 0), 1), (Pair(2, 0), math.inf)],
)
def test_a_ratio_is_ours_to_theirs(pair: Pair, ratio: float) -> None:
    assert pair.ratio == ratio
