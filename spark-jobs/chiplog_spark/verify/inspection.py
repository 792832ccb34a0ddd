"""Inspects batches: checks their records, and returns those that must be compared."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import Batch, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_spark.verify.placement import Placement
from chiplog_spark.verify.reports import Read
from chiplog_spark.verify.surviving import Surviving
from chiplog_spark.verify.times import check_bounds, check_newest
from chiplog_wire.records.batch import BatchHeader
from chiplog_wire.records.errors import RecordsError
from chiplog_wire.records.scan import ScannedRecord, attributes_and_rest, payload_of, scan_payload

_DIGEST_BYTES: Final = 16
# The checks that need the records of compacted topics.
COMPARING: Final = frozenset({Check.REPLICA_MISMATCH, Check.COMPACTION_ORDER})


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The requested checks, and their settings."""

    checks: frozenset[Check]
    partitioners: tuple[str, ...] = ()
    keys: frozenset[bytes] | None = None
    """Only records of these (digests of) keys are compared, and nothing else is checked."""
    limit: int = 100
    """Findings of one check of one split that are reported."""


def digest_of(data: bytes) -> bytes:
    """A digest of 16 bytes, in place of a key or a record."""
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()


class BatchInspector:
    """Inspects the batches of one split of one replica; findings are added to `read`."""

    def __init__(self, facts: PartitionFacts, wanted: Wanted, read: Read) -> None:
        self._facts = facts
        self._wanted = wanted
        self._read = read
        only_keys = wanted.keys is not None
        checks: Collection[Check] = () if only_keys else wanted.checks
        self._checks_timestamps = Check.TIMESTAMP in checks
        self._compares_records = facts.compacts and (only_keys or bool(COMPARING & wanted.checks))
        places = Check.KEY_PLACEMENT in checks and facts.partitions > 1
        self._placement = Placement(facts, wanted.partitioners) if places else None
        if self._placement is not None:
            read.tally = self._placement.tally

    def inspect(self, batch: Batch, header: BatchHeader, data: memoryview) -> list[Surviving]:
        """Check a batch; returns its records if they must be compared key by key."""
        read = self._read
        read.bytes += batch.size_bytes
        if not batch.is_control:  # an end marker is no record that anybody has written
            read.records += batch.record_count
        read.batches += 1
        # Bytes with a wrong checksum cannot be parsed; the second stage reports them.
        if batch.stored_crc != batch.computed_crc or header.is_control:
            return []
        if self._checks_timestamps:
            self._keep(check_bounds(self._facts, batch))
        if not batch.record_count:
            return []
        if not (self._checks_timestamps or self._placement is not None or self._compares_records):
            return []
        try:
            payload = payload_of(data, header)
            return self._check_records(batch, header, payload)
        except RecordsError:
            read.unreadable += 1
            return []

    def _check_records(self, batch: Batch, header: BatchHeader, payload: bytes) -> list[Surviving]:
        """Check the records of a batch; returns those that must be compared key by key."""
        newest_delta_ms: int | None = None
        compared: list[Surviving] = []
        for records in scan_payload(payload, header.record_count):
            deltas_ms = [record[3] for record in records]  # timestamps minus the batch's base
            if newest_delta_ms is not None:
                deltas_ms.append(newest_delta_ms)
            newest_delta_ms = max(deltas_ms)
            if self._placement is not None:
                self._place(self._placement, batch, records)
            if self._compares_records:
                compared += self._records(batch, header, payload, records)
        if self._checks_timestamps and newest_delta_ms is not None:
            newest_ms = header.base_timestamp_ms + newest_delta_ms
            self._keep(check_newest(self._facts, batch, [newest_ms]))
        return compared

    def _place(self, placement: Placement, batch: Batch, records: list[ScannedRecord]) -> None:
        """Check the partitions of keys; findings count only if the topic's partitioner is known."""
        kept = self._read.misplaced
        for record in records:
            found = placement.check_next(batch.replica, batch.base_offset + record[0], record[4])
            if found is None:
                continue
            if len(kept) < self._wanted.limit:
                kept.append(found)
            else:
                self._count(Check.KEY_PLACEMENT.value)

    def _records(
        self, batch: Batch, header: BatchHeader, payload: bytes, records: list[ScannedRecord]
    ) -> Iterator[Surviving]:
        """The records with a key below the end offset; with `Wanted.keys` only those keys."""
        keys = self._wanted.keys
        end = self._facts.end_offset
        for delta, start, stop, _, key, is_tombstone in records:
            if key is None or batch.base_offset + delta >= end:
                continue
            key_digest = digest_of(key)
            if keys is not None and key_digest not in keys:
                continue
            # The digest omits the timestamp delta, whose base changes with compaction.
            _, rest = attributes_and_rest(payload, start)
            digest = digest_of(payload[rest:stop])
            offset = batch.base_offset + delta
            yield Surviving(
                key_digest,
                offset,
                batch.replica,
                digest,
                is_tombstone=is_tombstone,
                is_transactional=header.is_transactional,
            )

    def _keep(self, found: Iterator[Finding]) -> None:
        """Add findings to the report, or only count them beyond the limit."""
        read = self._read
        for finding in found:
            if len(read.findings) < self._wanted.limit:
                read.findings.append(finding)
            else:
                self._count(finding.check.value)

    def _count(self, check: str) -> None:
        """Count a finding of a check that is not listed."""
        self._read.more[check] = self._read.more.get(check, 0) + 1
