"""Whether each batch of a replica begins where the previous one ends.

Offsets are assigned consecutively, so a gap is a loss. Compaction leaves legitimate gaps: it
removes records and whole batches. Aborted transactions and empty batches leave none, because their
batches keep their offsets. If a topic was compacted once and is not any more, a batch with fewer
records than offsets shows it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_core.model.spark_result import Check
from chiplog_spark.verify.facts import Batch, PartitionFacts
from chiplog_spark.verify.findings import Finding


@dataclass(slots=True)
class Continuity:
    """Checks one replica, batch after batch in stored order."""

    facts: PartitionFacts
    replica: int
    expected: int
    """The expected base offset of the next batch."""
    may_have_gaps: bool = False
    is_first: bool = True
    """Whether the next batch is the first of a range: the range may begin within it."""

    def begin(self, offset: int) -> None:
        """Begin a new range of offsets that were read: the next batch may follow a gap."""
        self.expected, self.is_first = offset, True

    def check_next(self, batch: Batch) -> Iterator[Finding]:
        """Yields a finding if a batch does not begin where the previous one ends."""
        self.may_have_gaps |= batch.was_compacted
        base, last, expected = batch.base_offset, batch.last_offset, self.expected
        if last < base:
            yield self._finding(
                Check.OFFSET_OVERLAP, base, f"a batch ends at {last}, before it begins at {base}"
            )
            return
        if base > expected and not self.may_have_gaps:
            yield self.hole(base)
        # A range may begin within its first batch.
        elif base < expected and not (self.is_first and last >= expected):
            yield self._finding(
                Check.OFFSET_OVERLAP,
                base,
                f"a batch has offsets {base} to {last}, but the next offset must be {expected}",
            )
        self.is_first = False
        self.expected = max(expected, last + 1)

    def hole(self, until: int) -> Finding:
        """The finding for missing offsets up to `until`, exclusive."""
        message = f"offsets {self.expected} to {until - 1} are missing"
        return self._finding(Check.OFFSET_GAP, self.expected, message, until)

    def _finding(self, check: Check, offset: int, message: str, until: int = -1) -> Finding:
        facts = self.facts
        return Finding(check, facts.topic, facts.partition, offset, self.replica, message, until)
