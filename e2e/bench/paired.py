"""The method of the bench: cells of both brokers run alternately, and their statistics.

A cell is one measurement of one broker. The first pairs are dropped, since a JVM gets
faster while it runs. Each pair gives one ratio, and noise that lasts longer than a
pair cancels out of it.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from subprocess import SubprocessError
from typing import Final

from confluent_kafka import KafkaException

from e2e.bench.lines import Line
from e2e.cluster.shell import CommandFailed

Numbers = Mapping[Line, float]
Cell = Callable[[], Numbers]


@dataclass(frozen=True, slots=True)
class Effort:
    """How much a run measures: pairs that count, pairs to warm up, and a factor for cells."""

    rounds: int
    warm_ups: int
    scale: float

    def scaled(self, count: int) -> int:
        """A number of records or seconds, as given for the full effort, multiplied by the scale."""
        return int(count * self.scale)


FULL = Effort(rounds=8, warm_ups=2, scale=1)
QUICK = Effort(rounds=3, warm_ups=2, scale=0.3)
TRIAL = Effort(rounds=1, warm_ups=0, scale=0.05)
"""Shows that an experiment runs; what it measures means nothing."""
FEW = Effort(rounds=3, warm_ups=0, scale=1)
"""For cells that take most of a minute, and that warming up does not make faster."""


class NotMeasured(Exception):  # noqa: N818 - says what became of an experiment
    """An experiment could not be run; the text says why, for the table."""


FAILURES: Final = (OSError, RuntimeError, KafkaException, CommandFailed, SubprocessError)
"""What an experiment raises where a broker or a load program fails."""


def first_line(problem: Exception) -> str:
    """What a table says of a problem whose text may have many lines."""
    return str(problem).partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Sides:
    """The two cells of an experiment; an `effort` replaces the run's own for this experiment."""

    ours: Cell
    theirs: Cell
    effort: Effort | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """One line, measured on both sides, one right after the other."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours to theirs. Of two zeros it is 1, of a zero on their side only it is infinite."""
        if self.theirs:
            return self.ours / self.theirs
        return math.inf if self.ours else 1


@dataclass(frozen=True, slots=True)
class Measured:
    """All pairs of a line that count."""

    pairs: tuple[Pair, ...]
    summary: Callable[[Iterable[float]], float] = median
    """That of the line."""

    @property
    def ours(self) -> float:
        return self.summary(pair.ours for pair in self.pairs)

    @property
    def theirs(self) -> float:
        return self.summary(pair.theirs for pair in self.pairs)

    @property
    def ratio(self) -> float:
        return median(pair.ratio for pair in self.pairs)

    @property
    def lowest(self) -> float:
        return min(pair.ratio for pair in self.pairs)

    @property
    def highest(self) -> float:
        return max(pair.ratio for pair in self.pairs)


def order(ours: Cell, theirs: Cell, pairs: int) -> Iterator[tuple[Cell, Cell]]:
    """The cells of each pair in the order in which they run: ours first, then theirs first, …"""
    for number in range(pairs):
        yield (ours, theirs) if number % 2 == 0 else (theirs, ours)


def measure(
    ours: Cell, theirs: Cell, effort: Effort, done: Callable[[], None] = lambda: None
) -> dict[Line, Measured]:
    """Run both cells alternately and return the pairs that count, by line.

    `done` is called after each cell, to show progress.
    """
    kept: dict[Line, list[Pair]] = {}
    for number, cells in enumerate(order(ours, theirs, effort.warm_ups + effort.rounds)):
        found = {}
        for cell in cells:
            os.sync()  # so that no cell waits for what the one before has written
            found[cell] = cell()
            done()
        if number >= effort.warm_ups:
            for line, value in found[ours].items():
                kept.setdefault(line, []).append(Pair(value, found[theirs][line]))
    return {line: Measured(tuple(pairs), line.summary) for line, pairs in kept.items()}
