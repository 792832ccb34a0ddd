"""When a cluster is rebalanced automatically: once, for a reason that is there, never in a loop."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.auto_rebalance import AutoRebalance, AutoRebalanceMode, AutoRebalanceStatus
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import Rebalance, RebalanceMeasure, RebalanceMode, RebalanceSpec
from chiplog_core.model.rebalance_status import RebalanceState, RebalanceStatus
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_run import Outcome
from chiplog_core.naming import labels
from chiplog_core.rebalance.skew import Skew
from chiplog_core.spark.auto_rebalance import (
    MIN_INTERVAL,
    STAYS,
    AutoStep,
    AutoView,
    measures_skew,
    next_step,
    not_created,
    separable,
    staying_brokers,
)
from tests.planner.model import Kubernetes
from tests.planner.objects import topic

ADD = {"mode": "add-brokers"}
REMOVE = {"mode": "remove-brokers"}
IMBALANCE = {"mode": "imbalance", "threshold": 30}


def uneven(
    stored: int,
    leaders: int = 0,
    *,
    replicas: int = 0,
    idle: int | None = 0,
    rate: int | None = 0,
) -> Skew:
    return Skew(
        bytes_percent=stored,
        replicas_percent=replicas,
        leaders_percent=leaders,
        idle_leaders_percent=idle,
        bytes_in_percent=rate,
    )


EVEN, UNEVEN, WORSE = map(uneven, (30, 31, 37))


class Cluster:
    """A cluster of which a planner and the decisions about automatic Rebalances know the same."""

    def __init__(self, *auto: Mapping[str, Any], topics: int = 1) -> None:
        self.kubernetes = Kubernetes(3, autoRebalance=list(auto))
        for number in range(topics):
            self.kubernetes.apply(topic(f"t{number}", partitions=6, replicas=2))
        self.kubernetes.run()
        self.rebalances: dict[str, Rebalance] = {}
        self.created: list[Rebalance] = []
        self.deleted: list[str] = []
        self.told: list[str] = []
        self.changes: dict[str, Any] = {}
        """Of what is observed."""

    @property
    def status(self) -> AutoRebalanceStatus:
        found = self.kubernetes.cluster.status.auto_rebalance
        assert found is not None
        return found

    @property
    def state(self) -> str:
        return self.status.state.value

    @property
    def is_uneven(self) -> bool:
        return self.status.imbalanced_since is not None

    @property
    def left(self) -> int | None:
        """The highest value that the last Rebalance left for any goal."""
        return max((one.value for one in self.status.left), default=None)

    def view(self, **view: Any) -> AutoView:
        return AutoView(
            cluster=self.kubernetes.cluster,
            world=self.kubernetes.world(**self.changes),
            rebalances=dict(self.rebalances),
            is_measured="skew" in view,
            **view,
        )

    def look(self, seconds: int = 15, *, dies: str = "", **view: Any) -> AutoStep:
        """`dies`: the operator does, before the "status" is written, or before its "actions"."""
        self.kubernetes.now += timedelta(seconds=seconds)
        step = next_step(self.view(**view), self.kubernetes.now)
        if dies == "actions":
            return step
        if step.create is not None and step.create.metadata.name not in self.rebalances:
            self.created.append(step.create)
            self.rebalances[step.create.metadata.name] = step.create
        if step.delete is not None:
            self.deleted.append(step.delete.metadata.name)
            del self.rebalances[step.delete.metadata.name]
        if dies == "status":
            return step
        self.told += [one.reason for one in step.events]
        self.write(step.status)
        return step

    def write(self, auto: AutoRebalanceStatus | None) -> None:
        cluster = self.kubernetes.cluster
        status = replace(cluster.status, auto_rebalance=auto)
        self.kubernetes.cluster = self.kubernetes.stored(replace(cluster, status=status))
        read = type(cluster).from_manifest(self.kubernetes.cluster.to_manifest())
        assert read.status == status, "a status that does not read"

    def looks(self, count: int = 4, seconds: int = 15, **view: Any) -> None:
        for _ in range(count):
            self.look(seconds, **view)

    def scale(self, replicas: int) -> None:
        spec = replace(self.kubernetes.cluster.spec, replicas=replicas)
        self.kubernetes.cluster = self.kubernetes.stored(
            replace(self.kubernetes.cluster, spec=spec)
        )
        self.kubernetes.settle()
        for broker_id, broker in self.kubernetes.brokers.items():
            if broker.status.incarnation is None:
                self.kubernetes.start(broker_id)
        self.kubernetes.settle()

    def set(self, *auto: AutoRebalance) -> None:
        spec = replace(self.kubernetes.cluster.spec, auto_rebalance=auto)
        self.kubernetes.cluster = replace(self.kubernetes.cluster, spec=spec)

    def ends(self, state: RebalanceState, message: str = "", outcome: str = "") -> None:
        """The last Rebalance gets to this state."""
        name = self.status.rebalance
        assert name is not None
        ready = Condition(
            type="Ready",
            status=ConditionStatus.FALSE,
            observed_generation=1,
            last_transition_time=self.kubernetes.now,
            reason="Because",
            message=message,
        )
        status = RebalanceStatus(
            state=state,
            conditions=(ready,) if message else (),
            outcome=Outcome(reason=outcome) if outcome else None,
        )
        self.rebalances[name] = replace(self.rebalances[name], status=status)

    def template(self, name: str = "wanted", value: str = "true", **spec: Any) -> None:
        self.rebalances[name] = Rebalance(
            metadata=Metadata(
                name=name, annotations={labels.REBALANCE_TEMPLATE: value} if value else {}
            ),
            spec=RebalanceSpec(cluster_ref=ClusterRef(name="demo"), **spec),
        )


def scaled_out(*auto: Mapping[str, Any]) -> Cluster:
    cluster = Cluster(*(auto or (ADD,)))
    cluster.looks(2)
    cluster.scale(4)
    return cluster


# ---- brokers are added ----


def test_a_broker_that_was_added_gets_its_share_once() -> None:
    cluster = scaled_out()
    cluster.look()
    assert (cluster.state, cluster.created) == ("RebalanceOnScaleUp", [])
    cluster.looks()
    (one,) = cluster.created
    assert (one.spec.mode, one.spec.brokers) == (RebalanceMode.ADD_BROKERS, (BrokerId(4),))
    assert one.spec.measure is RebalanceMeasure.BROKERS
    assert one.metadata.annotations == {labels.REBALANCE_AUTO_APPROVAL: "true"}
    assert one.metadata.name == cluster.status.rebalance
    assert cluster.status.brokers == (4,)
    cluster.ends(RebalanceState.REBALANCING)
    cluster.looks()
    assert cluster.state == "RebalanceOnScaleUp"
    cluster.ends(RebalanceState.READY)
    cluster.looks()
    assert (cluster.state, cluster.status.balanced_brokers) == ("Idle", (1, 2, 3, 4))
    cluster.looks(100, seconds=3600)
    assert len(cluster.created) == 1
    assert (cluster.told, cluster.deleted) == (["AutoRebalanceBegun"], [])

    cluster.scale(6)
    cluster.looks()
    assert [one.spec.brokers for one in cluster.created] == [(4,), (5, 6)]
    assert cluster.deleted == [one.metadata.name], "the last one has been replaced"


def test_nothing_begins_where_nothing_changes() -> None:
    cluster = Cluster(ADD, IMBALANCE, REMOVE)
    cluster.look(skew=EVEN)
    before = cluster.status
    cluster.looks(20, seconds=600, skew=EVEN)
    assert (cluster.status, cluster.created, cluster.told) == (before, [], [])


def test_set_together_with_the_number_of_brokers_it_finds_those_that_are_empty() -> None:
    cluster = Cluster()
    cluster.look()
    assert cluster.kubernetes.cluster.status.auto_rebalance is None
    cluster.scale(5)
    cluster.set(AutoRebalance(mode=AutoRebalanceMode.ADD_BROKERS))
    cluster.looks()
    assert [one.spec.brokers for one in cluster.created] == [(4, 5)]


def test_a_new_broker_stays_new_if_new_topics_are_placed_on_it() -> None:
    cluster = scaled_out()
    cluster.kubernetes.apply(topic("later", partitions=8, replicas=2))
    cluster.kubernetes.settle()
    cluster.looks()
    assert [one.spec.brokers for one in cluster.created] == [(4,)]


def test_without_any_data_there_is_nothing_to_move() -> None:
    cluster = Cluster(ADD, topics=0)
    cluster.looks()
    cluster.scale(5)
    cluster.looks()
    assert (cluster.created, cluster.status.balanced_brokers) == ([], (1, 2, 3, 4, 5))


def test_other_modes_do_not_wait_for_new_brokers() -> None:
    cluster = Cluster(IMBALANCE)
    cluster.looks()
    cluster.scale(4)
    cluster.looks()
    assert (cluster.created, cluster.status.balanced_brokers) == ([], (1, 2, 3, 4))


def test_it_waits_until_every_broker_serves_and_nothing_moves() -> None:
    cluster = scaled_out()
    running = Rebalance(
        metadata=Metadata(name="theirs"), spec=RebalanceSpec(cluster_ref=ClusterRef(name="demo"))
    )
    cluster.changes = {"rebalances": (running,)}
    cluster.looks()
    cluster.changes = {"unreadable_brokers": {"demo-9": "a newer version wrote it"}}
    cluster.looks()
    cluster.changes = {"is_complete": False}
    cluster.looks()
    cluster.changes = {}
    cluster.kubernetes.kill(4)
    cluster.looks()
    assert (cluster.state, cluster.created) == ("Idle", [])
    cluster.kubernetes.start(4)
    cluster.kubernetes.settle()
    name, found = next(iter(cluster.kubernetes.maps.items()))
    (generation,) = found.spec.generations
    first = replace(generation.partitions[0], adding=(BrokerId(4),))
    moving = replace(generation, partitions=(first, *generation.partitions[1:]))
    cluster.changes = {
        "maps": {name: replace(found, spec=replace(found.spec, generations=(moving,)))}
    }
    cluster.looks()
    assert cluster.created == []
    cluster.changes = {}
    cluster.looks()
    assert len(cluster.created) == 1


def test_an_operator_that_dies_at_any_moment_creates_one() -> None:
    for dies in ("actions", "status"):
        cluster = scaled_out()
        for _ in range(6):
            cluster.look(dies=dies)
            cluster.look()
        assert len(cluster.created) == 1
        cluster.ends(RebalanceState.READY)
        cluster.look(dies=dies)
        cluster.looks()
        assert (cluster.state, len(cluster.created)) == ("Idle", 1)


def test_a_rebalance_that_a_user_deletes_is_not_carried_out() -> None:
    cluster = scaled_out()
    cluster.looks()
    cluster.rebalances.clear()
    cluster.looks()
    assert (cluster.state, len(cluster.created)) == ("Idle", 1)
    assert cluster.status.balanced_brokers == (1, 2, 3, 4)


def test_one_that_cannot_be_read_is_waited_for() -> None:
    cluster = scaled_out()
    cluster.looks()
    (one,) = cluster.created
    cluster.rebalances.clear()
    cluster.looks(unreadable=frozenset({one.metadata.name}))
    assert (cluster.state, len(cluster.created)) == ("RebalanceOnScaleUp", 1)


# ---- failures ----


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (RebalanceState.NOT_READY, ""),
        (RebalanceState.STOPPED, ""),
        (RebalanceState.PROPOSAL_READY, "ProposalOutdated"),
    ],
)
def test_one_that_fails_is_told_of_once_and_not_repeated(
    state: RebalanceState, outcome: str
) -> None:
    cluster = scaled_out(ADD, IMBALANCE)
    cluster.looks()
    cluster.ends(state, "broker 2 is away", outcome)
    cluster.looks(30, seconds=3600, skew=UNEVEN)
    assert (cluster.state, len(cluster.created)) == ("Idle", 1)
    assert cluster.told == ["AutoRebalanceBegun", "AutoRebalanceFailed"]
    name = cluster.created[0].metadata.name
    assert cluster.status.failure == (
        f"Rebalance {name} is {state} (broker 2 is away): set its annotation "
        f"{labels.REBALANCE} to refresh, or delete it; until then no automatic one begins"
    )
    cluster.look(unreadable=frozenset({name}))
    assert cluster.status.failure

    cluster.ends(RebalanceState.READY)
    cluster.looks()
    assert (cluster.status.failure, cluster.status.balanced_brokers) == ("", (1, 2, 3, 4))


def test_deleting_the_one_that_failed_has_it_tried_again() -> None:
    cluster = scaled_out()
    cluster.looks()
    cluster.ends(RebalanceState.NOT_READY)
    cluster.looks()
    assert "is NotReady: set its annotation" in cluster.status.failure
    cluster.rebalances.clear()
    cluster.looks()
    assert [one.spec.brokers for one in cluster.created] == [(4,), (4,)]
    assert cluster.created[0].metadata.name != cluster.created[1].metadata.name


def test_what_cannot_be_created_is_reported_until_it_is_there() -> None:
    cluster = scaled_out()
    cluster.look()
    step = cluster.look(dies="actions")
    assert step.create is not None
    cluster.write(not_created(step, "rebalances is forbidden").status)
    assert "cannot be created: rebalances is forbidden" in cluster.status.failure
    step = cluster.look(dies="actions")
    assert not_created(step, "rebalances is forbidden").status == cluster.status
    cluster.looks(2)
    assert (len(cluster.created), cluster.status.failure) == (1, "")


# ---- templates ----


def test_the_spec_of_a_template_is_used_for_all_but_its_scope() -> None:
    cluster = scaled_out({**ADD, "template": "wanted"})
    cluster.template(
        excluded_topics="logs-.*", measure=RebalanceMeasure.BROKERS, approved_proposal="p-1"
    )
    cluster.looks()
    (one,) = cluster.created
    assert (one.spec.excluded_topics, one.spec.brokers) == ("logs-.*", (4,))
    assert one.spec.mode is RebalanceMode.ADD_BROKERS
    assert one.spec.approved_proposal is None
    assert labels.REBALANCE_TEMPLATE not in one.metadata.annotations


def test_a_template_that_is_missing_or_none_is_named_and_waited_for() -> None:
    cluster = scaled_out({**ADD, "template": "wanted"})
    cluster.looks()
    assert "there is no Rebalance wanted in namespace" in cluster.status.failure
    cluster.template(value="")
    cluster.looks()
    assert f"set its annotation {labels.REBALANCE_TEMPLATE} to true" in cluster.status.failure
    assert (cluster.state, cluster.told) == ("Idle", ["AutoRebalanceFailed"] * 2)
    cluster.template()
    cluster.look()
    del cluster.rebalances["wanted"]
    cluster.look()
    assert (cluster.state, cluster.created) == ("Idle", [])
    cluster.template()
    cluster.looks()
    assert (len(cluster.created), cluster.status.failure) == (1, "")


# ---- brokers are removed ----


def test_while_brokers_are_emptied_nothing_else_begins() -> None:
    for auto, state in (((REMOVE, IMBALANCE), "RebalanceOnScaleDown"), ((IMBALANCE,), "Idle")):
        cluster = Cluster(*auto)
        cluster.looks()
        brokers = dict(cluster.kubernetes.brokers)
        three = brokers[BrokerId(3)]
        leaving = replace(three.spec, intent=BrokerIntent.REMOVE)
        brokers[BrokerId(3)] = replace(three, spec=leaving)
        cluster.changes = {"brokers": brokers}
        cluster.looks(100, seconds=600, skew=UNEVEN)
        assert (cluster.state, cluster.created) == (state, [])
        assert staying_brokers(cluster.view().world) == (1, 2)
        brokers[BrokerId(3)] = replace(three, spec=replace(leaving, retired=True))
        cluster.looks()
        assert cluster.state == "Idle"


# ---- the load is uneven ----


def test_load_that_stays_uneven_is_evened_out_and_not_more_often_than_each_hour() -> None:
    cluster = Cluster(IMBALANCE)
    assert measures_skew(cluster.kubernetes.cluster)
    minutes = STAYS // timedelta(minutes=1)
    cluster.looks(minutes, seconds=60, skew=UNEVEN)
    assert (cluster.state, cluster.status.bytes_skew_percent) == ("Idle", 31)
    cluster.looks(2, seconds=60, skew=UNEVEN)
    assert (cluster.state, len(cluster.created)) == ("RebalanceOnImbalance", 1)
    assert not measures_skew(cluster.kubernetes.cluster)
    (one,) = cluster.created
    assert (one.spec.mode, one.spec.brokers) == (RebalanceMode.FULL, ())
    cluster.ends(RebalanceState.READY)
    cluster.look()
    hour = MIN_INTERVAL // timedelta(minutes=1)
    cluster.looks(10, seconds=60, skew=UNEVEN)
    cluster.looks(hour - 11, seconds=60, skew=WORSE)
    assert (cluster.state, len(cluster.created)) == ("Idle", 1)
    cluster.looks(3, seconds=60, skew=WORSE)
    assert len(cluster.created) == 2


def evened_once(skew: Skew, **auto: Any) -> Cluster:
    """One that has had its Rebalance because of this skew."""
    cluster = Cluster({**IMBALANCE, **auto})
    cluster.looks(10, seconds=60, skew=skew)
    assert len(cluster.created) == 1
    cluster.ends(RebalanceState.READY)
    cluster.look()
    return cluster


def test_what_a_rebalance_could_not_even_out_begins_no_other_one() -> None:
    cluster = evened_once(WORSE)
    cluster.looks(24 * 60, seconds=60, skew=UNEVEN)
    assert (len(cluster.created), cluster.left) == (1, 31)
    cluster.looks(120, seconds=60, skew=uneven(36))
    assert (len(cluster.created), cluster.is_uneven) == (1, False)
    cluster.looks(10, seconds=60, skew=WORSE)
    assert len(cluster.created) == 2
    cluster.ends(RebalanceState.READY)
    cluster.looks(10, seconds=60, skew=WORSE)
    assert cluster.left == 37


@pytest.mark.parametrize("noise", [0, 0.03, 0.1, 0.3])
def test_rates_that_vary_begin_no_rebalance_that_can_move_nothing(noise: float) -> None:
    """Four partitions of equal mean rate on three brokers: one of these leads two, at best."""
    random = Random(1)  # noqa: S311
    cluster = Cluster({"mode": "imbalance"})
    for _ in range(24 * 60):
        one, two, three, four = (100 * (1 + random.uniform(-noise, noise)) for _ in range(4))
        mean = (one + two + three + four) / 3
        most = max(one, four)
        highest = max(one + four - max(mean, most), two - max(mean, two), three - max(mean, three))
        cluster.look(60, skew=uneven(0, rate=int(100 * max(0, highest) / mean)))
        if cluster.rebalances:
            cluster.ends(RebalanceState.READY)
    assert len(cluster.created) <= 2


def test_an_excess_must_last_and_not_only_what_is_above_the_threshold() -> None:
    cluster = evened_once(WORSE)
    cluster.looks(10, seconds=60, skew=WORSE)
    for _ in range(100):
        cluster.looks(4, seconds=60, skew=uneven(60))
        cluster.look(60, skew=WORSE)
    assert len(cluster.created) == 1
    cluster.looks(7, seconds=60, skew=uneven(60))
    assert len(cluster.created) == 2


def test_a_night_without_load_is_not_what_was_left() -> None:
    cluster = evened_once(WORSE)
    for _ in range(14):
        cluster.looks(16 * 6, seconds=600, skew=WORSE)
        cluster.looks(8 * 6, seconds=600, skew=uneven(0))
    assert (len(cluster.created), cluster.left) == (1, 37)
    cluster.looks(15 * 24, seconds=3600, skew=uneven(3))
    assert cluster.left == 3, "a long time of even load is"
    cluster.looks(10, seconds=60, skew=UNEVEN)
    assert len(cluster.created) == 2


def test_a_status_of_an_older_version_is_understood() -> None:
    cluster = evened_once(WORSE)
    cluster.looks(10, seconds=60, skew=WORSE)
    cluster.write(replace(cluster.status, left=()))  # it had one value for all goals
    cluster.look(60, skew=uneven(10))
    cluster.looks(8 * 24, seconds=3600, skew=uneven(10))
    assert (len(cluster.created), cluster.left) == (1, 10)


def test_one_that_failed_has_left_nothing() -> None:
    cluster = Cluster(IMBALANCE)
    cluster.looks(10, seconds=60, skew=WORSE)
    cluster.ends(RebalanceState.NOT_READY)
    cluster.looks(120, seconds=60, skew=WORSE)
    cluster.ends(RebalanceState.READY)
    cluster.looks(20, seconds=60, skew=uneven(3))
    assert (len(cluster.created), cluster.left) == (1, 3)
    cluster.looks(60, seconds=60, skew=WORSE)
    assert len(cluster.created) == 2
    cluster.ends(RebalanceState.NOT_READY)
    cluster.looks(120, seconds=60, skew=WORSE)
    assert len(cluster.created) == 2
    cluster.rebalances.clear()
    cluster.looks(10, seconds=60, skew=WORSE)
    assert len(cluster.created) == 3, "it is tried again"


def test_one_that_is_not_created_has_left_nothing() -> None:
    cluster = Cluster({**IMBALANCE, "template": "wanted", "unevenFor": "1m"})
    cluster.template()
    cluster.looks(2, seconds=60, skew=UNEVEN)
    assert (cluster.state, cluster.created) == ("RebalanceOnImbalance", [])
    del cluster.rebalances["wanted"]
    cluster.look(60, skew=UNEVEN)
    assert (cluster.state, cluster.created) == ("Idle", [])
    cluster.template()
    cluster.looks(4, seconds=60, skew=UNEVEN)
    assert len(cluster.created) == 1


def test_one_that_helped_is_followed_by_another_one_when_the_load_is_uneven_again() -> None:
    cluster = evened_once(UNEVEN)
    cluster.looks(120, seconds=60, skew=uneven(3))
    cluster.looks(10, seconds=60, skew=UNEVEN)
    assert len(cluster.created) == 2


def test_what_was_left_does_not_hold_for_other_brokers() -> None:
    cluster = evened_once(UNEVEN)
    cluster.looks(120, seconds=60, skew=UNEVEN)
    assert (len(cluster.created), cluster.status.left_brokers) == (1, (1, 2, 3))
    cluster.scale(4)
    cluster.looks(10, seconds=60, skew=UNEVEN)
    assert (len(cluster.created), cluster.status.left_brokers) == (2, (1, 2, 3, 4))


def left_of(cluster: Cluster) -> dict[str, int]:
    return {one.goal: one.value for one in cluster.status.left}


def test_what_was_left_for_one_goal_does_not_hide_another_one() -> None:
    """Bytes are uneven by 80 %, as one huge partition makes them. Then leaders get uneven."""
    cluster = evened_once(uneven(80))
    assert cluster.told == ["AutoRebalanceBegun"]
    cluster.looks(120, seconds=60, skew=uneven(80, idle=10))
    assert left_of(cluster) == {
        "DiskUsageDistributionGoal": 80,
        "LeaderBytesInDistributionGoal": 0,
        "LeaderReplicaDistributionGoal": 10,
        "RackAwareGoal": 0,
        "ReplicaDistributionGoal": 0,
    }
    assert (len(cluster.created), cluster.is_uneven) == (1, False)
    cluster.look(60, skew=uneven(80, idle=60))
    assert cluster.status.uneven_goals == ("LeaderReplicaDistributionGoal",)
    step = None
    for _ in range(10):
        found = cluster.look(60, skew=uneven(80, idle=60))
        step = found if found.events else step
    assert len(cluster.created) == 2
    assert step is not None
    assert "UTC (LeaderReplicaDistributionGoal): Rebalance" in step.events[0].message


def test_numbers_of_replicas_that_stay_uneven_begin_a_rebalance() -> None:
    cluster = Cluster(IMBALANCE)
    cluster.look(60, skew=uneven(0, replicas=31))
    assert cluster.status.uneven_goals == ("ReplicaDistributionGoal",)
    assert cluster.status.replicas_skew_percent == 31
    cluster.looks(10, seconds=60, skew=uneven(0, replicas=31))
    assert len(cluster.created) == 1


def test_a_goal_that_was_added_is_judged_by_the_threshold() -> None:
    cluster = Cluster({**IMBALANCE, "template": "wanted"})
    cluster.template(goals=("DiskUsageDistributionGoal",))
    cluster.looks(10, seconds=60, skew=uneven(50))
    cluster.ends(RebalanceState.READY)
    cluster.looks(120, seconds=60, skew=uneven(50, replicas=90))
    assert left_of(cluster) == {"DiskUsageDistributionGoal": 50}
    cluster.template(goals=("DiskUsageDistributionGoal", "ReplicaDistributionGoal"))
    cluster.looks(10, seconds=60, skew=uneven(50, replicas=90))
    assert len(cluster.created) == 2


def sharing(cluster: Cluster, *nodes: str) -> None:
    """From now on the brokers are on these nodes."""
    brokers = dict(cluster.kubernetes.brokers)
    for broker_id, node in zip(sorted(brokers), nodes, strict=True):
        one = brokers[broker_id]
        brokers[broker_id] = replace(one, spec=replace(one.spec, node=node))
    cluster.changes = {"brokers": brokers}


def test_replicas_that_share_a_node_without_need_are_separated_once() -> None:
    cluster = Cluster(IMBALANCE)
    sharing(cluster, "a", "a", "a")
    cluster.looks(10, seconds=60, skew=uneven(0))
    assert (cluster.created, cluster.is_uneven) == ([], False), "no other node is free"
    sharing(cluster, "a", "a", "b")
    shared = separable(cluster.view().world, cluster.kubernetes.cluster)
    assert shared == 2, "of six partitions on two of three brokers"
    cluster.look(60, skew=uneven(0))
    assert cluster.status.uneven_goals == ("RackAwareGoal",)
    cluster.looks(10, seconds=60, skew=uneven(0))
    assert len(cluster.created) == 1
    cluster.ends(RebalanceState.READY)
    cluster.looks(240, seconds=60, skew=uneven(0))
    assert len(cluster.created) == 1, "what one could not separate, the next one could not"
    assert left_of(cluster)["RackAwareGoal"] == 2


def test_without_the_goal_replicas_may_share_a_node() -> None:
    cluster = Cluster({**IMBALANCE, "template": "wanted"})
    cluster.template(goals=("DiskUsageDistributionGoal",))
    sharing(cluster, "a", "a", "b")
    cluster.looks(20, seconds=60, skew=uneven(0))
    assert cluster.created == []


def test_what_topics_place_is_not_separated() -> None:
    cluster = Cluster(IMBALANCE)
    entries = [{"partition": one, "replicas": [1, 2]} for one in range(6)]
    cluster.kubernetes.apply(topic("t0", partitions=6, replicas=2, assignments=entries))
    cluster.kubernetes.settle()
    sharing(cluster, "a", "a", "b")
    assert separable(cluster.view().world, cluster.kubernetes.cluster) == 0


BY_NUMBER, BY_RATE = "LeaderReplicaDistributionGoal", "LeaderBytesInDistributionGoal"


@pytest.mark.parametrize(
    ("goals", "skew", "leaders", "count"),
    [
        ((BY_NUMBER,), uneven(0, 50, idle=None, rate=None), 50, 1),
        ((BY_NUMBER, BY_RATE), uneven(0, 50), 0, 0),
        ((BY_NUMBER, BY_RATE), uneven(0, 50, idle=40), 40, 1),
        ((BY_RATE,), uneven(0, 50, rate=60), 0, 1),
        (("no goal",), uneven(0, 50), 0, 0),
        ((), uneven(0, 50), 0, 0),
        ((), uneven(0, 50, rate=31), 0, 1),
        ((), uneven(50, 50, idle=None, rate=None), None, 0),
    ],
)
def test_what_the_goals_of_the_template_even_out_counts(
    goals: tuple[str, ...], skew: Skew, leaders: int | None, count: int
) -> None:
    cluster = Cluster({**IMBALANCE, "template": "wanted"})
    cluster.template(goals=goals)
    cluster.look(60, skew=skew)
    assert cluster.is_uneven is bool(count)
    cluster.looks(10, seconds=60, skew=skew)
    assert len(cluster.created) == count
    assert cluster.status.leaders_skew_percent == leaders
    assert cluster.status.bytes_in_skew_percent == skew.bytes_in_percent


def test_what_is_not_known_for_a_moment_is_not_what_was_left() -> None:
    cluster = evened_once(uneven(0, rate=40))
    cluster.looks(10, seconds=60, skew=uneven(0, rate=40))
    for _ in range(60):
        cluster.look(60, skew=uneven(0, idle=None, rate=None))
        cluster.looks(10, seconds=60, skew=uneven(0, rate=40))
    assert (len(cluster.created), cluster.left) == (1, 40)


def test_how_long_the_load_must_be_uneven_can_be_set() -> None:
    cluster = Cluster({**IMBALANCE, "unevenFor": "30s"})
    cluster.looks(2, seconds=15, skew=UNEVEN)
    assert cluster.state == "Idle"
    cluster.look(skew=UNEVEN)
    assert cluster.state == "RebalanceOnImbalance"


# ---- windows ----

NIGHTS = {"windows": [{"schedule": "0 3 * * *", "duration": "2h"}], "timeZone": "Europe/Berlin"}


def test_a_rebalance_waits_for_a_window_and_one_that_runs_is_not_cut() -> None:
    cluster = scaled_out({**ADD, **NIGHTS})
    cluster.looks()
    until = cluster.status.waits_until
    assert (cluster.state, cluster.created) == ("Idle", [])
    assert until is not None
    berlin = until.astimezone(ZoneInfo("Europe/Berlin"))
    assert (berlin.hour, berlin.minute) == (3, 0)
    assert timedelta(0) < until - cluster.kubernetes.now <= timedelta(days=1)

    cluster.kubernetes.now = until - timedelta(seconds=20)
    cluster.look()
    assert cluster.state == "Idle"
    cluster.look()
    assert (cluster.state, cluster.status.waits_until) == ("RebalanceOnScaleUp", None)
    cluster.look(2 * 3600)
    assert len(cluster.created) == 1, "it had begun when the window closed"
    cluster.ends(RebalanceState.REBALANCING)
    cluster.looks(10, seconds=600)
    assert cluster.state == "RebalanceOnScaleUp"
    cluster.ends(RebalanceState.READY)
    cluster.looks()
    assert (cluster.state, cluster.status.balanced_brokers) == ("Idle", (1, 2, 3, 4))
    assert cluster.status.waits_until is None


def test_each_mode_has_its_own_windows() -> None:
    cluster = scaled_out({**ADD, **NIGHTS}, {**IMBALANCE, "unevenFor": "1m"})
    cluster.looks(4, seconds=60, skew=UNEVEN)
    assert cluster.state == "RebalanceOnImbalance"


def test_nothing_begins_with_windows_that_are_not_valid() -> None:
    cluster = scaled_out({**ADD, "windows": [{"schedule": "0 99 * * *", "duration": "2h"}]})
    cluster.looks()
    assert cluster.created == []
    assert cluster.kubernetes.cluster.status.auto_rebalance is None


@pytest.mark.parametrize("between", [EVEN, None], ids=["even", "not known"])
def test_load_that_was_even_or_unknown_in_between_has_not_stayed_uneven(
    between: Skew | None,
) -> None:
    cluster = Cluster(IMBALANCE)
    for _ in range(20):
        cluster.looks(4, seconds=60, skew=UNEVEN)
        cluster.look(60, skew=between)
    assert (cluster.state, cluster.created) == ("Idle", [])
    assert cluster.status.imbalanced_since is None


def test_the_threshold_has_a_default_and_without_the_mode_there_is_no_figure() -> None:
    cluster = Cluster({"mode": "imbalance"})
    cluster.look(skew=uneven(21, 60, idle=7))
    assert (cluster.is_uneven, cluster.status.leaders_skew_percent) == (True, 7)
    cluster.look(skew=uneven(20, 60, idle=20, rate=20))
    assert not cluster.is_uneven
    cluster.set(AutoRebalance(mode=AutoRebalanceMode.ADD_BROKERS))
    cluster.look()
    assert cluster.status.leaders_skew_percent is None
    assert not measures_skew(cluster.kubernetes.cluster)


# ---- what stops everything ----


def test_a_mode_that_is_taken_out_before_the_rebalance_is_created_creates_none() -> None:
    cluster = scaled_out(ADD, REMOVE)
    cluster.look()
    assert cluster.state == "RebalanceOnScaleUp"
    cluster.set(AutoRebalance(mode=AutoRebalanceMode.REMOVE_BROKERS))
    cluster.looks()
    assert (cluster.state, cluster.created, cluster.status.rebalance) == ("Idle", [], None)


def test_without_the_field_there_is_no_status_and_a_paused_or_ending_cluster_keeps_its() -> None:
    cluster = scaled_out()
    cluster.look()
    before, meta = cluster.status, cluster.kubernetes.cluster.metadata
    for changed in (
        replace(meta, annotations={labels.PAUSE: "true"}),
        replace(meta, deletion_timestamp=cluster.kubernetes.now),
    ):
        cluster.kubernetes.cluster = replace(cluster.kubernetes.cluster, metadata=changed)
        cluster.looks()
        assert (cluster.status, cluster.created) == (before, [])
    cluster.kubernetes.cluster = replace(cluster.kubernetes.cluster, metadata=meta)
    cluster.set()
    cluster.look()
    assert cluster.kubernetes.cluster.status.auto_rebalance is None


def test_what_an_earlier_version_did_not_record_is_not_what_a_rebalance_left() -> None:
    """It recorded one value for all goals, and had no goal for the number of replicas."""
    cluster = Cluster(IMBALANCE)
    cluster.look(skew=EVEN)
    long_ago = cluster.kubernetes.now - timedelta(days=30)
    ids = tuple(staying_brokers(cluster.kubernetes.world()))
    cluster.write(replace(cluster.status, left_brokers=ids, finished_at=long_ago, runs=1))
    cluster.looks(10, seconds=60, skew=uneven(0, replicas=150))
    assert [one.spec.mode for one in cluster.created] == [RebalanceMode.FULL]

    cluster.ends(RebalanceState.READY)
    cluster.looks(100, seconds=60, skew=uneven(0, replicas=150))
    assert len(cluster.created) == 1, "what could not be evened out"
