"""What ConsumerGroups are told of their groups, and what becomes of their wishes."""

from datetime import UTC, datetime
from typing import Any

import pytest

from chiplog_core.group_watch.discovery import GONE_MS
from chiplog_core.group_watch.memory import PATIENCE_MS
from chiplog_core.groups.at import At
from chiplog_core.groups.placement import partition_of
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_GROUP_STATUS_MEMBERS
from chiplog_core.model.actions import Report
from chiplog_core.model.group_exchange import (
    KEPT_FOR_EVER,
    GroupRefusal,
    RetentionAnswer,
    RetentionStored,
)
from chiplog_core.model.group_status import GroupState
from chiplog_core.naming.labels import DISCOVERED
from tests.group_watch.cluster import (
    HOME,
    NOW,
    OFFSETS,
    Cluster,
    Group,
    brokers_cluster,
    group_object,
    topic_map,
)

COORDINATOR = 1 + partition_of("billing", 50) % 3


@pytest.fixture
def it() -> Cluster:
    """A cluster with one group of two members, 5 records behind in one partition."""
    made = Cluster()
    made.groups["billing"] = Group(members=2, state=GroupState.STABLE)
    made.commit("billing", 10, 15, partition=0)
    made.commit("billing", 7, 7, partition=1)
    made.times_ms[At("orders", 0)] = int(NOW.timestamp() * 1000)
    return made


def test_a_group_is_told(it: Cluster) -> None:
    it.add(group_object())
    it.look()

    status = it.status()
    assert it.condition("Ready") == ("True", "Ready")
    assert status.observed_generation == 1
    assert (status.group_id, status.state, status.protocol) == ("billing", "Stable", "range")
    assert status.coordinator == COORDINATOR
    assert (status.member_count, len(status.members)) == (2, 2)
    assert (status.total_lag, status.max_lag, status.max_lag_seconds) == (5, 5, 1_000)
    first, second = status.partitions
    assert (first.partition, first.committed_offset, first.end_offset, first.lag) == (0, 10, 15, 5)
    assert (second.partition, second.lag, second.lag_seconds) == (1, 0, 0)


def test_a_group_that_is_not_there_is_dead(it: Cluster) -> None:
    it.add(group_object("nobody"))
    it.look()

    assert it.condition("Ready", "nobody") == ("True", "Ready")
    status = it.status("nobody")
    assert status.state is GroupState.DEAD
    assert (status.total_lag, status.member_count, status.partitions) == (None, 0, ())


def test_a_status_holds_so_many_members(it: Cluster) -> None:
    it.groups["billing"].members = MAX_GROUP_STATUS_MEMBERS + 3
    it.add(group_object())
    it.look()

    assert it.status().member_count == MAX_GROUP_STATUS_MEMBERS + 3
    assert len(it.status().members) == MAX_GROUP_STATUS_MEMBERS


def test_the_time_of_a_record_that_stays_unread_is_asked_for_once(it: Cluster) -> None:
    it.maps["orders"] = topic_map("orders", [1 + COORDINATOR % 3] * 3)
    it.add(group_object())
    it.live(20)
    assert it.asked_times == 1
    it.commit("billing", 12, 15)
    it.live(20)
    assert it.asked_times == 2


def test_a_coordinator_that_is_silent_leaves_old_figures_that_say_so(it: Cluster) -> None:
    it.add(group_object(maxLag={"records": 100}))
    it.look()
    it.dead.add(COORDINATOR)
    it.live(PATIENCE_MS / 1000 - 0.5)
    assert it.status().state is GroupState.STABLE, "it may be back at once"
    (one,) = it.watch.observed()
    assert (one.facts, one.lags) == (None, None), "and yet nobody acts on it"

    it.live(2)
    assert it.status().state is GroupState.UNKNOWN
    assert it.status().coordinator is None
    assert it.status().total_lag == 5
    assert it.condition("Ready") == ("False", "CoordinatorNotAvailable")
    assert it.condition("LagWithinObjective") == ("Unknown", "LagUnknown")
    assert it.last is not None
    assert it.last.figures == (), "metrics hold nothing that is old"
    writes = len(it.writes)
    it.live(300, every_ms=1_000)
    assert len(it.writes) == writes

    it.dead.clear()
    it.live(2)
    assert it.status().state is GroupState.STABLE
    assert it.condition("LagWithinObjective") == ("True", "WithinObjective")


@pytest.mark.parametrize("why", ["loading", "no leader", "no topic"])
def test_whoever_may_not_answer_is_as_good_as_silent(it: Cluster, why: str) -> None:
    it.add(group_object())
    if why == "loading":
        it.loading.add(COORDINATOR)
    elif why == "no leader":
        it.maps[OFFSETS] = topic_map(OFFSETS, [None] * 50)
    else:
        del it.maps[OFFSETS]
        it.watch.take_facts(it.scene(), {}, it.now_ms)
    it.live(PATIENCE_MS / 1000 + 1, every_ms=250)

    assert it.condition("Ready") == ("False", "CoordinatorNotAvailable")
    texts = {
        "loading": (
            f"broker {COORDINATOR}, which should coordinate the group, answers with the error "
            "Loading"
        ),
        "no leader": f"partition {partition_of('billing', 50)} of {OFFSETS} has no leader",
        "no topic": f"the cluster has no {OFFSETS} yet",
    }
    assert it.status().conditions[0].message.startswith(texts[why])


