"""Checks leader epochs: they never decrease, and agree with the leader's epoch history.

Base offset and epoch of a batch are not covered by its checksum, so a changed bit there is found
only here and by comparing replicas. The history is the leader's answer to OffsetsForLeaderEpoch
(KIP-101, KIP-320), requested when the read was planned; below the high watermark it does not
change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import UNKNOWN, Batch, EpochHistory, EpochStart, PartitionFacts
from chiplog_spark.verify.findings import Finding

MAX_EPOCHS: Final = 10_000
"""Epochs of one partition's history. Of longer ones only the order is checked."""


@dataclass(slots=True)
class EpochOrder:
    """Checks one replica, batch after batch in the order of offsets."""

    facts: PartitionFacts
    replica: int
    epoch: int = UNKNOWN

    def check_next(self, batch: Batch) -> Iterator[Finding]:
        """Yields a finding if the epoch of a batch is wrong; such an epoch is not remembered."""
        # A log may begin within a batch; the epochs of deleted records are not known.
        offset = max(batch.base_offset, self.facts.start_offset)
        expected_epoch = UNKNOWN
        if batch.last_offset >= self.facts.start_offset:
            expected_epoch = self.facts.epochs.epoch_at(offset)
        if expected_epoch not in (UNKNOWN, batch.leader_epoch):
            yield self._finding(batch, f"but the leader's epoch history says {expected_epoch}")
        elif batch.leader_epoch < self.epoch:
            yield self._finding(batch, f"but an earlier batch has {self.epoch}")
        else:
            self.epoch = batch.leader_epoch

    def _finding(self, batch: Batch, why: str) -> Finding:
        facts = self.facts
        message = (
            f"the batch at offset {batch.base_offset} has leader epoch {batch.leader_epoch}, {why}"
        )
        return Finding(
            Check.EPOCH_REGRESSION,
            facts.topic,
            facts.partition,
            batch.base_offset,
            self.replica,
            message,
        )


def next_epoch_to_request(found: list[tuple[int, int]], start_offset: int) -> int:
    """The next older epoch to request for a history; -1 if no more are needed.

    `found` are the answers so far, newest first: an epoch and its end offset.
    """
    if not found or len(found) >= MAX_EPOCHS:
        return UNKNOWN
    epoch, _ = found[-1]
    return epoch - 1 if epoch > 0 and found[-1][1] > start_offset else UNKNOWN


def history_of(found: list[tuple[int, int]]) -> EpochHistory:
    """The history from answers, newest first: an epoch begins where the previous one ends.

    The start of the oldest epoch is unknown, so it is assumed to be the start of the log.
    """
    if not found or len(found) >= MAX_EPOCHS:
        return EpochHistory()
    starts = [
        EpochStart(epoch, before_end)
        for (epoch, _), (_, before_end) in zip(found, [*found[1:], (UNKNOWN, 0)], strict=True)
    ]
    return EpochHistory(tuple(reversed(starts)))
