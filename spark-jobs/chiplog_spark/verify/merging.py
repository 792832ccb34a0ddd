"""The second stage: takes sorted rows of many partitions, and yields findings.

Memory is limited by the splits and replicas of one partition, whatever its size: batches and
records are processed one after the other. So the last batch of a split is compared with the first
one of the next split like any other two.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from chiplog_spark.verify.covered import Covered, Range
from chiplog_spark.verify.facts import PartitionFacts
from chiplog_spark.verify.findings import Finding, Findings
from chiplog_spark.verify.peers import Peers
from chiplog_spark.verify.reports import Found, Read
from chiplog_spark.verify.rows import Kind, Row
from chiplog_spark.verify.surviving import KeyHistory, Suspicion

Place: TypeAlias = tuple[str, int]


def merged(
    rows: Iterable[Row], facts: Mapping[Place, PartitionFacts], limit: int
) -> Iterator[Read | Found]:
    """Every `Read` in the rows, and the findings of comparing the rows, which are sorted.

    At most `limit` findings of each check, replica and partition are yielded, and then the number
    of further ones.
    """
    current: _Partition | None = None
    for row in rows:
        place = row.topic, row.partition
        if current is None or current.place != place:
            if current is not None:
                yield from current.finish()
            current = _Partition(place, facts[place], limit)
        if row.kind == Kind.READ:
            read = Read.from_json(row.text)
            current.reads.append(read)
            yield read
        else:
            yield from current.check_next(row)
    if current is not None:
        yield from current.finish()


class _Partition:
    """Compares the rows of one partition; one task may have only some of its keys."""

    def __init__(self, place: Place, facts: PartitionFacts, limit: int) -> None:
        self.place = place
        self.reads: list[Read] = []
        self._facts = facts
        self._found = Findings(limit)
        self._peers: Peers | None = None
        self._key: tuple[bytes, KeyHistory] | None = None
        self._compared = frozenset(replica.broker for replica in facts.replicas if replica.in_sync)
        self._clean_offsets = {
            replica.broker: replica.clean_offset
            for replica in facts.replicas
            if replica.clean_offset is not None and replica.clean_offset > 0
        }

    def check_next(self, row: Row) -> Iterator[Found]:
        """Compare a batch with those of other replicas, or a record with others of its key."""
        if row.kind == Kind.BATCH:
            if self._peers is None:
                self._peers = self._begin()
            yield from self._kept(
                (None, finding) for finding in self._peers.check_next(row.batch())
            )
            return
        if self._key is None or self._key[0] != row.key:
            yield from self._close_key()
            history = KeyHistory(self._facts, self._compared, self._clean_offsets)
            self._key = row.key, history
        if row.replica in self._compared:
            yield from self._kept(
                (None, finding) for finding in self._key[1].check_next(row.record())
            )

    def finish(self) -> Iterator[Found]:
        """End the comparison: yields the remaining findings, and the number of those left out."""
        yield from self._close_key()
        if self.reads:
            peers = self._peers or self._begin()
            yield from self._kept((None, finding) for finding in peers.finish())
        reported: dict[tuple[str, int], Finding] = {}
        for finding in self._found.kept:
            reported.setdefault((finding.check, finding.replica), finding)
        for (check, replica), count in self._found.counts.items():
            if count > self._found.limit:
                yield Found(finding=reported[check, replica], more=count - self._found.limit)

    def _begin(self) -> Peers:
        """The comparison of batches, after all reads of the partition are known."""
        ranges: dict[int, list[Range]] = {}
        for read in self.reads:
            found = ranges.setdefault(read.replica, [])
            found.append(Range(read.replica, read.start, read.end))
        return Peers(self._facts, {broker: Covered(found) for broker, found in ranges.items()})

    def _close_key(self) -> Iterator[Found]:
        """End the comparison of the current key."""
        if self._key is not None:
            yield from self._kept(self._key[1].finish())
            self._key = None

    def _kept(self, found: Iterable[tuple[Suspicion | None, Finding]]) -> Iterator[Found]:
        """The findings within the limit; the others are only counted."""
        for suspicion, finding in found:
            before = len(self._found.kept)
            self._found.add(finding)
            if len(self._found.kept) > before:
                yield Found(finding=finding, suspicion=suspicion)
