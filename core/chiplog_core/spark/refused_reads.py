"""What a job was refused, in the words of the broker that refused it: a pure function.

A broker that finds damage while a job reads serves nothing of that replica any more. The job sees
at which offset its read was refused, which is where the read began; the broker knows the file, the
first offset that cannot be trusted, and whether the file ends too early. It reports that in the
history of its data directory, also when the replica was fetched again in the meantime.
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
"""By so much the clock of a broker may be another than the operator's."""

CHECK_OF: Final = {DamageKind.CHANGED: Check.CRC, DamageKind.TRUNCATED: Check.TRUNCATED_TAIL}


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRead:
    """A replica that could not be read to its end. An older job does not report every field."""

    topic: Annotated[str, Length(249)]
    topic_id: TopicId | None = None
    partition: PartitionIndex | None = None
    replica: BrokerId | None = None
    offset: Offset | None = None
    """Where the read began that was refused."""
    message: Annotated[str, Length(65_536)] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """What the brokers say that they have found damaged, for one run."""

    brokers: Mapping[BrokerId, Broker]
    checks: Collection[Check] = ()
    """What the run was to check; empty: everything."""
    began: datetime
    ended: datetime

    def of(self, read: RefusedRead) -> PastDamage | None:
        """The damage that the broker reported where the job's read was refused; None if it is
        not known."""
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
        """Whether the replica was damaged at some time during the run, give or take
        `CLOCKS_DIFFER`. It may have been damaged long before, if it could not be repaired."""
        is_found = past.found_at <= self.ended + CLOCKS_DIFFER
        return is_found and (past.whole_at is None or past.whole_at >= self.began - CLOCKS_DIFFER)

    def check(self, past: PastDamage) -> Check:
        """The check that the damage violates; CRC if the run did not include it."""
        check = CHECK_OF[past.kind]
        return check if not self.checks or check in self.checks else Check.CRC


def named(
    violations: Sequence[Violation], refused: Sequence[RefusedRead], witness: Witness
) -> tuple[Violation, ...]:
    """The violations. Those for a refused read get the place and the message that the broker
    reported."""
    reads = {(read.topic, read.partition, read.replica, read.offset): read for read in refused}

    def named_one(violation: Violation) -> Violation:
        read = reads.get(
            (violation.topic, violation.partition, violation.replica, violation.offset)
        )
        past = None if read is None or violation.check is not Check.CRC else witness.of(read)
        if past is None:
            return violation
        return replace(
            violation, check=witness.check(past), offset=past.offset, message=_message(past)
        )

    return tuple(map(named_one, violations))


def recounted(
    counts: Sequence[CheckCount], before: Sequence[Violation], after: Sequence[Violation]
) -> tuple[CheckCount, ...]:
    """The number of violations by check, after `named` changed the checks of some."""
    count = Counter({count.check: count.count for count in counts})
    count.subtract(violation.check for violation in before)
    count.update(violation.check for violation in after)
    return tuple(_counts(count))


def _counts(count: Mapping[Check, int]) -> Iterator[CheckCount]:
    for check, number in sorted(count.items()):
        if number > 0:
            yield CheckCount(check=check, count=number)


def _message(past: PastDamage) -> str:
    what = "ends too early" if past.kind is DamageKind.TRUNCATED else "is not what was written"
    text = f"its broker refuses to serve the replica, because {past.file} {what}: {past.message}"
    return text if len(text) <= MAX_MESSAGE_LENGTH else text[:MAX_MESSAGE_LENGTH]