def test_a_leader_that_is_silent_leaves_its_partitions_as_they_were(it: Cluster) -> None:
    other = 1 + COORDINATOR % 3
    it.maps["orders"] = topic_map("orders", [other, COORDINATOR, COORDINATOR])
    it.add(group_object(maxLag={"records": 100}))
    it.look()
    it.dead.add(other)
    it.commit("billing", 7, 9, partition=1)
    it.live(PATIENCE_MS / 1000 + 1)

    assert [(one.partition, one.lag) for one in it.status().partitions] == [(0, 5), (1, 2)]
    assert it.condition("Ready") == ("True", "Ready")
    assert it.condition("Warning") == ("True", "LeaderNotAvailable")
    assert it.condition("LagWithinObjective") == ("Unknown", "LagUnknown")


def test_an_objective_is_kept_or_missed_and_events_say_so(it: Cluster) -> None:
    it.add(group_object(maxLag={"records": 10}))
    it.look()
    assert it.condition("LagWithinObjective") == ("True", "WithinObjective")
    assert it.events == []
    it.commit("billing", 10, 21)
    it.live(1)
    assert it.condition("LagWithinObjective") == ("False", "LagTooLarge")
    it.commit("billing", 12, 22)
    it.live(1)
    assert it.condition("LagWithinObjective") == ("True", "WithinObjective")
    assert [(one.type.value, one.reason) for one in it.events] == [
        ("Warning", "LagTooLarge"),
        ("Normal", "WithinObjective"),
    ]


def test_an_objective_of_time_turns_as_time_goes_by(it: Cluster) -> None:
    it.add(group_object(maxLag={"seconds": 1_030}))
    it.live(29)
    assert it.condition("LagWithinObjective") == ("True", "WithinObjective")
    it.live(3)
    assert it.condition("LagWithinObjective") == ("False", "RecordsTooOld")


def test_an_objective_over_what_was_never_committed_is_unknown(it: Cluster) -> None:
    it.add(group_object(maxLag={"records": 10}))
    it.commit("billing", -1, 0, partition=2)
    it.look()
    assert it.condition("LagWithinObjective") == ("True", "WithinObjective"), "it is empty"
    it.commit("billing", -1, 3, partition=2)
    it.live(1)
    assert it.condition("LagWithinObjective") == ("Unknown", "LagUnknown")
    assert it.status().partitions[-1].lag == -1


@pytest.mark.parametrize(
    ("written", "stored_ms"), [("7d", 604_800_000), ("Never", KEPT_FOR_EVER), (None, None)]
)
def test_a_retention_is_sent_until_it_is_stored(
    it: Cluster, written: str | None, stored_ms: int | None
) -> None:
    it.groups["billing"].retention_ms = 5
    it.add(group_object(offsetRetention=written) if written else group_object())
    it.live(30)

    assert it.groups["billing"].retention_ms == stored_ms
    assert it.retention_writes == 1
    assert it.condition("Ready") == ("True", "Ready")
    it.groups["billing"].retention_ms = 6  # as by another's hand
    it.live(1)
    assert it.groups["billing"].retention_ms == stored_ms


def test_a_paused_object_wishes_nothing_and_is_told_all_the_same(it: Cluster) -> None:
    paused = {"annotations": {"chiplog.dev/pause-reconciliation": "true"}}
    it.add(group_object(offsetRetention="7d", meta=paused))
    it.live(5)

    assert it.retention_writes == 0
    assert it.status().total_lag == 5
    assert it.condition("ReconciliationPaused")[0] == "True"


def test_only_one_object_speaks_for_a_group(it: Cluster) -> None:
    it.cluster = brokers_cluster(allowedTopicNamespaces=["*"])
    first = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    later = {"creationTimestamp": "2026-01-02T00:00:00Z"}
    it.add(
        group_object("another", "team", groupId="billing", offsetRetention="1d", meta=later),
        group_object(offsetRetention="7d", meta=first),
    )
    it.live(10)

    assert it.groups["billing"].retention_ms == 604_800_000
    assert it.condition("Ready", "another", "team") == ("False", "ResourceConflict")
    assert it.status("another", "team").state is None
    assert it.condition("Ready") == ("True", "Ready")


def test_a_namespace_that_is_not_allowed_is_told_nothing_of_the_group(it: Cluster) -> None:
    it.add(group_object("billing", "team"))
    it.look()

    assert it.condition("Ready", "billing", "team")[0] == "False"
    status = it.status("billing", "team")
    assert (status.state, status.members, status.partitions) == (None, (), ())


