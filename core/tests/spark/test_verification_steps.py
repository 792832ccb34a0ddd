"""What is done next about a Verification: from what is written and seen, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chiplog_core.durations import Duration
from chiplog_core.ids import BrokerId, Offset, PartitionIndex, Session, StorageUuid, TopicId
from chiplog_core.manifest.documents import Flaw, UnreadableDocument
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_status import (
    BrokerStatus,
    DamageKind,
    DataDirectory,
    PastDamage,
    Tail,
)
from chiplog_core.model.conditions import ConditionStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_result import CRASHED, Check, Result, ResultState, Violation, failed
from chiplog_core.model.spark_run import RunProgress, RunState
from chiplog_core.model.verification import (
    Repair,
    RepairState,
    TopicSelector,
    Verification,
    VerificationPhase,
    VerificationSpec,
    VerificationStatus,
)
from chiplog_core.naming import labels
from chiplog_core.problems import Problem, Reason
from chiplog_core.spark.pod_states import DriverEnd
from chiplog_core.spark.runs import START_LIMIT, ObservedRun
from chiplog_core.spark.steps import Launch, OrderRefetch, Remove
from chiplog_core.spark.topic_choice import WaitReason
from chiplog_core.spark.verification_steps import VerificationView, next_step
from tests.spark.test_repairs import three_brokers

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
TOPICS = {"orders": {"team": "billing"}, "payments": {"team": "billing"}, "logs": {}}
COVERAGE = {"topics": 1, "partitions": 6, "replicas": 18, "records": 300, "bytes": 4_000}


def verification(**spec: Any) -> Verification:
    return Verification(
        metadata=Metadata(
            name="all", namespace="apps", uid="u1", generation=1, creation_timestamp=NOW
        ),
        spec=VerificationSpec(cluster_ref=ClusterRef(name="demo"), **spec),
    )


def succeeded(name: str, violations: int = 0, **summary: Any) -> Result:
    found = tuple(
        Violation(
            check=Check.CRC,
            topic="orders",
            partition=PartitionIndex(2),
            offset=Offset(7),
            replica=BrokerId(3),
            message="bad",
        )
        for _ in range(min(violations, 100))
    )
    return Result(
        application=name,
        state=ResultState.SUCCEEDED,
        reason="Verified",
        summary={"coverage": COVERAGE, **summary},
        violations=found,
        violations_total=violations,
    )


class World:
    """One Verification, as an API server keeps it, and a shell that does what it is told."""

    def __init__(self, **spec: Any) -> None:
        self.now = NOW
        self.verification = verification(**spec)
        self.there: dict[str, ObservedRun] = {}
        self.launched: list[str] = []
        self.removed: list[str] = []
        self.told: list[str] = []
        self.ordered: list[OrderRefetch] = []
        self.topics: dict[str, dict[str, str]] = dict(TOPICS)
        self.view: dict[str, Any] = {}

    @property
    def status(self) -> VerificationStatus:
        return self.verification.status

    @property
    def name(self) -> str:
        assert self.status.application is not None
        return self.status.application.name

    def phase(self) -> VerificationPhase | None:
        return self.status.phase

    def ready(self) -> tuple[str, str]:
        (found,) = [one for one in self.status.conditions if one.type == "Ready"]
        return found.status.value, found.reason

    def progress(self) -> RunProgress | None:
        assert self.status.application is not None
        return self.status.application.progress

    def seen(self) -> ObservedRun | None:
        application = self.status.application
        if application is None:
            return None
        return self.there.get(application.name, ObservedRun(state=RunState.GONE))

    def look(self, seconds: int = 0, **view: Any) -> None:
        self.now += timedelta(seconds=seconds)
        given = {"topics": self.topics, "seen": self.seen(), **self.view, **view}
        step = next_step(VerificationView(verification=self.verification, **given), self.now)
        for action in step.actions:
            if isinstance(action, Launch):
                self.launched.append(action.name)
                self.there[action.name] = ObservedRun(state=RunState.PENDING, kind="Job")
            if isinstance(action, Remove):
                self.removed.append(action.name)
                self.there.pop(action.name, None)
            if isinstance(action, OrderRefetch):
                self.ordered.append(action)
        self.told += [one.reason for one in step.events]
        self.verification = replace(self.verification, status=step.status)

    def run(self, seen: ObservedRun) -> None:
        """Begin, launch, and see this of it."""
        self.look()
        self.look()
        self.there[self.name] = seen
        self.look(seconds=5)

    def change(self, **spec: Any) -> None:
        metadata = self.verification.metadata
        self.verification = replace(
            self.verification,
            metadata=replace(metadata, generation=metadata.generation + 1),
            spec=replace(self.verification.spec, **spec),
        )


def test_a_run_is_named_first_then_made_then_done() -> None:
    world = World()
    world.look()
    assert world.launched == []
    assert world.phase() is VerificationPhase.PENDING
    world.look()
    assert world.launched == [world.name]
    world.there[world.name] = ObservedRun(state=RunState.RUNNING)
    world.look(seconds=2)
    assert world.phase() is VerificationPhase.RUNNING

    world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name))
    world.look(seconds=20)

    assert world.phase() is VerificationPhase.SUCCEEDED
    assert world.ready() == ("True", "Completed")
    assert world.status.last_success == world.now
    assert world.status.coverage is not None
    assert world.status.coverage.records == 300
    assert (world.status.violations_total, world.status.violations) == (0, ())
    assert world.told == ["RunBegun", "NoViolations"]


def test_what_is_done_is_not_done_again_until_something_else_is_wished_for() -> None:
    world = World()
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=succeeded("?")))
    for _ in range(3):
        world.look(seconds=100_000)
    assert len(world.launched) == 1

    world.change(successful_runs_history_limit=7)
    world.look()
    world.look()
    assert len(world.launched) == 1

    world.change(topics=("orders",))
    world.look()
    world.look()
    assert len(set(world.launched)) == 2


def test_violations_are_told_with_where_they_are() -> None:
    world = World()
    world.look()
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name, 130)))

    assert world.phase() is VerificationPhase.VIOLATIONS_FOUND
    assert world.status.violations_total == 130
    assert len(world.status.violations) == 100
    assert [(one.check, one.count) for one in world.status.violations_by_check] == [
        (Check.CRC, 100)
    ]
    assert world.status.last_success is None
    verified = next(one for one in world.status.conditions if one.type == "Verified")
    assert verified.status is ConditionStatus.FALSE
    assert "Crc in orders-2 at offset 7 on broker 3: bad and 129 more" in verified.message


def test_mixed_placements_are_a_warning_and_no_violation() -> None:
    world = World()
    world.look()
    message = "records lie by more than one hash: 480000 by murmur2, 25200 by crc32"
    mixed = {"topic": "orders", "reason": "MixedPlacement", "message": message}
    measured = {"topic": "orders", "partitioner": "murmur2", "share": 95.01, "others": ["crc32"]}
    result = succeeded(world.name, notices=[mixed], partitioners=[measured])
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=result))
    assert world.status.phase is VerificationPhase.SUCCEEDED
    told = {one.type: (one.reason, one.message) for one in world.status.conditions}
    assert told["Verified"][0] == "NoViolations"
    assert told["Warning"] == ("MixedPlacement", f"orders: {message}")
    assert world.status.partitioners[0].others == ("crc32",)
    assert world.told[-1] == "MixedPlacement"
    world.change(checks=(Check.CRC,))
    world.look()
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name)))
    assert [one.type for one in world.status.conditions] == ["Ready", "Verified"]


def test_violations_are_counted_by_check_also_those_that_are_not_listed() -> None:
    world = World()
    world.look()
    counts = [{"check": "Crc", "count": 120}, {"check": "Timestamp", "count": 10}]
    world.run(
        ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name, 130, byCheck=counts))
    )
    by_check = {one.check: one.count for one in world.status.violations_by_check}
    assert by_check == {Check.CRC: 120, Check.TIMESTAMP: 10}

    world.change(topics=("orders",))
    world.look()
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name)))
    assert world.status.violations_by_check == ()


def test_a_refused_read_is_told_as_its_broker_knows_it() -> None:
    """In the list, in the counts and in the condition, without a repair of anything."""
    world = World()
    world.look()
    past = PastDamage(
        topic="orders",
        topic_id=TopicId(bytes(15) + b"\x05"),
        partition=PartitionIndex(2),
        kind=DamageKind.TRUNCATED,
        file="orders-2/0.log",
        offset=Offset(9),
        found_at=NOW,
    )
    directory = DataDirectory(
        storage_uuid=StorageUuid(bytes(16)),
        tail=Tail.INTACT,
        intact_since=Session(1),
        damage_history=(past,),
    )
    broker = Broker(
        metadata=Metadata(name="demo-3", namespace="apps"),
        spec=BrokerSpec(
            broker_id=BrokerId(3), cluster="demo", cluster_id="id", intent=BrokerIntent.SERVE
        ),
        status=BrokerStatus(directories=(directory,)),
    )
    world.view["brokers"] = {BrokerId(3): broker}
    counts = [{"check": "Crc", "count": 1}, {"check": "Timestamp", "count": 10}]
    refused = [
        {
            "topic": "orders",
            "topicId": str(past.topic_id),
            "partition": 2,
            "replica": 3,
            "offset": 7,
            "message": "no",
        }
    ]
    result = succeeded(world.name, 1, byCheck=counts, refused=refused)
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=replace(result, violations_total=11)))
    assert world.phase() is VerificationPhase.FAILED, "not everything was read"
    (violation,) = world.status.violations
    assert (violation.check, violation.offset) == (Check.TRUNCATED_TAIL, 9)
    by_check = {one.check: one.count for one in world.status.violations_by_check}
    assert by_check == {Check.TRUNCATED_TAIL: 1, Check.TIMESTAMP: 10}
    verified = next(one for one in world.status.conditions if one.type == "Verified")
    assert "TruncatedTail in orders-2 at offset 9 on broker 3" in verified.message


def accusing(name: str, replicas: tuple[int, ...]) -> Result:
    """A result that accuses these replicas of one partition."""
    accused = [
        {
            "topic": "orders",
            "topicId": "AAAAAAAAAAAAAAAAAAAAAg",
            "partition": 2,
            "replica": one,
            "checks": ["Crc"],
        }
        for one in replicas
    ]
    return succeeded(name, len(replicas), accused=accused, accusedTotal=len(accused))


def test_what_a_run_proves_is_repaired_by_policy_alone() -> None:
    for repair, expected in ((Repair.NONE, []), (Repair.REFETCH, [BrokerId(3)])):
        world = World(repair=repair)
        world.look()
        world.run(ObservedRun(state=RunState.SUCCEEDED, result=accusing(world.name, (3,))))
        assert [one.replica for one in world.status.repairs] == expected
        assert {one.run for one in world.status.repairs} <= {world.name}


def test_while_the_cluster_is_not_known_repairs_wait() -> None:
    world = World(repair=Repair.REFETCH)
    world.look()
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=accusing(world.name, (3,))))
    before = world.status.repairs
    world.look(seconds=7_200)
    assert world.status.repairs == before


def test_too_many_to_repair_are_told() -> None:
    world = World(repair=Repair.REFETCH)
    world.look()
    result = succeeded(world.name, 5_000, accused=[], accusedTotal=5_000)
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=result))
    assert world.status.repairs == ()
    assert "RefetchRefused" in world.told


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (ObservedRun(state=RunState.FAILED, reason="OOMKilled", message="driver"), "OOMKilled"),
        (ObservedRun(state=RunState.GONE), "ApplicationGone"),
        (ObservedRun(state=RunState.SUCCEEDED), "NoResult"),
        (
            ObservedRun(
                state=RunState.SUCCEEDED, result=UnreadableDocument(Flaw.NOT_JSON, "no JSON")
            ),
            "ResultNotJson",
        ),
        (ObservedRun(state=RunState.SUCCEEDED, result=succeeded("another-run")), "NoResult"),
        (
            ObservedRun(
                state=RunState.SUCCEEDED, result=UnreadableDocument(Flaw.OF_ANOTHER, "of x")
            ),
            "NoResult",
        ),
    ],
)
def test_a_run_that_failed_says_why_and_is_not_tried_again(seen: ObservedRun, reason: str) -> None:
    world = World()
    world.look()
    world.look()
    world.there[world.name] = ObservedRun(state=RunState.RUNNING)
    world.look(seconds=1)
    world.there[world.name] = seen
    world.look(seconds=1)
    for _ in range(5):
        world.look(seconds=3_600)

    assert world.phase() is VerificationPhase.FAILED
    assert world.ready() == ("False", reason)
    assert len(world.launched) == 1
    assert world.status.violations_total is None


def test_a_result_that_says_failed_ends_an_application_that_would_go_on() -> None:
    world = World()
    world.look()
    world.look()
    said = failed(world.name, "TopicUnknown", "there is no such topic")
    world.there[world.name] = ObservedRun(state=RunState.RUNNING, result=said)
    world.look(seconds=1)
    assert world.ready() == ("False", "TopicUnknown")
    assert world.removed == []

    world.look(seconds=120)
    assert world.removed == world.launched
    world.look()
    assert len(world.launched) == 1


def test_a_job_that_crashed_may_be_started_again_by_its_launcher() -> None:
    world = World()
    world.look()
    world.look()
    said = failed(world.name, CRASHED, "an error")
    world.there[world.name] = ObservedRun(state=RunState.PENDING, result=said)
    world.look(seconds=1)
    assert world.status.finished_at is None

    world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name))
    world.look(seconds=1)
    assert world.phase() is VerificationPhase.SUCCEEDED


def test_what_is_not_known_changes_nothing() -> None:
    world = World()
    world.look()
    world.look()
    before = world.status
    world.look(seconds=600, seen=None)

    assert replace(world.status, conditions=()) == replace(before, conditions=())


@pytest.mark.parametrize(
    ("seen", "seconds", "reason"),
    [
        (ObservedRun(state=RunState.RUNNING), 3_600 + 61, "TimeLimit"),
        (
            ObservedRun(state=RunState.PENDING, reason="ImagePullBackOff", message="no such image"),
            int(START_LIMIT.total_seconds()) + 1,
            "ImagePullBackOff",
        ),
        (
            ObservedRun(state=RunState.FAILED, reason="InvalidImageName", must_be_stopped=True),
            1,
            "InvalidImageName",
        ),
    ],
)
def test_an_application_that_would_go_on_for_ever_is_removed(
    seen: ObservedRun, seconds: int, reason: str
) -> None:
    world = World(time_limit=Duration("1h"))
    world.look()
    world.look()
    world.there[world.name] = seen
    world.look(seconds=seconds)

    assert world.removed == world.launched
    assert world.ready() == ("False", reason)


LIMIT_S = int(START_LIMIT.total_seconds())


def test_a_driver_that_is_started_again_late_has_its_time_as_well() -> None:
    world = World()
    world.run(ObservedRun(state=RunState.RUNNING, executors=2, attempt=1))
    world.look(seconds=3 * LIMIT_S)
    world.there[world.name] = ObservedRun(state=RunState.PENDING, attempt=2)
    for _ in range(3):
        world.look(seconds=LIMIT_S // 3)
    assert world.ready() == ("False", "Pending")
    assert world.status.application is not None
    assert world.status.application.attempt == 2

    world.there[world.name] = ObservedRun(state=RunState.RUNNING, executors=2)
    world.look(seconds=1)
    assert world.status.application.waiting_since is None
    world.there[world.name] = ObservedRun(state=RunState.PENDING)
    world.look(seconds=1)
    world.look(seconds=LIMIT_S + 1)
    assert world.ready() == ("False", "NotStarted")
    assert world.status.outcome is not None
    expected = "the application was interrupted and has not run for 15 minutes"
    assert world.status.outcome.message == expected
    assert world.removed == world.launched


def test_executors_that_no_node_takes_are_told_of_and_waited_for_so_long() -> None:
    why = "no executor is running: 0/3 nodes are available: 3 Insufficient cpu"
    delayed = ObservedRun(
        state=RunState.RUNNING, reason="Unschedulable", message=why, is_delayed=True
    )
    world = World()
    world.run(delayed)
    assert world.phase() is VerificationPhase.RUNNING
    assert world.ready() == ("False", "Unschedulable")
    (ready,) = [one for one in world.status.conditions if one.type == "Ready"]
    assert ready.message == f"application {world.name} is Running: {why}"
    world.look(seconds=LIMIT_S - 60)
    # Spark gives pods up that wait for ten minutes, and makes others: there are none in between.
    world.there[world.name] = ObservedRun(state=RunState.RUNNING)
    world.look(seconds=2)
    world.there[world.name] = delayed
    world.look(seconds=120)
    assert world.phase() is VerificationPhase.FAILED
    assert world.ready() == ("False", "Unschedulable")
    assert world.status.outcome is not None
    expected = f"no executor was running for 15 minutes, so the job made no progress: {why}"
    assert world.status.outcome.message == expected
    assert world.removed == world.launched


def test_one_executor_that_runs_is_enough() -> None:
    world = World()
    world.run(ObservedRun(state=RunState.RUNNING, reason="Unschedulable", is_delayed=True))
    world.look(seconds=LIMIT_S - 60)
    world.there[world.name] = ObservedRun(state=RunState.RUNNING, executors=1)
    world.look(seconds=2)
    assert world.ready() == ("False", "Running")
    world.look(seconds=10 * LIMIT_S)
    assert world.ready() == ("False", "Running")


@pytest.mark.parametrize("end", [DriverEnd.SUCCEEDED, DriverEnd.FAILED])
def test_an_application_whose_launcher_is_away_is_kept_when_its_driver_has_ended(
    end: DriverEnd,
) -> None:
    world = World()
    world.run(ObservedRun(state=RunState.RUNNING, executors=1))
    result = succeeded(world.name)
    if end is DriverEnd.FAILED:
        result = failed(world.name, "TopicUnknown", "there is no such topic")
    world.there[world.name] = ObservedRun(state=RunState.RUNNING, result=result, driver_end=end)
    for _ in range(3):
        world.look(seconds=3_600)
    assert world.removed == []
    # It comes back and begins again, for nothing.
    if end is DriverEnd.FAILED:
        world.there[world.name] = ObservedRun(state=RunState.RUNNING, result=result)
        world.look(seconds=2)
        assert world.removed == world.launched


def test_how_far_a_job_is_is_told_and_the_next_attempt_begins_with_nothing() -> None:
    half = RunProgress(bytes=500, bytes_total=1_000, partitions=1, partitions_total=2, percent=50)
    world = World()
    world.run(ObservedRun(state=RunState.RUNNING, executors=1, attempt=1, progress=half))
    (ready,) = [one for one in world.status.conditions if one.type == "Ready"]
    told = "500 bytes of about 1.0 kB, 1 of 2 partitions"
    assert ready.message == f"application {world.name} is Running ({told})"
    assert world.progress() == half

    world.there[world.name] = ObservedRun(state=RunState.PENDING, attempt=2, progress=half)
    world.look(seconds=2)
    assert world.progress() is None
    (ready,) = [one for one in world.status.conditions if one.type == "Ready"]
    assert ready.message == f"application {world.name} is Pending (attempt 2)"


def test_what_keeps_an_application_from_being_made_is_told_and_waited_for_so_long() -> None:
    world = World()
    world.look()
    world.look()
    world.there.clear()
    obstacle = 'failed calling webhook "x": connection refused'
    world.look(seconds=3, obstacle=obstacle)
    assert world.ready() == ("False", "NotMade")
    (ready,) = [one for one in world.status.conditions if one.type == "Ready"]
    assert obstacle in ready.message
    world.there.clear()
    world.look(seconds=LIMIT_S, obstacle=obstacle)
    assert world.ready() == ("False", "NotMade")
    assert world.status.finished_at == world.now
    assert world.removed == [world.name], "what was made before it"


def test_an_application_that_is_refused_is_not_asked_for_again() -> None:
    world = World()
    world.look()
    world.look(refusal="jobs.batch is forbidden")
    assert world.status.application is not None
    assert world.status.application.state is RunState.GONE
    world.look(seconds=600)

    assert world.ready() == ("False", "LaunchRefused")
    assert world.launched == []


def test_topics_are_chosen_by_name_by_label_or_all() -> None:
    asked = []
    for spec in (
        {},
        {"topics": ("payments",)},
        {"topic_selector": TopicSelector(match_labels={"team": "billing"})},
    ):
        world = World(**spec)
        world.look()
        view = VerificationView(
            verification=world.verification, topics=TOPICS, seen=ObservedRun(state=RunState.GONE)
        )
        (launch,) = next_step(view, world.now).actions
        assert isinstance(launch, Launch)
        asked.append(launch.job["topics"])

    assert asked == [["logs", "orders", "payments"], ["payments"], ["orders", "payments"]]


def test_a_topic_that_is_missing_is_named_and_waited_for() -> None:
    world = World(topics=("order",))
    world.look()
    assert world.ready() == ("False", "TopicNotFound")
    assert "did you mean orders?" in world.status.conditions[0].message
    assert world.phase() is VerificationPhase.WAITING

    world.topics["order"] = {}
    world.look(seconds=60)
    assert world.phase() is VerificationPhase.PENDING


def test_a_missed_run_runs_once() -> None:
    world = World(schedule="0 3 * * *")
    world.look()
    assert world.ready() == ("False", "Scheduled")
    assert world.status.next_run == datetime(2026, 2, 1, 3, tzinfo=UTC)

    world.look(seconds=10 * 86_400)
    world.look()
    world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name))
    world.look(seconds=60)
    for _ in range(5):
        world.look(seconds=60)

    assert len(world.launched) == 1
    assert world.status.scheduled_at == datetime(2026, 2, 10, 3, tzinfo=UTC)
    assert world.status.next_run == datetime(2026, 2, 11, 3, tzinfo=UTC)


def test_who_is_suspended_or_paused_begins_nothing() -> None:
    world = World(suspend=True)
    world.look()
    assert world.ready() == ("False", "Suspended")
    world.change(suspend=False)
    annotations = {"chiplog.dev/pause-reconciliation": "true"}
    metadata = replace(world.verification.metadata, annotations=annotations)
    world.verification = replace(world.verification, metadata=metadata)
    world.look()
    assert world.ready() == ("False", "Paused")
    assert world.status.runs == 0


def test_old_runs_go_with_their_applications() -> None:
    world = World(schedule="* * * * *", successful_runs_history_limit=2)
    for _ in range(5):
        world.look(seconds=60)
        world.look()
        world.there[world.name] = ObservedRun(
            state=RunState.SUCCEEDED, result=succeeded(world.name)
        )
        world.look(seconds=1)

    assert world.removed == world.launched[:3]
    assert [one.application for one in world.status.history] == world.launched[:2:-1]


def test_a_part_is_no_proof() -> None:
    world = World()
    world.look()
    summary: dict[str, Any] = {"figures": {"timeLimitReached": True, "seconds": 1.5}}
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=succeeded(world.name, **summary)))

    assert world.ready() == ("False", "TimeLimitReached")
    assert world.status.last_success is None
    assert world.status.coverage is not None


_SEEN = st.builds(
    ObservedRun,
    state=st.sampled_from([state for state in RunState if state is not RunState.WANTED]),
    reason=st.sampled_from(["", "OOMKilled"]),
    message=st.sampled_from(["", "so it is"]),
    must_be_stopped=st.booleans(),
)
_RESULTS = st.sampled_from(["none", "own", "violations", "failed", "crashed", "another", "flaw"])


@settings(deadline=None, max_examples=200)
@given(
    st.lists(
        st.tuples(
            st.none() | _SEEN,
            _RESULTS,
            st.integers(0, 4_000),
            st.sampled_from(["", "suspend", "wish", "wait_reason", "schedule", "refusal"]),
        ),
        max_size=15,
    )
)
def test_whatever_is_seen_the_promises_hold(
    looks: list[tuple[ObservedRun | None, str, int, str]],
) -> None:
    world = World()
    wishes = 1
    for seen, said, seconds, change in looks:
        if change == "suspend":
            world.change(suspend=not world.verification.spec.suspend)
        elif change == "wish":
            world.change(bytes_per_second=1_000 + wishes)
            wishes += 1
        elif change == "schedule":
            wishes += 1_000
            world.change(schedule="*/5 * * * *")
        before = world.status
        view: dict[str, Any] = {"seen": _with_result(seen, said, before)}
        if change == "wait_reason":
            view["wait_reason"] = WaitReason("ClusterNotFound", "there is none")
        if change == "refusal":
            view["refusal"] = "no"
        world.look(seconds=seconds, **view)
        after = world.status

        assert Verification.from_manifest(world.verification.to_manifest()).status == after
        assert len(set(world.launched)) <= after.runs <= wishes
        assert (after.phase is VerificationPhase.SUCCEEDED) <= (after.violations_total == 0)
        if after.violations_total != before.violations_total:
            # Only a result of this very application is ever taken.
            assert said in {"own", "violations"}
        if seen is None and before.application is not None:
            assert after.finished_at == before.finished_at or after.runs > before.runs


def _with_result(
    seen: ObservedRun | None, said: str, status: VerificationStatus
) -> ObservedRun | None:
    if seen is None or status.application is None:
        return None
    name = status.application.name
    results: dict[str, Result | UnreadableDocument | None] = {
        "none": None,
        "own": succeeded(name),
        "violations": succeeded(name, 3),
        "failed": failed(name, "TopicUnknown", "none"),
        "crashed": failed(name, CRASHED, "none"),
        "another": succeeded("another", 5),
        "flaw": UnreadableDocument(Flaw.OF_ANOTHER, "of another"),
    }
    return replace(seen, result=results[said])


def test_an_object_that_is_being_deleted_is_left_alone() -> None:
    world = World()
    metadata = replace(world.verification.metadata, deletion_timestamp=NOW)
    world.verification = replace(world.verification, metadata=metadata)
    world.look()

    assert world.status == VerificationStatus()


def test_names_are_labels_and_never_used_twice() -> None:
    names = set()
    for name in ("orders", "0815", "x.y.z", "a" * 200, "---"):
        for seconds in (0, 1):
            world = World()
            metadata = replace(world.verification.metadata, name=name)
            world.verification = replace(world.verification, metadata=metadata)
            world.look(seconds=seconds)
            names.add(world.name)

    assert len(names) == 10
    assert all(len(name) <= 39 and name[0].isalpha() for name in names)


def test_a_spec_that_is_refused_before_its_application_is_made_ends_the_run() -> None:
    world = World()
    world.look()
    problem = Problem("spec.schedule", "is odd", "correct it", Reason.NOT_ALLOWED)
    world.look(problems=(problem,))

    assert world.launched == []
    assert world.phase() is VerificationPhase.FAILED
    assert world.status.outcome is not None
    assert (world.status.outcome.reason, world.status.outcome.message) == (
        "NotAllowed",
        "spec.schedule is odd: correct it",
    )
    assert world.ready() == ("False", "NotAllowed")


def test_topics_that_go_before_its_application_is_made_are_waited_for() -> None:
    world = World()
    world.look()
    world.topics = {}
    world.look()
    assert world.ready() == ("False", "NoTopics")
    assert world.launched == []

    world.topics = {"orders": {}}
    world.look()
    assert world.launched == [world.name]


def damaged() -> World:
    """A run that has proven one replica of three to be damaged."""
    world = World(repair=Repair.REFETCH)
    world.view = {"cluster_state": three_brokers().cluster_state()}
    world.look()
    world.run(ObservedRun(state=RunState.SUCCEEDED, result=accusing(world.name, (2,))))
    return world


def test_a_damaged_replica_is_fetched_again_when_the_status_names_it() -> None:
    world = damaged()
    assert [one.state for one in world.status.repairs] == [RepairState.WAITING]
    assert world.ordered == []

    world.look(seconds=5)

    assert [one.replica for one in world.ordered] == [2]
    assert world.ordered[0].order.run == world.name


@pytest.mark.parametrize("is_paused", [False, True])
def test_no_replica_is_ordered_while_the_object_is_paused_or_refused(*, is_paused: bool) -> None:
    world = damaged()
    if is_paused:
        metadata = replace(world.verification.metadata, annotations={labels.PAUSE: "true"})
        world.verification = replace(world.verification, metadata=metadata)
        world.look(seconds=5)
    else:
        world.look(seconds=5, problems=(Problem("spec", "is odd", "correct it"),))

    assert world.ordered == []
    (repair,) = world.status.repairs
    assert repair.state is RepairState.WAITING
    assert "the Verification is paused, or its spec has problems" in repair.message


def test_a_schedule_that_has_no_time_left_plans_no_next_run() -> None:
    world = World(schedule="0 3 1 1 *")
    world.now = datetime(9999, 6, 1, tzinfo=UTC)
    world.look()

    assert world.status.next_run is None


def test_an_object_without_a_time_of_creation_has_missed_no_run() -> None:
    world = World(schedule="0 3 * * *")
    metadata = replace(world.verification.metadata, creation_timestamp=None)
    world.verification = replace(world.verification, metadata=metadata)
    world.look(seconds=3 * 86_400)

    assert world.phase() is VerificationPhase.WAITING
    assert world.status.next_run is not None


def test_a_run_whose_application_may_still_change_is_kept_beyond_the_limit() -> None:
    world = World(successful_runs_history_limit=0)
    world.look()
    world.run(ObservedRun(state=RunState.RUNNING, result=succeeded(world.name)))

    assert world.phase() is VerificationPhase.SUCCEEDED
    assert [one.application for one in world.status.history] == [world.name]
    assert world.removed == []

    world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED)
    world.look(seconds=5)
    world.look(seconds=5)
    assert world.status.history == ()
    assert len(world.removed) == 1


def test_what_is_missing_before_its_application_is_made_is_waited_for() -> None:
    world = World()
    world.look()
    world.look(wait_reason=WaitReason("ClusterNotFound", "there is no BrokerCluster demo"))
    assert world.ready() == ("False", "ClusterNotFound")
    assert world.launched == []

    world.look()
    assert world.launched == [world.name]


def test_no_run_begins_while_something_is_missing() -> None:
    world = World()
    world.look(wait_reason=WaitReason("ClusterNotFound", "there is no BrokerCluster demo"))
    assert (world.phase(), world.status.runs) == (VerificationPhase.WAITING, 0)
    assert world.ready() == ("False", "ClusterNotFound")

    world.look()
    assert world.status.runs == 1


def test_a_state_that_nobody_knows_leaves_the_phase_as_it_was() -> None:
    world = World()
    world.run(ObservedRun(state=RunState.RUNNING))
    assert world.phase() is VerificationPhase.RUNNING

    world.there[world.name] = ObservedRun(state=RunState.UNKNOWN)
    world.look(seconds=5)
    assert world.phase() is VerificationPhase.RUNNING
