"""Checks the timestamps of a batch, and of consecutive batches.

`message.timestamp.after.max.ms` limits the CreateTime of a record relative to the time of its
append, which is not stored. The append was before the read was planned, so that time is the limit.
`message.timestamp.before.max.ms` gives no such limit: a record that is old now may have been new
then. LogAppendTime is the leader's clock, so it does not decrease within a leadership (KIP-32),
unless the clock was set: a step back of up to a second is accepted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import UNKNOWN, Batch, PartitionFacts
from chiplog_spark.verify.findings import Finding
from chiplog_wire.records.batch import NO_TIMESTAMP

CLOCK_STEP_MS: Final = 1_000
CLOCKS_APART_MS: Final = 5 * 60_000
"""How far the clocks of clients, brokers and this job may differ without a finding."""


def check_newest(
    facts: PartitionFacts, batch: Batch, timestamps_ms: Sequence[int]
) -> Iterator[Finding]:
    """Yields a finding unless `maxTimestamp` is that of the batch's newest record.

    `timestamps_ms` are those of its records. Lookups by time use `maxTimestamp`. With
    LogAppendTime it is the time of every record, and compaction leaves it unchanged.
    """
    if batch.is_log_append_time or not timestamps_ms:
        return
    newest_ms = max(timestamps_ms)
    if newest_ms != batch.max_timestamp_ms:
        yield _finding(
            facts,
            batch,
            f"maxTimestamp is {batch.max_timestamp_ms}, the newest record has {newest_ms}",
        )


def check_bounds(facts: PartitionFacts, batch: Batch) -> Iterator[Finding]:
    """Yields a finding if the newest record is later than the broker could have accepted."""
    newest_ms = batch.max_timestamp_ms
    if batch.is_log_append_time or batch.is_control or not batch.record_count:
        return
    planned_ms = facts.planned_ms
    latest_ms = planned_ms + facts.timestamp_after_max_ms + CLOCKS_APART_MS
    if newest_ms < NO_TIMESTAMP:
        yield _finding(facts, batch, f"maxTimestamp is {newest_ms}")
    elif newest_ms > latest_ms:
        ahead_ms = newest_ms - planned_ms
        yield _finding(
            facts,
            batch,
            f"maxTimestamp {newest_ms} is {ahead_ms} ms ahead of now, and"
            f" message.timestamp.after.max.ms is {facts.timestamp_after_max_ms}",
        )


@dataclass(slots=True)
class AppendOrder:
    """Checks LogAppendTime of one replica's batches, in the order of offsets."""

    facts: PartitionFacts
    replica: int
    epoch: int = UNKNOWN
    newest_ms: int = NO_TIMESTAMP

    def check_next(self, batch: Batch) -> Iterator[Finding]:
        """Yields a finding if LogAppendTime decreases within a leader epoch."""
        if not batch.is_log_append_time:
            return
        if batch.leader_epoch != self.epoch:
            self.epoch, self.newest_ms = batch.leader_epoch, NO_TIMESTAMP
        if batch.max_timestamp_ms < self.newest_ms - CLOCK_STEP_MS:
            yield _finding(
                self.facts,
                batch,
                f"LogAppendTime is {batch.max_timestamp_ms}, but an earlier batch of the same"
                f" leader epoch has {self.newest_ms}",
            )
        self.newest_ms = max(self.newest_ms, batch.max_timestamp_ms)


def _finding(facts: PartitionFacts, batch: Batch, what: str) -> Finding:
    message = f"the batch of offsets {batch.base_offset} to {batch.last_offset}: {what}"
    return Finding(
        Check.TIMESTAMP,
        facts.topic,
        facts.partition,
        batch.base_offset,
        batch.replica,
        message,
    )
