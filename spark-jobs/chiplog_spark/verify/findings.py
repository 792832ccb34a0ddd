"""What a check found: one violation of one place. Few are kept, all are counted."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.model.spark_result import Check, Violation
from chiplog_spark.verify.facts import UNKNOWN


class Finding(NamedTuple):
    """A violation before it is told."""

    check: Check
    topic: str
    partition: int
    offset: int
    replica: int
    message: str
    until: int = UNKNOWN
    """Of a hole: the first offset after it. Retention may yet explain it."""

    def violation(self) -> Violation:
        """As a result tells it."""
        return Violation(
            check=self.check,
            topic=self.topic,
            partition=PartitionIndex(self.partition),
            offset=None if self.offset == UNKNOWN else Offset(self.offset),
            replica=None if self.replica == UNKNOWN else BrokerId(self.replica),
            message=self.message,
        )


@dataclass(slots=True)
class Findings:
    """The first of each check and replica; how many there are of each."""

    limit: int
    """So many of one check on one replica are kept."""
    kept: list[Finding] = field(default_factory=list)
    counts: Counter[tuple[Check, int]] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Keep it, or count it at least."""
        which = finding.check, finding.replica
        self.counts[which] += 1
        if self.counts[which] <= self.limit:
            self.kept.append(finding)

    def extend(self, found: Iterable[Finding]) -> None:
        for one in found:
            self.add(one)


def explained_by_retention(finding: Finding, start_offset_after: int) -> bool:
    """Whether a hole lies in what retention has deleted by the end of the read.

    A replica deletes from its log start on only; so a hole that ends at or below where its log
    begins afterwards may be that, and nobody can look any more.
    """
    return finding.until != UNKNOWN and finding.until <= start_offset_after
