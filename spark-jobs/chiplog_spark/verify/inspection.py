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
        read.records += batch.record_count
        read.batches += 1
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
        newest_delta_ms: int | None = None
        compared: list[Surviving] = []
        for records in scan_payload(payload, header.record_count):
            step_ms = max(record[3] for record in records)
            newest_delta_ms = max(step_ms, step_ms if newest_delta_ms is None else newest_delta_ms)
            if self._placement is not None:
                self._place(self._placement, batch, records)
            if self._compares_records:
                compared += self._records(batch, payload, records)
        if self._checks_timestamps and newest_delta_ms is not None:
            newest_ms = header.base_timestamp_ms + newest_delta_ms
            self._keep(check_newest(self._facts, batch, [newest_ms]))
        return compared

    def _place(self, placement: Placement, batch: Batch, records: list[ScannedRecord]) -> None:
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
        self, batch: Batch, payload: bytes, records: list[ScannedRecord]
    ) -> Iterator[Surviving]:
        keys = self._wanted.keys
        end = self._facts.end_offset
        for delta, start, stop, _, key, is_tombstone in records:
            if key is None or batch.base_offset + delta >= end:
                continue
            name = digest_of(key)
            if keys is not None and name not in keys:
                continue
            # Without the timestamp delta: its base changes with compaction.
            _, rest = attributes_and_rest(payload, start)
            digest = digest_of(payload[rest:stop])
            offset = batch.base_offset + delta
            yield Surviving(name, offset, batch.replica, digest, is_tombstone)

    def _keep(self, found: Iterator[Finding]) -> None:
        read = self._read
        for finding in found:
            if len(read.findings) < self._wanted.limit:
                read.findings.append(finding)
            else:
                self._count(finding.check.value)

    def _count(self, what: str) -> None:
        self._read.more[what] = self._read.more.get(what, 0) + 1
