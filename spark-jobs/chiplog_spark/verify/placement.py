"""Checks that records are in the partition that the hash of their key determines.

The hash that producers use is not stored. If the request names one, every record is checked with
it. With `auto` a topic may contain records of several kinds of clients, each with its own hash,
which is legitimate. So only a record that *none* of the known hashes places in its partition is
misplaced. If other hashes than the best one are in use, a notice says so, and no record is reported
for that. This cannot detect a misplaced record that another hash places there by chance, one in
`partitions` for each hash; naming the hash in the request helps.

A producer that chooses partitions itself matches no hash, but some of its records match by chance.
The number of such records is estimated from those that match none. If they are `OTHERWISE_PERCENT`
or more, no record is reported, and the result says why.

If the number of partitions was increased, older records are where the smaller number placed them.
The time of the increase is not stored. So misplaced records are compared with smaller numbers: if
there are many, and one smaller number explains (nearly) all of them, they are not reported.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import sqrt
from typing import Any, Final, NamedTuple

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.hashes import IGNORES_EMPTY_KEY, PARTITIONERS

AUTO: Final = "auto"
NONE: Final = "none"
OTHERWISE_PERCENT: Final = 5.0
"""Far below the share that producers with explicit partitions reach, but high enough to report a
defect that affects one record in twenty."""
EXPLAINED_PERCENT: Final = 95.0
"""This share of the misplaced records must fit a smaller number of partitions."""
MIN_KEYED_RECORDS: Final = 20
"""Fewer prove nothing: two partitions and four keys fit any hash in one of sixteen cases."""
MIN_GROWN_RECORDS: Final = 10
"""Fewer misplaced records are a defect; this many that fit one smaller number of partitions are
explained by an increase of partitions."""
MAX_GROWN_FROM: Final = 64
"""Numbers of partitions that are tried, downwards from the present one."""
SAMPLED_KEYS: Final = 64
"""Keys of a topic: those with the lowest digests, so that all partitions sample the same keys."""

_CACHED_KEYS: Final = 65_536

NOWHERE: Final[frozenset[str]] = frozenset()
"""The fit of a record that no hash places in its partition."""


@dataclass(slots=True)
class Tally:
    """Counts of records with a key, of one partition on one replica, or of many partitions."""

    by_fit: Counter[frozenset[str]] = field(default_factory=Counter)
    """Names of all hashes that place a record in its partition -> the number of such records. A
    record may fit several hashes by chance."""
    by_older: Counter[tuple[str, int]] = field(default_factory=Counter)
    """The number of records that only a smaller number of partitions explains, by hash and that
    number."""
    keys: dict[int, frozenset[int]] = field(default_factory=dict)
    """Partitions of the sampled keys, by their digests."""

    def add(self, other: "Tally") -> None:
        self.by_fit.update(other.by_fit)
        self.by_older.update(other.by_older)
        for digest, partitions in other.keys.items():
            self.keys[digest] = self.keys.get(digest, frozenset()) | partitions
        self.keys = {digest: self.keys[digest] for digest in sorted(self.keys)[:SAMPLED_KEYS]}

    def sample(self, key: bytes, partition: int) -> None:
        """Remember a key if it belongs to the sample."""
        digest = int.from_bytes(blake2b(key, digest_size=6).digest())
        if len(self.keys) < SAMPLED_KEYS:
            self.keys[digest] = frozenset({partition})
        elif digest not in self.keys and digest < (largest := max(self.keys)):
            del self.keys[largest]
            self.keys[digest] = frozenset({partition})

    @property
    def keyed(self) -> int:
        return self.by_fit.total()

    @property
    def unplaced(self) -> int:
        """The number of records that no hash places in their partition."""
        return self.by_fit[NOWHERE]

    def fitting(self, partitioner: str) -> int:
        return sum(count for hashes, count in self.by_fit.items() if partitioner in hashes)

    def grown_from(self, partitioner: str) -> int | None:
        """The former number of partitions under which misplaced records were written, if one
        fits."""
        if self.unplaced < MIN_GROWN_RECORDS:
            return None
        by_count = {count: n for (name, count), n in self.by_older.items() if name == partitioner}
        most = max(by_count.values(), default=0)
        if most < self.unplaced * EXPLAINED_PERCENT / 100:
            return None
        return max(count for count, explained in by_count.items() if explained == most)

    @property
    def split_keys(self) -> int:
        """The number of sampled keys with records in more than one partition."""
        return sum(1 for partitions in self.keys.values() if len(partitions) > 1)

    def to_json(self) -> dict[str, Any]:
        return {
            "by_fit": [[sorted(hashes), count] for hashes, count in self.by_fit.items()],
            "by_older": [[*older, count] for older, count in self.by_older.items()],
            "keys": [[digest, sorted(found)] for digest, found in self.keys.items()],
        }

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Tally":
        return Tally(
            Counter({frozenset(hashes): count for hashes, count in value["by_fit"]}),
            Counter({(name, older): count for name, older, count in value["by_older"]}),
            {digest: frozenset(found) for digest, found in value["keys"]},
        )


class Where(NamedTuple):
    """The partitions that the hashes give for a key."""

    fit: frozenset[str]
    """The hashes that place the key in this partition."""
    belongs: str = ""
    """Where the hashes place the key, for messages; empty if one of them places it here."""
    older: tuple[tuple[str, int], ...] = ()
    """Hash and smaller number of partitions, of the pairs that place the key here."""


class Placement:
    """Checks the keys of one partition. Keys recur, so some results are cached."""

    def __init__(self, facts: PartitionFacts, partitioners: Sequence[str]) -> None:
        self._facts = facts
        self._hashes: dict[str, Callable[[bytes, int], int]] = {
            name: PARTITIONERS[name] for name in partitioners
        }
        self._cached: dict[bytes, Where] = {}
        self.tally = Tally()

    def check_next(self, replica: int, offset: int, key: bytes | None) -> Finding | None:
        """Count a record; returns a finding if no hash places it in this partition."""
        if key is None or (not key and not IGNORES_EMPTY_KEY.isdisjoint(self._hashes)):
            return None  # a client may have spread it like one without a key
        where = self._cached.get(key)
        if where is None:
            where = self._place_and_cache(key)
        self.tally.by_fit[where.fit] += 1
        if where.fit:
            return None
        self.tally.by_older.update(where.older)
        facts = self._facts
        message = (
            f"by the hash of its key, the record at offset {offset} belongs in "
            f"{where.belongs} of {facts.partitions}"
        )
        return Finding(Check.KEY_PLACEMENT, facts.topic, facts.partition, offset, replica, message)

    def _place_and_cache(self, key: bytes) -> Where:
        if len(self._cached) >= _CACHED_KEYS:
            self._cached.clear()
        where = self._cached[key] = self._place(key)
        self.tally.sample(key, self._facts.partition)
        return where

    def _place(self, key: bytes) -> Where:
        facts = self._facts
        belongs = {name: of(key, facts.partitions) for name, of in self._hashes.items()}
        fit = frozenset(name for name, place in belongs.items() if place == facts.partition)
        if fit:
            return Where(fit)
        places = " or ".join(f"partition {place} ({name})" for name, place in belongs.items())
        fewest = max(facts.partition + 1, facts.partitions - MAX_GROWN_FROM)
        older = (
            (name, count)
            for name, of in self._hashes.items()
            for count in range(fewest, facts.partitions)
            if of(key, count) == facts.partition
        )
        return Where(NOWHERE, places, tuple(older))


class Share(NamedTuple):
    """A hash that producers use, and the records that it, but no earlier hash, places correctly."""

    partitioner: str
    records: int


class Chosen(NamedTuple):
    """The hashes by which a topic's records are placed."""

    partitioner: str
    """The best hash; `none` if none fits well enough."""
    share_percent: float
    """Percentage of keyed records that it places correctly; of the best hash if it is `none`."""
    reason: str
    """Why nothing is accused; empty if misplaced records are."""
    others: tuple[Share, ...] = ()
    """Further hashes in use."""