def test_a_cluster_that_is_not_there_is_told(it: Cluster) -> None:
    it.add(group_object())
    it.look()
    it.cluster = None
    absent = it.scene().metadata
    scene = it.scene()
    object.__setattr__(scene, "metadata", type(absent)(name="demo", namespace=HOME))
    assert it.watch.facts_requests(scene) == {}
    it.watch.take_facts(scene, {}, it.now_ms)
    it.watch.take_positions([], it.wall(), it.now_ms)
    (report,) = it.watch.finish(scene, it.wall(), it.now_ms, it.now_ms + 300).actions
    assert isinstance(report, Report)
    assert report.status.conditions[0].reason == "ClusterNotFound"


# -- discovery


@pytest.fixture
def finder(it: Cluster) -> Cluster:
    it.cluster = brokers_cluster(consumerGroups={"discover": True})
    return it


def test_a_group_gets_an_object_and_it_goes_a_while_after_the_group(finder: Cluster) -> None:
    finder.commit("My Group", 1, 15)
    finder.live(1)
    ids = {one.metadata.name: one.group_id for one in finder.objects.values()}
    assert ids == {"billing": "billing", "my-group-5c5d4cfd": "My Group"}
    assert {one.metadata.labels[DISCOVERED] for one in finder.objects.values()} == {"true"}
    assert finder.status().total_lag == 5

    del finder.groups["My Group"]
    finder.live(GONE_MS / 1000 - 5, every_ms=1_000)
    assert len(finder.objects) == 2
    finder.live(10, every_ms=1_000)
    assert list(finder.objects) == [f"{HOME}/billing"]


def test_an_object_stays_while_nobody_says_that_its_group_is_gone(finder: Cluster) -> None:
    finder.live(1)
    del finder.groups["billing"]
    finder.live(30)
    finder.loading = {1, 2, 3}
    finder.live(1)
    finder.loading = set()
    finder.live(GONE_MS / 1000 - 5)
    assert list(finder.objects) == [f"{HOME}/billing"], "it counts from the silence on"
    finder.dead = {1, 2, 3}
    finder.live(10 * GONE_MS / 1000, every_ms=5_000)
    assert list(finder.objects) == [f"{HOME}/billing"]


@pytest.mark.parametrize("what", ["spec", "touched", "no label", "discovery off"])
def test_what_a_user_wrote_to_stays(finder: Cluster, what: str) -> None:
    finder.live(1)
    (uid,) = finder.objects
    labels = {} if what == "no label" else {DISCOVERED: "true"}
    spec: dict[str, Any] = {"maxLag": {"records": 5}} if what == "spec" else {}
    finder.add(group_object("billing", HOME, {"labels": labels}, groupId="billing", **spec))
    if what == "touched":
        finder.edited_by_others.add(uid)
    if what == "discovery off":
        finder.cluster = brokers_cluster()
    del finder.groups["billing"]
    finder.live(10 * GONE_MS / 1000, every_ms=5_000)
    assert (list(finder.objects) == [uid]) is (what != "discovery off")


def test_a_users_object_takes_the_place_of_ours(finder: Cluster) -> None:
    finder.live(1)
    finder.add(group_object("mine", groupId="billing", offsetRetention="7d"))
    finder.live(2)

    assert list(finder.objects) == [f"{HOME}/mine"]
    assert finder.groups["billing"].retention_ms == 604_800_000
    assert finder.condition("Ready", "mine") == ("True", "Ready")


def test_no_object_is_made_over_anothers_name_or_without_being_asked(it: Cluster) -> None:
    it.live(5)
    assert it.objects == {}
    it.cluster = brokers_cluster(consumerGroups={"discover": True})
    it.add(group_object("billing", groupId="another"))
    it.live(5)
    assert list(it.objects) == [f"{HOME}/billing"]


def test_times_of_conditions_are_kept(it: Cluster) -> None:
    it.add(group_object())
    it.look()
    since = it.status().conditions[0].last_transition_time
    it.live(100, every_ms=5_000)
    it.commit("billing", 10, 500)
    it.live(2)
    assert it.status().total_lag == 490
    assert it.status().conditions[0].last_transition_time == since
    assert isinstance(since, datetime)
    assert since.tzinfo is UTC


@pytest.mark.parametrize(
    "stored",
    [
        RetentionStored(group_id="billing", refusal=GroupRefusal.NOT_COORDINATOR),
        RetentionStored(group_id="others"),
    ],
)
def test_a_retention_that_was_not_stored_is_sent_again(
    it: Cluster, stored: RetentionStored
) -> None:
    it.add(group_object(offsetRetention="7d"))
    scene = it.scene()
    broker_id = BrokerId(COORDINATOR)
    requests = it.watch.facts_requests(scene)[broker_id]
    answers = {broker_id: [it._facts(broker_id, one) for one in requests]}
    it.watch.take_facts(scene, answers, it.now_ms)
    (asked,) = it.watch.retention_requests().values()

    it.watch.take_retention(asked, RetentionAnswer(groups=(stored,)))
    assert list(it.watch.retention_requests().values()) == [asked]

    done = RetentionStored(group_id="billing")
    it.watch.take_retention(asked, RetentionAnswer(groups=(done,)))
    assert it.watch.retention_requests() == {}
