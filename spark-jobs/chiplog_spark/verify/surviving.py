"""Compares the records of a compacted topic on all replicas, key by key.

Each replica compacts on its own and at its own time, so batches differ, and older values may exist
on one replica only. These rules hold nevertheless:

- a record that two replicas have is the same record;
- the latest value of a key below the high watermark is on every in-sync replica. A tombstone may be
  removed (KIP-58, KIP-534), but then the older values are removed, too;
- compaction removes the records of aborted transactions. Their batches do not show the outcome, so
  the rule before holds only if the latest record was not written in a transaction;
- below the clean offset of a replica each key occurs at most once. Only the broker knows that
  offset: a gap next to an older value proves nothing, since a follower that fetched while its
  leader was compacting has both until it compacts itself.

A replica is read while it compacts, and may know a newer value above the fixed high watermark by
then: records that were removed because of it are missing legitimately. So a missing record is a
suspicion, and becomes a violation only if a second read, planned after the first one, finds it
missing again: by then the newer value is below the high watermark.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import UNKNOWN, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.majority import disagreeing_replicas


class Surviving(NamedTuple):
    """One record of one replica."""

    key: bytes
    """The key, or a digest of it."""
    offset: int
    replica: int
    digest: bytes
    """A digest of key, value and headers."""
    is_tombstone: bool
    is_transactional: bool = False
    """Whether it was written in a transaction, which may be open or aborted."""


class Suspicion(NamedTuple):
    """Identifies a suspected missing record when another read finds it again."""

    key: bytes
    offset: int
    replica: int


@dataclass(slots=True)
class _Latest:
    offset: int = UNKNOWN
    is_tombstone: bool = False
    is_transactional: bool = False


@dataclass(slots=True)
class KeyHistory:
    """The records of one key. Call `check_next` in the order of offset and replica, then `finish`.

    `compared` are the in-sync replicas that were read to the end.
    """

    facts: PartitionFacts
    compared: frozenset[int]
    clean_offsets: Mapping[int, int]
    """Broker id -> the offset below which its replica is compacted; absent if not known."""
    _key: bytes = b""
    _latest: dict[int, _Latest] = field(default_factory=dict)
    _group: list[Surviving] = field(default_factory=list)

    def check_next(self, record: Surviving) -> Iterator[Finding]:
        """Yields findings on a record, and on the records at the offset before it."""
        self._key = record.key
        if self._group and self._group[0].offset != record.offset:
            yield from self._close_group()
        self._group.append(record)
        before = self._latest.setdefault(record.replica, _Latest())
        clean_offset = self.clean_offsets.get(record.replica, 0)
        if UNKNOWN < before.offset < record.offset < clean_offset:
            message = (
                f"the key at offset {record.offset} still has an older value at offset"
                f" {before.offset}, although this replica is compacted up to offset {clean_offset}"
            )
            yield self._finding(Check.COMPACTION_ORDER, before.offset, record.replica, message)
        self._latest[record.replica] = _Latest(
            record.offset, record.is_tombstone, record.is_transactional
        )

    def finish(self) -> Iterator[tuple[Suspicion | None, Finding]]:
        """Check that every compared replica has the latest record of the key.

        A finding with a `Suspicion` must be confirmed by another read; one with None is certain.
        """
        for finding in self._close_group():
            yield None, finding
        latest = {broker: self._latest.get(broker, _Latest()) for broker in self.compared}
        if not latest:
            return
        offset, is_tombstone, is_transactional = max(
            (newest.offset, newest.is_tombstone, newest.is_transactional)
            for newest in latest.values()
        )
        if is_transactional:
            return
        # Compaction may have removed a tombstone; then the replica has no record of the key.
        without_latest = {
            broker: newest
            for broker, newest in latest.items()
            if newest.offset != offset and not (is_tombstone and newest.offset == UNKNOWN)
        }
        if not without_latest:
            return
        accused = disagreeing_replicas(
            {broker: broker in without_latest for broker in latest}, self.facts.leader
        )
        for broker in sorted(accused):
            holds = broker not in without_latest
            where = self._latest.get(broker, _Latest()).offset
            instead = (
                "no record of its key"
                if where == UNKNOWN
                else f"only an older one at offset {where}"
            )
            message = (
                f"the record at offset {offset} is not on the other replicas"
                if holds
                else f"the record at offset {offset} is missing, and there is {instead}"
            )
            finding = self._finding(Check.REPLICA_MISMATCH, offset, broker, message)
            # `until` lets the judge check whether retention has deleted it.
            finding = finding._replace(until=offset + 1)
            yield Suspicion(self._key, offset, broker), finding

    def _close_group(self) -> Iterator[Finding]:
        """Compare the records of all replicas at one offset."""
        group, self._group = self._group, []
        digests = {record.replica: record.digest for record in group}
        for broker in sorted(disagreeing_replicas(digests, self.facts.leader)):
            offset = group[0].offset
            message = f"the record at offset {offset} differs from the one on other replicas"
            yield self._finding(Check.REPLICA_MISMATCH, offset, broker, message)

    def _finding(self, check: Check, offset: int, replica: int, message: str) -> Finding:
        facts = self.facts
        return Finding(check, facts.topic, facts.partition, offset, replica, message)