def candidates(wanted: str) -> tuple[str, ...]:
    """The hashes to measure for the partitioner in a Verification."""
    return tuple(PARTITIONERS) if wanted == AUTO else (wanted,)


def choose(tally: Tally, names: Sequence[str], partitions: int) -> Chosen:
    """Decide for the whole topic; `tally` counts all partitions for the candidates `names`."""
    if partitions == 1:
        return Chosen(NONE, 0.0, "the topic has only one partition")
    best = max(names, key=lambda name: (tally.fitting(name), name))
    keyed, misplaced = tally.keyed, tally.unplaced
    share = 100.0 * tally.fitting(best) / keyed if keyed else 0.0
    if keyed < MIN_KEYED_RECORDS:
        return Chosen(NONE, share, f"{keyed} records with a key are too few to decide")
    others = _others(tally, best, names, partitions)
    grown_from = tally.grown_from(best)
    if grown_from is not None:
        reason = (
            f"{misplaced} records lie where {best} puts them with {grown_from}"
            f" partitions: they are older than the topic's growth to {partitions}"
        )
        return Chosen(best, share, reason, others)
    # Records misplaced by this hash alone; other hashes place some of them by chance.
    otherwise = misplaced / (1 - 1 / partitions) ** (len(names) - 1)
    if otherwise >= keyed * OTHERWISE_PERCENT / 100:
        reason = f"{best} fits best, with {share:.1f} % of the records with a key"
        return Chosen(NONE, share, f"{reason}: producers choose partitions in another way")
    return Chosen(best, share, "", others)


