"""The first stage: a task reads its splits and inspects each batch.

This module reads and waits for the rate limit, and `inspection` checks. One batch and a bounded
number of rows are in memory.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from chiplog_core.model.spark_result import Check
from chiplog_spark.source.columns import Unread, digest
from chiplog_spark.source.options import Mode, Options
from chiplog_spark.source.reading import batches_of_split
from chiplog_spark.source.splits import Split
from chiplog_spark.verify.facts import UNKNOWN, Batch, PartitionFacts
from chiplog_spark.verify.inspection import BatchInspector, Wanted
from chiplog_spark.verify.judge import Place
from chiplog_spark.verify.pace import Pace
from chiplog_spark.verify.reports import Read, Refusal
from chiplog_spark.verify.rows import Kind, Row, row_of_batch, row_of_record
from chiplog_spark.verify.transactions import control_of
from chiplog_spark.wire import errors
from chiplog_spark.wire.access import Access
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import Isolation, RawBatch
from chiplog_wire.records.batch import CRC_START

BEHIND: Final = frozenset({errors.ReplicaBehind.reason, errors.OffsetOutOfRange.reason})
"""Errors of a replica that has no records there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The request and the facts that all tasks of one stage need. It is pickled."""

    access: Access
    facts: Mapping[Place, PartitionFacts]
    wanted: Wanted
    bytes_per_second: float | None = None
    """The limit of one task."""
    deadline_s: float | None = None
    """Unix time in seconds at which reading ends; None means no time limit."""


def rows_of(task: Task, splits: Iterator[Split]) -> Iterator[Row]:
    """Rows of all batches and records to be compared, and of the report on each split."""
    with Client(task.access) as client:
        pace = Pace(task.bytes_per_second, time.monotonic())
        for split in splits:
            yield from _Reading(task, split, pace).rows(client)


class _Reading:
    """Reads one split."""

    def __init__(self, task: Task, split: Split, pace: Pace) -> None:
        self._task, self._split, self._pace = task, split, pace
        at = split.at
        self._facts = task.facts[at.topic, at.partition]
        self._read = Read(
            topic=at.topic,
            partition=at.partition,
            replica=at.replica,
            start=split.start,
            end=split.start,
            planned_end=split.end,
        )
        self._inspector = BatchInspector(self._facts, task.wanted, self._read)

    def rows(self, client: Client) -> Iterator[Row]:
        """Read the split; the report comes last."""
        read, at = self._read, self._split.at
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        waited_s = 0.0
        for found in self._found(client):
            if self._is_late():
                read.was_cut = True
                break
            if isinstance(found, Unread):
                self._unread(found)
                continue
            # A batch that begins in the previous split is checked by its task.
            if self._split.owns(found.base_offset):
                yield from self._inspect(found)
            read.end = max(read.end, min(found.last_offset + 1, self._split.end))
            waited_s += self._wait(self._pace.wait_s(len(found.data), time.monotonic()))
        else:
            if read.refusal is None and not read.was_cut:
                read.end = self._split.end
        read.seconds = max(time.monotonic() - began_s - waited_s, 0.0)
        read.cpu_seconds = time.process_time() - began_cpu_s
        text = read.to_json()
        yield Row(at.topic, at.partition, b"", Kind.READ, read.start, at.replica, text=text)

    def _found(self, client: Client) -> Iterator[RawBatch | Unread]:
        """The batches of the split, and an `Unread` for each range of offsets that could not be
        read, for whatever reason: they were deleted, are above the end of the log, or the broker
        refused. Nothing if the deadline has passed already; later `rows` checks it."""
        at, task = self._split.at, self._task
        if self._is_late():
            self._read.was_cut = True
            return
        options = Options(
            access=task.access,
            topic=at.topic,
            replica=at.replica,
            mode=Mode.BATCHES,
            isolation=Isolation.READ_UNCOMMITTED,
            marked_below=self._marked_below(),
        )
        try:
            yield from batches_of_split(client, self._split, options)
        except errors.OffsetOutOfRange as beyond:
            yield Unread(self._read.end, self._split.end - 1, beyond)

    def _marked_below(self) -> int:
        """The offset below which the replica's list of aborted transactions is checked."""
        known = self._facts.replica(self._split.at.replica)
        if known is None or Check.TRANSACTION_INDEX not in self._task.wanted.checks:
            return 0
        return known.stable_offset

    def _inspect(self, found: RawBatch) -> Iterator[Row]:
        """Check a batch; yields the rows for the comparison with other replicas."""
        at, header, data = self._split.at, found.header, found.data
        batch = Batch(
            at.replica,
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            header.crc,
            crc32c(data[CRC_START:]),
            len(data),
            header.record_count,
            header.attributes,
            header.max_timestamp_ms,
            digest(header, data),
            header.producer_id,
            header.producer_epoch,
            control_of(header, data),
            UNKNOWN if found.is_aborted is None else int(found.is_aborted),
        )
        compared = self._inspector.inspect(batch, header, data)
        if self._task.wanted.keys is None:
            yield row_of_batch(at.topic, at.partition, batch)
        for record in compared:
            yield row_of_record(at.topic, at.partition, record)

    def _unread(self, unread: Unread) -> None:
        """Note why offsets could not be read.

        If the replica has no such offsets, they count as read and missing: the second stage decides
        whether that is a violation. Any other error is a refusal.
        """
        why = unread.why
        if why.reason in BEHIND:
            self._read.end = max(self._read.end, unread.last_offset + 1)
        else:
            self._read.refusal = Refusal(why.reason, unread.first_offset, str(why))

    def _wait(self, wait_s: float) -> float:
        """Wait for the rate limit, but not beyond the deadline; returns the seconds waited."""
        deadline_s = self._task.deadline_s
        if deadline_s is not None:
            wait_s = min(wait_s, max(deadline_s - time.time(), 0.0))
        if wait_s:
            time.sleep(wait_s)
        return wait_s

    def _is_late(self) -> bool:
        """Whether the deadline has passed."""
        deadline_s = self._task.deadline_s
        return deadline_s is not None and time.time() >= deadline_s
