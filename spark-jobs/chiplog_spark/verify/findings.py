"""Violations that checks have found. Only some are kept, all are counted."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.model.spark_result import Check, Violation
from chiplog_spark.verify.facts import UNKNOWN


class Finding(NamedTuple):
    """A violation, before it is part of a result."""

    check: Check
    topic: str
    partition: int
    offset: int
    replica: int
    message: str
    until: int = UNKNOWN
    """For missing offsets: the first offset after them; -1 for other findings. Retention may have
    deleted the offsets in between."""

    def violation(self) -> Violation:
        """The violation as it appears in a result."""
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
    """The first findings of each check and replica, and the number of all."""

    limit: int
    """Findings of one check on one replica that are kept."""
    kept: list[Finding] = field(default_factory=list)
    counts: Counter[tuple[Check, int]] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Keep the finding, or only count it if `limit` findings like it were kept."""
        check_and_replica = finding.check, finding.replica
        self.counts[check_and_replica] += 1
        if self.counts[check_and_replica] <= self.limit:
            self.kept.append(finding)

    def extend(self, found: Iterable[Finding]) -> None:
        for finding in found:
            self.add(finding)


def explained_by_retention(finding: Finding, start_offset_after: int) -> bool:
    """Whether the missing offsets of a finding are below the log start offset after the read.

    A replica deletes only from its log start, so retention may have caused such a hole, which
    cannot be checked any more.
    """
    return finding.until != UNKNOWN and finding.until <= start_offset_after
