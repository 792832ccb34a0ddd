"""A refused read is told by what its broker found, where that was found while the run read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, Offset, PartitionIndex, Session, StorageUuid, TopicId
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_status import (
    BrokerStatus,
    DamageKind,
    DataDirectory,
    PastDamage,
    Tail,
)
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.spark_result import Check, Violation
from chiplog_core.model.verification import CheckCount
from chiplog_core.spark.refused_reads import (
    CLOCKS_DIFFER,
    DamageReports,
    RefusedRead,
    counted_again,
    with_broker_reports,
)

BEGAN = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ENDED = BEGAN + timedelta(minutes=5)
WITHIN = BEGAN + timedelta(minutes=2)
TOPIC, OTHER = TopicId(bytes(15) + b"\x05"), TopicId(bytes(15) + b"\x06")
REPLICA = BrokerId(3)
FILE = "orders-2/00000000000000000000.log"

PAST = PastDamage(
    topic="orders",
    topic_id=TOPIC,
    partition=PartitionIndex(2),
    kind=DamageKind.CHANGED,
    file=FILE,
    offset=Offset(750),
    message=f"{FILE} at byte 9000, offset 750: the CRC is not 0x1",
    found_at=WITHIN,
    whole_at=WITHIN + timedelta(seconds=1),
)
READ = RefusedRead(
    topic="orders",
    topic_id=TOPIC,
    partition=PartitionIndex(2),
    replica=REPLICA,
    offset=Offset(500),
    message="no",
)
VIOLATION = Violation(
    check=Check.CRC,
    topic="orders",
    partition=PartitionIndex(2),
    offset=Offset(500),
    replica=REPLICA,
    message="the broker refuses to serve its replica",
)


def damage_reports(
    *past: PastDamage, checks: tuple[Check, ...] = (), broker: int = 3
) -> DamageReports:
    directory = DataDirectory(
        storage_uuid=StorageUuid(bytes(16)),
        tail=Tail.INTACT,
        intact_since=Session(1),
        damage_history=past,
    )
    found = Broker(
        metadata=Metadata(name=f"demo-{broker}", namespace="apps"),
        spec=BrokerSpec(
            broker_id=BrokerId(broker),
            cluster="demo",
            cluster_id="id",
            intent=BrokerIntent.SERVE,
        ),
        status=BrokerStatus(directories=(directory,)),
    )
    brokers = {BrokerId(broker): found}
    return DamageReports(brokers=brokers, checks=checks, began=BEGAN, ended=ENDED)


def told(said: DamageReports, read: RefusedRead = READ, one: Violation = VIOLATION) -> Violation:
    (found,) = with_broker_reports([one], [read], said)
    return found


def test_it_has_the_place_and_the_words_of_the_broker() -> None:
    found = told(damage_reports(PAST))
    assert (found.check, found.offset, found.replica) == (Check.CRC, 750, REPLICA)
    assert (found.topic, found.partition) == ("orders", 2)
    assert f"{FILE} is not what was written" in found.message
    assert PAST.message in found.message


def test_a_file_that_ends_too_early_is_named_so_where_that_is_checked() -> None:
    cut = replace(PAST, kind=DamageKind.TRUNCATED)
    found = told(damage_reports(cut))
    assert (found.check, found.offset) == (Check.TRUNCATED_TAIL, 750)
    assert f"{FILE} ends too early" in found.message
    both = (Check.CRC, Check.TRUNCATED_TAIL)
    assert told(damage_reports(cut, checks=both)).check is Check.TRUNCATED_TAIL
    assert told(damage_reports(cut, checks=(Check.CRC,))).check is Check.CRC


@pytest.mark.parametrize(
    "past",
    [
        replace(PAST, topic_id=OTHER),
        replace(PAST, partition=PartitionIndex(1)),
        replace(PAST, offset=None),
        # Whole again before the run, or found after it.
        replace(
            PAST,
            found_at=BEGAN - timedelta(hours=2),
            whole_at=BEGAN - CLOCKS_DIFFER - timedelta(seconds=1),
        ),
        replace(PAST, found_at=ENDED + CLOCKS_DIFFER + timedelta(seconds=1), whole_at=None),
    ],
)
def test_what_was_not_refused_because_of_it_stays_as_it_is(past: PastDamage) -> None:
    assert told(damage_reports(past)) == VIOLATION


@pytest.mark.parametrize(
    ("found_at", "whole_at"),
    [
        (BEGAN - timedelta(days=9), None),
        (BEGAN - timedelta(hours=1), WITHIN),
        (BEGAN - CLOCKS_DIFFER, BEGAN - CLOCKS_DIFFER),
        (ENDED + CLOCKS_DIFFER, None),
    ],
)
def test_what_was_damaged_while_the_run_read_may_have_been_found_before(
    found_at: datetime, whole_at: datetime | None
) -> None:
    """A replica that nobody else can give stays so; and clocks differ."""
    past = replace(PAST, found_at=found_at, whole_at=whole_at)
    assert told(damage_reports(past)).offset == 750


def test_of_several_the_newest_is_told() -> None:
    older = replace(PAST, found_at=BEGAN, offset=Offset(600))
    assert told(damage_reports(PAST, older)).offset == 750
    assert told(damage_reports(older, PAST)).offset == 750


@pytest.mark.parametrize(
    "changes",
    [
        {"check": Check.OFFSET_GAP},
        {"offset": Offset(501)},
        {"replica": BrokerId(2)},
        {"replica": None},
    ],
)
def test_a_violation_that_is_no_refused_read_stays_as_it_is(changes: dict[str, Any]) -> None:
    one = replace(VIOLATION, **changes)
    assert told(damage_reports(PAST), one=one) == one


def test_without_the_brokers_word_or_of_an_older_job_it_stays_as_it_is() -> None:
    assert told(damage_reports()) == VIOLATION
    assert told(damage_reports(PAST, broker=2)) == VIOLATION
    assert told(damage_reports(PAST), read=RefusedRead(topic="orders", message="no")) == VIOLATION
    assert told(damage_reports(PAST), read=replace(READ, topic_id=None)) == VIOLATION


def test_checks_are_counted_by_their_new_names() -> None:
    cut = replace(VIOLATION, check=Check.TRUNCATED_TAIL)
    counts = [CheckCount(check=Check.CRC, count=3), CheckCount(check=Check.TIMESTAMP, count=1)]
    after = {one.check: one.count for one in counted_again(counts, [VIOLATION], [cut])}
    assert after == {Check.CRC: 2, Check.TIMESTAMP: 1, Check.TRUNCATED_TAIL: 1}
    only = [CheckCount(check=Check.CRC, count=1)]
    assert counted_again(only, [VIOLATION], [cut]) == (
        CheckCount(check=Check.TRUNCATED_TAIL, count=1),
    )
