"""Adds the broker's report of damage to the reads that a broker refused to a Verification's job.

A broker that finds a replica damaged while a job reads it refuses all further reads of it. The job
knows only the offset at which the refused read began. The broker knows the file, the first damaged
offset, and whether the file ends too early; it reports them in the damage history of its data
directory, even if the replica was fetched again in the meantime.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Final

from chiplog_core.ids import BrokerId, Offset, PartitionIndex, TopicId
from chiplog_core.manifest.constraints import Length
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_status import DamageKind, PastDamage
from chiplog_core.model.spark_result import MAX_MESSAGE_LENGTH, Check, Violation
from chiplog_core.model.verification import CheckCount

CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""The largest difference between the clocks of a broker and the operator that is expected."""

CHECK_OF: Final = {DamageKind.CHANGED: Check.CRC, DamageKind.TRUNCATED: Check.TRUNCATED_TAIL}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRead:
    """A replica that could not be read to its end. An older job does not report every field."""

    topic: Annotated[str, Length(249)]
    topic_id: TopicId | None = None
    partition: PartitionIndex | None = None
    replica: BrokerId | None = None
    offset: Offset | None = None
    """The offset at which the refused read began."""
    message: Annotated[str, Length(65_536)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageReports:
    """The damage that brokers report, for one run of a Verification."""

    brokers: Mapping[BrokerId, Broker]
    checks: Collection[Check] = ()
    """The checks of the run; empty for all."""
    began: datetime
    """When the run began."""
    ended: datetime
    """When the run ended."""

    def of(self, read: RefusedRead) -> PastDamage | None:
        """The latest damage that the broker of the refused read reports for that replica and this
        run; None if it reports none."""
        broker = None if read.replica is None else self.brokers.get(read.replica)
        directories = () if broker is None else broker.status.directories
        found = (
            past
            for directory in directories
            for past in directory.damage_history
            if (past.topic_id, past.partition) == (read.topic_id, read.partition)
            and past.offset is not None
            and self._is_of_the_run(past)
        )
        return max(found, key=lambda past: past.found_at, default=None)

    def _is_of_the_run(self, past: PastDamage) -> bool:
        """Whether the replica was damaged at some time during the run, with a tolerance of
        `CLOCKS_DIFFER`. The damage may have been found long before, if it was not repaired."""
        found_before_end = past.found_at <= self.ended + CLOCKS_DIFFER
        # `whole_at` is when the replica was undamaged again; None: it still is damaged.
        return found_before_end and (
            past.whole_at is None or past.whole_at >= self.began - CLOCKS_DIFFER
        )

    def check(self, past: PastDamage) -> Check:
        """The check that the damage violates; CRC if the run did not include it."""
        check = CHECK_OF[past.kind]
        return check if not self.checks or check in self.checks else Check.CRC


def with_broker_reports(
    violations: Sequence[Violation], refused: Sequence[RefusedRead], damage_reports: DamageReports
) -> tuple[Violation, ...]:
    """The violations of a run. A CRC violation that stands for a refused read gets the check,
    offset and message of the damage that the broker reports, if it reports any."""
    reads = {(read.topic, read.partition, read.replica, read.offset): read for read in refused}

    def with_broker_report(violation: Violation) -> Violation:
        """The violation; if it stands for a refused read, with the damage that the broker
        reports."""
        read = reads.get(
            (violation.topic, violation.partition, violation.replica, violation.offset)
        )
        past = None if read is None or violation.check is not Check.CRC else damage_reports.of(read)
        if past is None:
            return violation
        return replace(
            violation, check=damage_reports.check(past), offset=past.offset, message=_message(past)
        )

    return tuple(map(with_broker_report, violations))


def counted_again(
    counts: Sequence[CheckCount], before: Sequence[Violation], after: Sequence[Violation]
) -> tuple[CheckCount, ...]:
    """The number of violations by check, after `with_broker_reports` changed the checks of some
    listed ones from `before` to `after`. Violations that are counted, but not listed, are not
    affected."""
    by_check = Counter({count.check: count.count for count in counts})
    by_check.subtract(violation.check for violation in before)
    by_check.update(violation.check for violation in after)
    return tuple(_counts(by_check))


def _counts(by_check: Mapping[Check, int]) -> Iterator[CheckCount]:
    """The counts above 0, sorted by check."""
    for check, number in sorted(by_check.items()):
        if number > 0:
            yield CheckCount(check=check, count=number)


def _message(past: PastDamage) -> str:
    """The violation's message for this damage."""
    flaw = "ends too early" if past.kind is DamageKind.TRUNCATED else "is not what was written"
    text = f"the replica's broker refuses to serve it, because {past.file} {flaw}: {past.message}"
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[:MAX_MESSAGE_LENGTH]
