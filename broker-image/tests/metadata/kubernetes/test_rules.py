"""The pure rules: what vouches for a tail, which map knows less, which replica is behind."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_broker.metadata.kubernetes.attestation import (
    Attestation,
    FoundData,
    attest,
    intact_since,
)
from chiplog_broker.metadata.kubernetes.knowledge import why_older
from chiplog_broker.metadata.kubernetes.readiness import replicas_behind
from chiplog_broker.metadata.kubernetes.reports import confirmed_tombstones
from chiplog_broker.metadata.kubernetes.session_file import SessionRecord
from chiplog_broker.metadata.kubernetes.topic_views import topic_view
from chiplog_core.ids import BrokerId, ReplicaRef, Session, TopicId
from chiplog_core.model.broker_status import Tail
from chiplog_core.model.partition_map import PartitionMap, PartitionMapSpec
from chiplog_core.naming.api import API_VERSION

ONE = BrokerId(1)
TOPIC = "BBBBBBBBBBBBBBBBBBBBBQ"
OTHER = "CCCCCCCCCCCCCCCCCCCCCQ"
LEFT = SessionRecord(
    cluster_id="c",
    broker_id=1,
    session=5,
    incarnation="a" * 32,
    intact_since=2,
    boot_id="boot-1",
    storage_uuid="disk-1",
    fsync_only=False,
)
FOUND = FoundData(storage_uuid="disk-1", boot_id="boot-1", closed_in_session=None)
OTHER_BOOT = replace(FOUND, boot_id="boot-2")

CLOSED = Attestation(Tail.INTACT, "clean shutdown")
SYNCED = Attestation(Tail.INTACT, "all topics have Fsync durability")
CACHED = Attestation(Tail.INTACT, "the page cache survived")
FAILED = Attestation(Tail.SUSPECT, "the disk of the last process failed")
RESTARTED = Attestation(Tail.SUSPECT, "the machine was restarted without a clean shutdown")
WENT_BACK = Attestation(Tail.SUSPECT, "the volume was replaced by an older copy")
UNKNOWN = Attestation(
    Tail.SUSPECT, "no earlier process of this broker has recorded the state of this data directory"
)


@pytest.mark.parametrize(
    ("left", "found", "verdict"),
    [
        (LEFT, FOUND, CACHED),
        (LEFT, OTHER_BOOT, RESTARTED),
        (LEFT, replace(OTHER_BOOT, closed_in_session=5), CLOSED),
        (LEFT, replace(OTHER_BOOT, closed_in_session=4), RESTARTED),
        (replace(LEFT, fsync_only=True), OTHER_BOOT, SYNCED),
        (replace(LEFT, disk_failed=True), FOUND, FAILED),
        (replace(LEFT, fsync_only=True, disk_failed=True), FOUND, FAILED),
        (replace(LEFT, disk_failed=True), replace(FOUND, closed_in_session=5), CLOSED),
        (replace(LEFT, boot_id=""), replace(FOUND, boot_id=""), RESTARTED),
        (LEFT, replace(FOUND, storage_uuid="disk-2", closed_in_session=5), UNKNOWN),
        (replace(LEFT, fsync_only=True), replace(FOUND, storage_uuid="disk-2"), UNKNOWN),
        (None, replace(FOUND, closed_in_session=5), UNKNOWN),
        (LEFT, replace(FOUND, went_back=True), WENT_BACK),
        (replace(LEFT, fsync_only=True), replace(FOUND, went_back=True), WENT_BACK),
        (LEFT, replace(FOUND, went_back=True, closed_in_session=5), WENT_BACK),
        # As many damaged replicas as can be named, and one more.
        (LEFT, replace(FOUND, damaged=1_000, closed_in_session=5), CLOSED),
        (
            LEFT,
            replace(FOUND, damaged=1_001, closed_in_session=5),
            Attestation(Tail.SUSPECT, "1001 replicas are damaged"),
        ),
    ],
)
def test_what_vouches_for_the_tail(
    left: SessionRecord | None, found: FoundData, verdict: Attestation
) -> None:
    assert attest(left, found) == verdict
    # Carried over only where every start since was found intact; else not even a session that
    # was given out without this directory ever hearing of it.
    expected = 2 if verdict.tail is Tail.INTACT else 10
    assert intact_since(left, verdict, admitted=9) == expected


def test_the_very_first_start_vouches_from_the_first_session_on() -> None:
    assert intact_since(None, attest(None, FOUND), admitted=0) == 1


def test_a_suspect_start_is_above_every_session_used_here() -> None:
    assert intact_since(LEFT, attest(LEFT, OTHER_BOOT), admitted=0) == 6


def spec(partitions: list[dict[str, Any]], **more: Any) -> PartitionMapSpec:
    found = {
        "cluster": "c1",
        "topicName": "orders",
        "current": TOPIC,
        "minIsr": 1,
        "durability": "Fsync",
        "generations": [{"topicId": TOPIC, "partitions": partitions}],
        **more,
    }
    found = {name: value for name, value in found.items() if value is not None}
    manifest = {"apiVersion": API_VERSION, "kind": "PartitionMap", "metadata": {"name": "m"}}
    return PartitionMap.from_manifest({**manifest, "spec": found}).spec


def part(index: int = 0, **more: Any) -> dict[str, Any]:
    found = {
        "partition": index,
        "replicas": [1, 2],
        "isr": ["1@5", "2@8"],
        "leader": "1@5",
        "leaderEpoch": 3,
        "partitionEpoch": 7,
        **more,
    }
    return {name: value for name, value in found.items() if value is not None}


APPLIED = spec([part(0), part(1)])


@pytest.mark.parametrize(
    ("new", "less"),
    [
        (APPLIED, False),
        (spec([part(0, leaderEpoch=4), part(1, partitionEpoch=8), part(2)]), False),
        (spec([part(0), part(1, leaderEpoch=2, partitionEpoch=9)]), True),
        (spec([part(0), part(1, partitionEpoch=6)]), True),
        (spec([part(0)]), True),
        (spec([], current=None, generations=[]), True),
        (
            spec([], current=None, generations=[], tombstones=[{"topicId": TOPIC, "brokers": [1]}]),
            False,
        ),
    ],
)
def test_a_map_that_knows_less(new: PartitionMapSpec, less: bool) -> None:
    assert bool(why_older(new, APPLIED, ONE)) is less


def test_what_others_hold_is_for_them_to_say() -> None:
    elsewhere = spec([part(0, replicas=[2], isr=["2@8"], leader="2@8")])
    assert not why_older(spec([], current=None, generations=[]), elsewhere, ONE)


def test_a_buried_topic_id_does_not_come_back() -> None:
    buried = spec([], current=None, generations=[], tombstones=[{"topicId": TOPIC, "brokers": [1]}])
    assert "was deleted" in why_older(APPLIED, buried, ONE)


@pytest.mark.parametrize(
    ("state", "is_behind"),
    [
        (part(isr=["1@6", "2@8"], leader="2@8"), False),
        (part(isr=["2@8"], leader="2@8"), True),
        (part(isr=["2@8"], leader="2@8", adding=[1]), False),
        (part(isr=["1@5"], leader=None), True),
        (part(isr=["1@4"], leader=None), False),
        # What waits for others, or for a person, keeps nobody from being ready.
        (part(isr=["1@5", "2@8"], leader=None, reportsWanted=True), False),
        (part(isr=["1@5"], leader=None, reportsWanted=True), True),
        (part(isr=["2@8"], leader=None), False),
        (part(replicas=[2], isr=["2@8"], leader="2@8"), False),
    ],
)
def test_which_replica_is_behind(state: dict[str, Any], is_behind: bool) -> None:
    """In session 6, found intact since session 5."""
    found = replicas_behind([spec([state])], ReplicaRef(ONE, Session(6)), Session(5), ())
    assert found == (["orders-0"] if is_behind else [])


def test_damaged_replicas_keep_nobody_waiting() -> None:
    state = part(isr=["2@8"], leader="2@8")
    own = ReplicaRef(ONE, Session(6))
    assert not replicas_behind([spec([state])], own, Session(5), {("orders", 0)})


@pytest.mark.parametrize(
    ("live", "leader", "isr", "elr"),
    [
        ({"1@5", "2@8"}, 1, (1, 2), ()),
        ({"1@5"}, 1, (1,), (2,)),
        ({"1@6", "2@8"}, -1, (2,), (1,)),
        (set(), -1, (), (1, 2)),
    ],
)
def test_only_the_named_session_leads_and_counts(
    live: set[str], leader: int, isr: tuple[int, ...], elr: tuple[int, ...]
) -> None:
    view = topic_view(APPLIED, frozenset(map(ReplicaRef.from_text, live)))
    assert view is not None
    (first, _) = view.partitions
    assert (first.leader_id, first.isr, first.elr) == (leader, isr, elr)


def test_new_tombstones_come_first_where_not_all_fit() -> None:
    graves = [
        {"topicId": TOPIC, "brokers": [1], "confirmed": [1]},
        {"topicId": OTHER, "brokers": [1]},
    ]
    applied = spec([], current=None, generations=[], tombstones=graves)
    ids = [TopicId.from_text(one) for one in (TOPIC, OTHER)]
    assert confirmed_tombstones([applied], {"orders": ids}, ONE) == (ids[1], ids[0])
    assert confirmed_tombstones([applied], {"other": ids}, ONE) == ()
