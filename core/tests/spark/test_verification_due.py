"""By when a schedule asks for a complete run, and how the last one went."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_run import Outcome, PastRun
from chiplog_core.model.verification import Verification, VerificationSpec, VerificationStatus
from chiplog_core.naming import labels
from chiplog_core.spark.verification_due import due, duration, has_failed, last_complete

FRIDAY = datetime(2026, 1, 30, 12, 0, tzinfo=UTC)
DAILY = "0 3 * * *"


def verification(
    schedule: str | None = DAILY,
    *,
    status: VerificationStatus | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Verification:
    about = Metadata(
        name="all",
        namespace="apps",
        uid="u1",
        generation=1,
        creation_timestamp=FRIDAY,
        annotations=annotations or {},
    )
    wanted = VerificationSpec(cluster_ref=ClusterRef(name="demo"), schedule=schedule, **spec)
    return Verification(
        metadata=about, spec=wanted, status=VerificationStatus() if status is None else status
    )


def past(at: datetime, *, succeeded: bool) -> PastRun:
    return PastRun(application="a", succeeded=succeeded, finished_at=at, reason="Done")


def day(number: int, hour: int = 3) -> datetime:
    """Of February 2026; the first is a Sunday."""
    return datetime(2026, 2, number, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "first", "second"),
    [
        (DAILY, datetime(2026, 1, 31, 3, tzinfo=UTC), day(1)),
        ("0 3 * * 1-5", day(2), day(3)),
        ("0 3 * * 0", day(1), day(8)),
    ],
)
def test_a_run_has_until_the_time_after_its_own(
    schedule: str, first: datetime, second: datetime
) -> None:
    assert due(verification(schedule)) == second
    done = VerificationStatus(history=(past(first + timedelta(minutes=9), succeeded=True),))
    later = due(verification(schedule, status=done))
    assert later is not None
    assert later > second


def test_a_run_that_failed_keeps_nothing_and_one_that_found_violations_does() -> None:
    failed = VerificationStatus(history=(past(day(4), succeeded=False),))
    assert due(verification(status=failed)) == day(1)
    found = VerificationStatus(
        outcome=Outcome(complete=True, reason="ViolationsFound"),
        started_at=day(4),
        finished_at=day(4, 4),
        last_success=day(2),
    )
    assert due(verification(status=found)) == day(6)
    assert last_complete(found) == day(4, 4)


def test_nothing_is_due_where_nothing_is_to_begin() -> None:
    assert due(verification(None)) is None
    assert due(verification(suspend=True)) is None
    assert due(verification(annotations={labels.PAUSE: "true"})) is None
    assert due(verification("61 3 * * *")) is None


def test_a_failure_is_told_until_a_run_is_complete() -> None:
    assert not has_failed(VerificationStatus())
    failed = VerificationStatus(outcome=Outcome(complete=False, reason="OOMKilled"))
    assert has_failed(failed)
    again = VerificationStatus(started_at=FRIDAY, history=(past(FRIDAY, succeeded=False),))
    assert has_failed(again)
    done = VerificationStatus(
        outcome=Outcome(complete=True, reason="NoViolations"),
        history=(past(FRIDAY, succeeded=True), past(FRIDAY, succeeded=False)),
    )
    assert not has_failed(done)


def test_how_long_it_took_is_known_when_it_is_over() -> None:
    assert duration(VerificationStatus()) is None
    assert duration(VerificationStatus(started_at=day(1))) is None
    over = VerificationStatus(started_at=day(1), finished_at=day(1, 5))
    assert duration(over) == timedelta(hours=2)