def _others(tally: Tally, best: str, names: Sequence[str], partitions: int) -> tuple[Share, ...]:
    """The hashes that other producers of the topic seem to use besides the `best` one, the most
    frequent first.

    Some records were written without any of the hashes `names`. Of these, each hash places one in
    `partitions` in its partition by chance. So a hash is in use only if it places clearly more of
    the records that no hash found before it places: by three standard deviations of that number.
    """
    hit_rate = 1 / partitions  # how likely a hash places a record in its partition by chance
    # A record written without the hashes is counted as unplaced only if none of them hits it by
    # chance. The division gives the number of all such records, including those that were hit.
    without_hash = tally.unplaced / (1 - hit_rate) ** len(names)
    used, found = {best}, []
    while len(used) < len(names):
        # The records that none of the hashes in use places.
        unexplained = {
            hashes: count for hashes, count in tally.by_fit.items() if used.isdisjoint(hashes)
        }
        counts = {
            name: sum(count for hashes, count in unexplained.items() if name in hashes)
            for name in names
            if name not in used
        }
        name = max(counts, key=lambda candidate: (counts[candidate], candidate))
        # Expected hits: by this hash, and by none of those in use. The standard deviation of a
        # count of rare events is about its square root.
        by_chance = without_hash * hit_rate * (1 - hit_rate) ** len(used)
        if counts[name] - by_chance < max(1.0, 3 * sqrt(by_chance)):
            break
        used.add(name)
        found.append(Share(name, counts[name]))
    return tuple(found)


def notices(topic: str, chosen: Chosen, tally: Tally) -> list[dict[str, Any]]:
    """Facts for the summary that are not violations."""
    found = []
    if chosen.others:
        best = tally.fitting(chosen.partitioner)
        parts = [Share(chosen.partitioner, best), *chosen.others]
        listed = ", ".join(f"{share.records} by {share.partitioner}" for share in parts)
        message = (
            f"records were placed by more than one hash: {listed}; clients with different "
            "partitioners write to the topic, so a key may be in two partitions: let all clients "
            "use the same partitioner"
        )
        found.append({"topic": topic, "reason": "MixedPlacement", "message": message})
    if tally.split_keys and chosen.partitioner != NONE:
        percent = max(1, round(100 * tally.split_keys / len(tally.keys)))
        message = (
            f"of {len(tally.keys)} keys that were looked at, {tally.split_keys} ({percent} %) "
            "have records in more than one partition, so their order is lost"
        )
        found.append({"topic": topic, "reason": "KeysInTwoPartitions", "message": message})
    return found
