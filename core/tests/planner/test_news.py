"""What is told of changes: conditions, brokers, elections."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, Incarnation, PartitionIndex, ReplicaRef, Session
from chiplog_core.model.actions import EventType, LeaderChange, News
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.model.conditions import Condition, ConditionStatus, ConditionType
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.planner.news import (
    broker_news,
    condition_news,
    election_news,
    topic_created,
    topic_deleted,
)
from tests.planner.leadership.test_elections import partition_map, state

NORMAL, WARNING = EventType.NORMAL, EventType.WARNING


def condition(
    kind: str, status: ConditionStatus, reason: str, message: str = "", generation: int = 1
) -> Condition:
    return Condition(
        type=kind,
        status=status,
        observed_generation=generation,
        last_transition_time=datetime(2026, 1, 1, tzinfo=UTC),
        reason=reason,
        message=message,
    )


def published(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def true(kind: str, reason: str, message: str = "") -> Condition:
    return condition(kind, ConditionStatus.TRUE, reason, message)


def false(kind: str, reason: str, message: str = "") -> Condition:
    return condition(kind, ConditionStatus.FALSE, reason, message)


READY, HEALTHY = ConditionType.READY, ConditionType.HEALTHY
APPLIED, DISK = ConditionType.CONFIGURATION_APPLIED, ConditionType.DISK_PRESSURE
WAS_READY = published("Ready", "True", "Ready")
WAS_REFUSED = published("Ready", "False", "InvalidConfig", "spec.a is wrong")


@pytest.mark.parametrize(
    ("before", "after", "kind", "reason"),
    [
        ([], true(READY, "Ready"), NORMAL, "Ready"),
        ([WAS_REFUSED], true(READY, "Ready"), NORMAL, "Ready"),
        ([], false(READY, "InvalidConfig", "spec.a is wrong"), WARNING, "InvalidConfig"),
        ([WAS_READY], false(READY, "NotSupported", "spec.b"), WARNING, "NotSupported"),
        ([WAS_REFUSED], false(READY, "InvalidConfig", "spec.b"), WARNING, "InvalidConfig"),
        ([], false(READY, "BrokersNotReady", "broker 1 is starting"), NORMAL, "BrokersNotReady"),
        ([WAS_READY], false(READY, "BrokersNotReady", "broker 1"), WARNING, "BrokersNotReady"),
        ([], false(HEALTHY, "PartitionsOffline", "2"), NORMAL, "PartitionsOffline"),
        (
            [published("ConfigurationApplied", "True", "Applied")],
            false(APPLIED, "Restarting", "broker 1 is to be restarted"),
            NORMAL,
            "Restarting",
        ),
        ([], true(DISK, "VolumeNearlyFull", "broker 1"), WARNING, "VolumeNearlyFull"),
        ([], true(ConditionType.WARNING, "WaitingForBrokers", "so"), NORMAL, "WaitingForBrokers"),
        ([], true(ConditionType.UNMANAGED, "AnnotationSet", "so"), NORMAL, "Unmanaged"),
    ],
)
def test_a_condition_that_changes_is_told(
    before: list[dict[str, Any]], after: Condition, kind: EventType, reason: str
) -> None:
    (told,) = condition_news(before, [after])

    assert (told.type, told.reason) == (kind, reason)
    assert told.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([WAS_READY], true(READY, "Ready")),
        ([WAS_REFUSED], false(READY, "InvalidConfig", "spec.a is wrong")),
        # What is not ready for the same reason with other numbers is no news.
        (
            [published("Ready", "False", "BrokersNotReady", "broker 1, 2")],
            false(READY, "BrokersNotReady", "broker 2"),
        ),
        ([], false(READY, "FailedApply", "has an Event where it happens")),
        ([], false(APPLIED, "InvalidConfig", "told by Ready")),
        ([WAS_READY], true("Stable", "Stable")),
        ([], true("LagWithinObjective", "Kept")),
    ],
)
def test_what_stays_or_is_told_elsewhere_is_no_news(
    before: list[dict[str, Any]], after: Condition
) -> None:
    assert [one for one in condition_news(before, [after]) if one.reason != "Ready"] == []


def test_the_end_of_what_was_wrong_is_told() -> None:
    before = [
        published("DiskPressure", "True", "VolumeNearlyFull", "broker 1 is full"),
        published("Stable", "True", ""),
    ]

    assert list(condition_news(before, [])) == [
        News(
            NORMAL,
            "DiskPressureOver",
            "the condition DiskPressure is over; its last message: broker 1 is full",
        )
    ]


def broker(session: int, incarnation: str, *, fenced: bool = False) -> Broker:
    return Broker(
        metadata=Metadata(name="demo-2", namespace="shop"),
        spec=BrokerSpec(
            cluster="demo",
            cluster_id="c",
            broker_id=BrokerId(2),
            intent=BrokerIntent.SERVE,
            session=Session(session),
            admitted_incarnation=Incarnation(incarnation),
            fenced=fenced,
        ),
    )


def test_an_admission_is_told_with_its_session() -> None:
    before, after = broker(4, "a", fenced=True), broker(5, "b")
    again = broker(5, "a")

    (started,) = broker_news(before, after.spec)
    (back,) = broker_news(before, again.spec)

    assert started.message == "broker 2 has started and is admitted with session 5"
    assert back.message == "broker 2 renews its Lease again and is admitted with session 5"


@pytest.mark.parametrize(("draining", "kind"), [(False, WARNING), (True, NORMAL)])
def test_fencing_is_a_warning_unless_the_broker_was_stopping(
    *, draining: bool, kind: EventType
) -> None:
    before = replace(broker(4, "a"), status=BrokerStatus(draining=draining))

    (told,) = broker_news(before, broker(4, "a", fenced=True).spec)

    assert (told.type, told.reason) == (kind, "BrokerFenced")


def test_a_failed_disk_and_a_retirement_are_told() -> None:
    before = broker(4, "a", fenced=True)
    after = replace(before.spec, disk_failed_session=Session(4), retired=True)

    assert [one.reason for one in broker_news(before, after)] == ["DiskFailed", "BrokerRetired"]


def test_what_does_not_concern_people_is_not_told() -> None:
    before = broker(4, "a")

    assert broker_news(before, replace(before.spec, rack="zone-a")) == ()


def change(partition: int, before: str | None, after: str | None) -> LeaderChange:
    return LeaderChange(
        partition=PartitionIndex(partition),
        before=None if before is None else ReplicaRef.from_text(before),
        after=None if after is None else ReplicaRef.from_text(after),
    )


def test_elections_are_one_sentence_for_each_kind() -> None:
    changes = [
        change(0, "2@1", "1@1"),
        change(1, "2@1", "1@1"),
        change(2, "2@1", "3@4"),
        change(3, "3@3", "3@4"),
        change(4, "2@1", None),
        change(5, None, "1@1"),
    ]

    assert list(election_news(changes)) == [
        News(
            WARNING,
            "LeadersLost",
            "no replica can lead 1 partition: 1 previously led by broker 2; the Ready condition of "
            "each Topic shows why and what to do",
        ),
        News(
            NORMAL,
            "LeadersElected",
            "1 partition led again by a broker that restarted: 1 on broker 3",
        ),
        News(
            NORMAL,
            "LeadersElected",
            "4 partitions with a new leader: 2 from broker 2 to broker 1, 1 from broker 2 to "
            "broker 3, 1 from nobody to broker 1",
        ),
    ]


def test_no_change_is_no_news() -> None:
    assert list(election_news([])) == []


def of_partitions(partitions: int, replicas: tuple[int, ...]) -> PartitionMapSpec:
    one = state("1@1", "1@1", replicas)
    spec = partition_map(one)
    (generation,) = spec.generations
    return replace(spec, generations=(replace(generation, partitions=(one,) * partitions),))


@pytest.mark.parametrize(
    ("partitions", "replicas", "message"),
    [
        (1, (1,), "topic orders was created with 1 partition, 1 replica"),
        (6, (1,), "topic orders was created with 6 partitions, 1 replica"),
        (6, (1, 2, 3), "topic orders was created with 6 partitions, 3 replicas each"),
    ],
)
def test_a_new_topic_is_announced_with_its_partitions_and_replicas(
    partitions: int, replicas: tuple[int, ...], message: str
) -> None:
    assert topic_created(of_partitions(partitions, replicas)) == News(
        NORMAL, "TopicCreated", message
    )


def test_the_end_of_a_topic_is_announced_when_its_data_is_gone() -> None:
    assert topic_deleted(of_partitions(1, (1,))) == News(
        NORMAL, "TopicDeleted", "topic orders was deleted; no broker holds data of it any more"
    )
