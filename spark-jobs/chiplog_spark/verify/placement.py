"""Whether records lie in the partition that their key's hash says.

Which hash the producers use nobody stored. One that is named is believed, and `auto` measures:
the share of keyed records that lie where each of them would put them. A hash that is not theirs
puts one record in `partitions` into the right place, so even of two partitions it fits half; a
topic whose producers use two hashes, or choose by themselves, fits none well. From `FITS_PERCENT`
on the rest is taken for misplaced. Below, nothing is accused, and it is said why.

A topic that was given more partitions has older records where fewer partitions put them. When
that was is not stored. So it is looked for among the misplaced: where there are many and fewer
partitions explain (nearly) all of them, they are not accused.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from chiplog_core.spark.results import Check
from chiplog_spark.verify.facts import PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.hashes import IGNORES_EMPTY_KEY, PARTITIONERS

AUTO: Final = "auto"
NONE: Final = "none"
FITS_PERCENT: Final = 95.0
"""Far above what chance gives a foreign hash (100 / partitions), and so low that a defect which
has hit one record in twenty is still told."""
MIN_KEYED_RECORDS: Final = 20
"""Fewer say nothing: two partitions and four keys fit any hash once in sixteen times."""
MIN_GROWN_RECORDS: Final = 10
"""Fewer misplaced records are a defect; so many that one older number of partitions explains are
not."""
MAX_GROWN_FROM: Final = 64
"""Numbers of partitions that are tried, from the present one down."""

_CACHED_KEYS: Final = 65_536


@dataclass(slots=True)
class Fit:
    """How one hash fits, of the records of one partition on one replica, or of many."""

    keyed: int = 0
    fitting: int = 0
    by_count: Counter[int] = field(default_factory=Counter)
    """Of the misplaced ones: how many each smaller number of partitions explains."""

    def add(self, other: "Fit") -> None:
        self.keyed += other.keyed
        self.fitting += other.fitting
        self.by_count.update(other.by_count)

    @property
    def share_percent(self) -> float:
        return 100.0 * self.fitting / self.keyed if self.keyed else 0.0

    @property
    def grown_from(self) -> int | None:
        """The number of partitions under which the misplaced ones were written, if one was."""
        misplaced = self.keyed - self.fitting
        if misplaced < MIN_GROWN_RECORDS:
            return None
        most = max(self.by_count.values(), default=0)
        if most < misplaced * FITS_PERCENT / 100:
            return None
        return max(count for count, explained in self.by_count.items() if explained == most)


class Where(NamedTuple):
    """What one hash says of a key in a partition."""

    partition: int
    """Where it belongs."""
    explained_by: tuple[int, ...]
    """The smaller numbers of partitions that put it where it is."""


class Placement:
    """Judges the keys of one partition by one hash. Keys come again, so it remembers some."""

    def __init__(self, facts: PartitionFacts, partitioner: str) -> None:
        self._facts = facts
        self.partitioner = partitioner
        self._hash: Callable[[bytes, int], int] = PARTITIONERS[partitioner]
        self._ignores_empty = partitioner in IGNORES_EMPTY_KEY
        self._misplaced: dict[bytes, Where | None] = {}
        self.fit = Fit()

    def see(self, replica: int, offset: int, key: bytes | None) -> Finding | None:
        """Count a record; a finding where it lies elsewhere than the hash says."""
        if key is None or (not key and self._ignores_empty):
            return None
        self.fit.keyed += 1
        try:
            where = self._misplaced[key]
        except KeyError:
            where = self._judge(key)
        if where is None:
            self.fit.fitting += 1
            return None
        self.fit.by_count.update(where.explained_by)
        facts = self._facts
        message = (
            f"the record at offset {offset} belongs into partition {where.partition} of"
            f" {facts.partitions}, by the {self.partitioner} hash of its key"
        )
        return Finding(Check.KEY_PLACEMENT, facts.topic, facts.partition, offset, replica, message)

    def _judge(self, key: bytes) -> Where | None:
        facts = self._facts
        belongs, where = self._hash(key, facts.partitions), None
        if belongs != facts.partition:
            fewest = max(facts.partition + 1, facts.partitions - MAX_GROWN_FROM)
            fewer = range(fewest, facts.partitions)
            explained = (count for count in fewer if self._hash(key, count) == facts.partition)
            where = Where(belongs, tuple(explained))
        if len(self._misplaced) >= _CACHED_KEYS:
            self._misplaced.clear()
        self._misplaced[key] = where
        return where


class Chosen(NamedTuple):
    """Which hash a topic's records are judged by."""

    partitioner: str
    """`none` where they are not."""
    share_percent: float
    """Of keyed records that fit it; of the best one where it is `none`."""
    reason: str
    """Why nothing is accused; empty where misplaced records are."""


def candidates(wanted: str) -> tuple[str, ...]:
    """The hashes to measure for what a Verification names."""
    return tuple(PARTITIONERS) if wanted == AUTO else (wanted,)


def choose(fits: dict[str, Fit], partitions: int) -> Chosen:
    """Judge the whole topic; `fits` are those of the candidates, of all its partitions."""
    if partitions == 1:
        return Chosen(NONE, 0.0, "a topic of one partition has no wrong place")
    best = max(fits, key=lambda name: (fits[name].fitting, name))
    fit = fits[best]
    share = fit.share_percent
    if fit.keyed < MIN_KEYED_RECORDS:
        reason = f"{fit.keyed} records with a key are too few to tell"
        return Chosen(NONE, share, reason)
    grown_from = fit.grown_from
    if grown_from is not None:
        reason = (
            f"{fit.keyed - fit.fitting} records lie where {best} puts them with {grown_from}"
            f" partitions: they are older than the topic's growth to {partitions}"
        )
        return Chosen(best, share, reason)
    if share < FITS_PERCENT:
        reason = f"{best} fits best, with {share:.1f} % of the keys, which is below"
        return Chosen(NONE, share, f"{reason} {FITS_PERCENT:.0f} %: producers choose otherwise")
    return Chosen(best, share, "")
