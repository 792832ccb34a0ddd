"""A Rebalance as an API server keeps it, a shell that does what it is told, and maps that a planner
writes."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from chiplog_core.ids import BrokerId, LeaderEpoch, PartitionIndex
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import Rebalance, RebalanceSpec
from chiplog_core.model.rebalance_status import RebalanceState, RebalanceStatus
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.spark_result import Result, ResultState, failed
from chiplog_core.model.spark_run import RunState
from chiplog_core.naming import labels
from chiplog_core.rebalance.approval import MoveBasis
from chiplog_core.rebalance.documents import leader_move_json
from chiplog_core.rebalance.leaders import LeaderMove
from chiplog_core.rebalance.measured import Broker, PartitionName
from chiplog_core.spark.rebalance_steps import next_step
from chiplog_core.spark.rebalance_view import RebalanceView
from chiplog_core.spark.runs import ObservedRun
from chiplog_core.spark.steps import Launch, Remove, RemoveAnnotation
from chiplog_core.spark.topic_choice import WaitReason

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
BROKERS = (
    Broker(broker_id=ONE, rack="a", node="n"),
    Broker(broker_id=TWO),
    Broker(broker_id=THREE, is_usable=False),
)
ALL = frozenset({ONE, TWO, THREE})


def name(partition: int) -> PartitionName:
    return PartitionName("orders", PartitionIndex(partition))


def load(broker: int, leaders: int) -> dict[str, Any]:
    return {
        "broker": broker,
        "leaders": leaders,
        "bytesPerSecond": 100 * leaders,
        "recordsPerSecond": leaders,
        "replicas": 3,
        "bytes": 1_000,
    }


def measured(application: str, *moves: LeaderMove, **summary: Any) -> Result:
    """What the job answers; see `documents.proposal_json`."""
    told = {
        "leaderMoves": [leader_move_json(one) for one in moves],
        "reassignment": {"version": 1, "partitions": []},
        "figures": {"before": [load(1, 2), load(2, 0)], "after": [load(1, 1), load(2, 1)]},
        "hotKeys": [{"topic": "orders", "partition": 0, "key": "k", "share": 90, "records": 9}],
        "numLeaderMovements": len(moves),
        "onDemandBalancednessScoreBefore": 40,
        "onDemandBalancednessScoreAfter": 97,
        "skew": [{"topic": "orders", "bytes": 1.25}],
        **summary,
    }
    return Result(
        application=application, state=ResultState.SUCCEEDED, reason="Measured", summary=told
    )


class World:
    """One Rebalance and all around it."""

    def __init__(self, partitions: int = 2, **spec: Any) -> None:
        self.now = NOW
        self.rebalance = Rebalance(
            metadata=Metadata(
                name="even", namespace="apps", uid="u1", generation=1, creation_timestamp=NOW
            ),
            spec=RebalanceSpec(cluster_ref=ClusterRef(name="demo"), **spec),
        )
        self.there: dict[str, ObservedRun] = {}
        self.jobs: list[dict[str, Any]] = []
        self.removed: list[str] = []
        self.told: list[str] = []
        self.view: dict[str, Any] = {}
        self.maps = {
            name(one): MoveBasis(
                replicas=(ONE, TWO, THREE),
                target=(ONE, TWO, THREE),
                isr=ALL,
                leader=ONE,
                leader_epoch=LeaderEpoch(7),
            )
            for one in range(partitions)
        }

    @property
    def status(self) -> RebalanceStatus:
        return self.rebalance.status

    @property
    def state(self) -> str:
        return "" if self.status.state is None else self.status.state.value

    @property
    def name(self) -> str:
        assert self.status.application is not None
        return self.status.application.name

    @property
    def annotation(self) -> str | None:
        return self.rebalance.metadata.annotations.get(labels.REBALANCE)

    def ready(self) -> tuple[str, str]:
        (found,) = [one for one in self.status.conditions if one.type == "Ready"]
        return found.status.value, found.reason

    def message(self) -> str:
        (found,) = [one for one in self.status.conditions if one.type == "Ready"]
        return found.message

    def seen(self) -> ObservedRun | None:
        application = self.status.application
        if application is None:
            return None
        return self.there.get(application.name, ObservedRun(state=RunState.GONE))

    def look(self, seconds: int = 0, *, dies: str = "", **view: Any) -> None:
        """`dies`: the operator does, before the "status" is written, or before its "actions"."""
        self.now += timedelta(seconds=seconds)
        given = {
            "topics": ["orders"],
            "brokers": BROKERS,
            "seen": self.seen(),
            "move_bases": dict(self.maps),
            **self.view,
            **view,
        }
        step = next_step(RebalanceView(rebalance=self.rebalance, **given), self.now)
        if dies == "actions":
            return
        for action in step.actions:
            if isinstance(action, Launch) and action.name not in self.there:
                self.jobs.append(dict(action.job))
                self.there[action.name] = ObservedRun(state=RunState.PENDING, kind="Job")
            if isinstance(action, Remove):
                self.removed.append(action.name)
                self.there.pop(action.name, None)
            if isinstance(action, RemoveAnnotation):
                self.annotate(None)
        if dies == "status":
            return
        self.told += [one.reason for one in step.events]
        self.rebalance = replace(self.rebalance, status=step.status)
        read_back = Rebalance.from_manifest(self.rebalance.to_manifest())
        assert read_back.status == step.status, "a status that does not read"

    def annotate(self, value: str | None) -> None:
        about = self.rebalance.metadata
        kept = {one: text for one, text in about.annotations.items() if one != labels.REBALANCE}
        if value is not None:
            kept[labels.REBALANCE] = value
        self.rebalance = replace(self.rebalance, metadata=replace(about, annotations=kept))

    def pause(self, *, is_paused: bool) -> None:
        about = self.rebalance.metadata
        kept = {one: text for one, text in about.annotations.items() if one != labels.PAUSE}
        if is_paused:
            kept[labels.PAUSE] = "true"
        self.rebalance = replace(self.rebalance, metadata=replace(about, annotations=kept))

    def say(self, value: str) -> None:
        """Annotate, and let the operator look until it was heard."""
        self.annotate(value)
        self.look()
        self.look()
        assert self.annotation is None
        assert self.status.answered == ""

    def moves(self, *partitions: int) -> tuple[LeaderMove, ...]:
        """To broker 2, for the state there is."""
        return tuple(
            LeaderMove(
                name=name(one),
                from_broker=ONE,
                to_broker=TWO,
                replicas=(TWO, ONE, THREE),
                expected_replicas=self.maps[name(one)].replicas,
                leader_epoch=self.maps[name(one)].leader_epoch,
            )
            for one in partitions
        )

    def answer(self, *partitions: int, **summary: Any) -> None:
        """What the job writes before it ends."""
        result = measured(self.name, *self.moves(*partitions), **summary)
        self.there[self.name] = ObservedRun(state=RunState.SUCCEEDED, kind="Job", result=result)
        self.look(seconds=20)

    def propose(self, *partitions: int, **summary: Any) -> None:
        """Measured, and the proposal is there."""
        self.look()
        self.look()
        self.answer(*partitions, **summary)

    def carry_out(self, partition: int) -> None:
        """What the planner does with an order."""
        was = self.maps[name(partition)]
        self.maps[name(partition)] = replace(
            was,
            replicas=(TWO, ONE, THREE),
            target=(TWO, ONE, THREE),
            leader=TWO,
            leader_epoch=LeaderEpoch(was.leader_epoch + 1),
        )

    def change(self, **spec: Any) -> None:
        about = self.rebalance.metadata
        self.rebalance = replace(
            self.rebalance,
            metadata=replace(about, generation=about.generation + 1),
            spec=replace(self.rebalance.spec, **spec),
        )


def in_state(state: RebalanceState) -> World:
    world = World()
    match state:
        case RebalanceState.NEW:
            world.view["wait_reason"] = WaitReason("ClusterNotFound", "there is none")
            world.look()
        case RebalanceState.PENDING_PROPOSAL:
            world.look()
        case RebalanceState.NOT_READY:
            world.look()
            world.look()
            told = failed(world.name, "NotAuthorized", "no")
            world.there[world.name] = ObservedRun(state=RunState.SUCCEEDED, result=told)
            world.look()
        case _:
            world.propose(0)
    if state in {RebalanceState.REBALANCING, RebalanceState.STOPPED, RebalanceState.READY}:
        world.say("approve")
    if state is RebalanceState.READY:
        world.carry_out(0)
        world.look()
    if state is RebalanceState.STOPPED:
        world.say("stop")
    assert world.status.state is state
    return world
