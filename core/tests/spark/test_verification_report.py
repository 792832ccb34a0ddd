"""What a run of a Verification found, in words."""

from datetime import UTC, datetime
from typing import Any

from chiplog_core.ids import BrokerId, Offset, PartitionIndex
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_result import Check, Result, ResultState, Violation
from chiplog_core.model.verification import Verification, VerificationSpec, VerificationStatus
from chiplog_core.problems import Problem
from chiplog_core.spark.topic_choice import WaitReason
from chiplog_core.spark.verification_report import finding_of, verdicts

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
COVERAGE = {"topics": 1, "partitions": 6, "replicas": 18, "records": 300, "bytes": 4_000}
BAD = Violation(
    check=Check.CRC,
    topic="orders",
    partition=PartitionIndex(2),
    offset=Offset(7),
    replica=BrokerId(3),
    message="bad",
)
ELSEWHERE = Violation(
    check=Check.TIMESTAMP, topic="logs", partition=PartitionIndex(0), message="early"
)


def result(*violations: Violation, total: int | None = None, **summary: Any) -> Result:
    return Result(
        application="all-1",
        state=ResultState.SUCCEEDED,
        reason="Verified",
        summary={"coverage": COVERAGE, **summary},
        violations=violations,
        violations_total=len(violations) if total is None else total,
    )


def test_a_run_without_violations_says_what_it_has_read() -> None:
    found = finding_of(result())

    assert (found.reason, found.is_complete) == ("NoViolations", True)
    assert found.message == ("300 records, 4000 bytes, in 18 replicas of 6 partitions of 1 topics")


def test_the_first_violation_is_named_with_its_place_and_the_number_of_the_others() -> None:
    assert finding_of(result(BAD)).message == "Crc in orders-2 at offset 7 on broker 3: bad"
    assert finding_of(result(BAD, ELSEWHERE)).message.endswith(": bad and 1 more")
    assert finding_of(result(ELSEWHERE)).message == "Timestamp in logs-0: early"


def test_violations_that_were_not_listed_are_counted() -> None:
    found = finding_of(result(total=3))

    assert (found.reason, found.message) == ("ViolationsFound", "3 violations")


def test_a_job_that_counts_no_checks_has_those_that_it_lists_counted() -> None:
    listed = finding_of(result(BAD, ELSEWHERE, BAD))
    counted = finding_of(result(BAD, byCheck=[{"check": "Crc", "count": 40}]))

    assert [(one.check, one.count) for one in listed.by_check] == [
        (Check.CRC, 2),
        (Check.TIMESTAMP, 1),
    ]
    assert [(one.check, one.count) for one in counted.by_check] == [(Check.CRC, 40)]


def test_a_run_that_had_to_stop_is_not_complete_and_says_what_it_found_until_then() -> None:
    limit: dict[str, Any] = {"figures": {"timeLimitReached": True}}
    found = finding_of(result(**limit))
    bad = finding_of(result(BAD, **limit))

    assert (found.reason, found.is_complete) == ("TimeLimitReached", False)
    assert found.message.startswith("spec.timeLimit ended the run before everything was read: 300")
    assert (bad.reason, bad.is_complete) == ("ViolationsFound", False)
    assert bad.message == f"Crc in orders-2 at offset 7 on broker 3: bad; {found.message}"


def test_a_summary_that_does_not_read_has_verified_nothing() -> None:
    found = finding_of(result(coverage={"topics": "many"}))

    assert found.reason == "ResultInvalid"
    assert "summary.coverage.topics" in found.message
    assert (found.result, found.is_complete) == (None, False)


def ready(
    problems: tuple[Problem, ...] = (), wait_reason: WaitReason | None = None
) -> tuple[str, str]:
    verification = Verification(
        metadata=Metadata(name="all", namespace="apps"),
        spec=VerificationSpec(cluster_ref=ClusterRef(name="demo")),
    )
    (found,) = verdicts(
        verification,
        VerificationStatus(),
        problems=problems,
        wait_reason=wait_reason,
        finding=None,
        is_up_to_date=False,
    )
    assert found.type == "Ready"
    return found.reason, found.message


def test_a_problem_of_the_spec_is_reported_before_anything_that_is_missing() -> None:
    problem, wait_reason = (
        Problem("spec.schedule", "is odd", "correct it"),
        WaitReason("NoTopics", "none"),
    )

    assert ready((problem,), wait_reason) == ("InvalidConfig", "spec.schedule is odd: correct it")
    assert ready((), wait_reason) == ("NoTopics", "none")
    assert ready() == ("Waiting", "the run starts when the previous one has ended")
