"""Deployments follow the lag of their groups, unless somebody else scales them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.durations import Duration
from chiplog_core.group_watch.lags import Lags
from chiplog_core.group_watch.watch import ObservedGroup
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.actions import Announce
from chiplog_core.model.conditions import ConditionStatus, Verdict
from chiplog_core.model.consumer_group import (
    ConsumerGroup,
    ConsumerGroupSpec,
    DeploymentRef,
    Scale,
)
from chiplog_core.model.group_exchange import GroupFacts, PartitionOffset, TopicOffsets
from chiplog_core.model.group_status import PartitionLag
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.model.references import ClusterRef
from chiplog_kube import kinds
from chiplog_kube.api import Conflict, Forbidden, Unavailable
from chiplog_operator.groups.scaling import INTERVAL_MS, Scaling
from chiplog_operator.writes import NotActive

NAMESPACE = "shop"


def group(name: str = "readers", *, created: int = 1, scales: bool = True) -> ConsumerGroup:
    scale = Scale(
        deployment_ref=DeploymentRef(name="readers"),
        max=5,
        lag_per_replica=100,
        cooldown=Duration("1m"),
    )
    return ConsumerGroup(
        metadata=Metadata(
            name=name,
            namespace=NAMESPACE,
            uid=f"uid-{name}",
            creation_timestamp=datetime(2026, 1, created, tzinfo=UTC),
        ),
        spec=ConsumerGroupSpec(
            cluster_ref=ClusterRef(name="demo"), scale=scale if scales else None
        ),
    )


def observed(
    of: ConsumerGroup, lag: int | None, partitions: int | None, *, is_heard: bool
) -> ObservedGroup:
    """What a look heard: a topic `orders`, all of the lag in its first partition."""
    committed = PartitionOffset(partition=PartitionIndex(0), committed_offset=0)
    topics = (TopicOffsets(topic="orders", partitions=(committed,)),) if partitions else ()
    here = PartitionLag(
        topic="orders",
        partition=PartitionIndex(0),
        committed_offset=0,
        end_offset=Offset(lag or 0),
        lag=lag or 0,
        lag_seconds=0,
    )
    return ObservedGroup(
        group=of,
        coordinator=BrokerId(1),
        facts=GroupFacts(group_id=of.group_id, topics=topics) if is_heard else None,
        lags=Lags(partitions=(here,)) if lag is not None else None,
        may_change=True,
    )


def topic_map(name: str, partitions: int) -> PartitionMapSpec:
    topic_id = TopicId(b"\1" * 16)
    return PartitionMapSpec(
        cluster="demo",
        topic_name=name,
        current=topic_id,
        min_isr=1,
        durability=Durability.FSYNC,
        generations=(
            Generation(
                topic_id=topic_id,
                partitions=tuple(
                    PartitionState(
                        partition=PartitionIndex(number),
                        replicas=(BrokerId(1),),
                        isr=(ReplicaRef(BrokerId(1), Session(1)),),
                        leader=ReplicaRef(BrokerId(1), Session(1)),
                        leader_epoch=LeaderEpoch(0),
                        partition_epoch=PartitionEpoch(0),
                    )
                    for number in range(partitions)
                ),
            ),
        ),
    )


class Shell:
    """Scaling on an API server in memory."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.events: list[Announce] = []
        self.scaling = Scaling(
            bench.api,
            clock=bench.clock,
            authority=bench.authority,
            events=self,
        )

    async def announce(self, event: Announce) -> None:
        self.events.append(event)

    async def deploy(self, replicas: int | None = 1, scaled_by: str | None = "readers") -> None:
        manifest = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "readers",
                "namespace": NAMESPACE,
                "annotations": {} if scaled_by is None else {"chiplog.dev/scaled-by": scaled_by},
            },
            "spec": {} if replicas is None else {"replicas": replicas},
        }
        await self.bench.api.create(kinds.DEPLOYMENTS, manifest, field_manager="user")

    async def annotate(self, scaled_by: str | None) -> None:
        patch = {"metadata": {"annotations": {"chiplog.dev/scaled-by": scaled_by}}}
        await self.bench.api.patch(
            kinds.DEPLOYMENTS, NAMESPACE, "readers", patch, field_manager="user"
        )

    async def autoscale(self, kind: str = "Deployment", name: str = "readers") -> None:
        manifest = {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "cpu", "namespace": NAMESPACE},
            "spec": {"scaleTargetRef": {"kind": kind, "name": name}},
        }
        await self.bench.api.create(kinds.AUTOSCALERS, manifest, field_manager="user")

    async def look(
        self,
        lag: int | None,
        partitions: int | None = 4,
        *,
        of: ConsumerGroup | None = None,
        is_heard: bool = True,
        after_ms: int = INTERVAL_MS,
    ) -> Verdict | None:
        await self.bench.clock.advance(after_ms / 1000)
        one = of or group()
        found = await self.scaling.reconcile(
            [observed(one, lag, partitions if is_heard else None, is_heard=is_heard)],
            lambda name: topic_map(name, partitions or 0) if name == "orders" else None,
        )
        return found.get(one.metadata.uid)

    async def replicas(self) -> int:
        found = await self.bench.api.get(kinds.DEPLOYMENTS, NAMESPACE, "readers")
        return int(found["spec"]["replicas"])


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


def test_from_one_to_many_and_back(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy()
        verdict = await shell.look(1_000)
        assert verdict is not None
        assert (verdict.type, verdict.status) == ("Scaled", ConditionStatus.TRUE)
        assert await shell.replicas() == 4, "never more than partitions"
        await shell.look(0)
        assert await shell.replicas() == 4
        await shell.look(0, after_ms=60_000)
        assert await shell.replicas() == 1
        assert [one.message for one in shell.events] == [
            "Deployment readers is scaled from 1 to 4 pods: a lag of 1000 records needs 4 pods",
            (
                "Deployment readers is scaled from 4 to 1 pods: the lag has needed no more than 1 "
                "pod for 1m"
            ),
        ]

    bench.run(scenario())


def test_it_looks_no_more_often_than_it_should(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy()
        first = await shell.look(0)
        assert await shell.look(1_000, after_ms=INTERVAL_MS - 1) == first
        assert await shell.replicas() == 1
        await shell.look(1_000, after_ms=1)
        assert await shell.replicas() == 4

    bench.run(scenario())


def test_an_unknown_lag_is_told_and_changes_nothing(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy(3)
        verdict = await shell.look(None)
        assert verdict is not None
        assert (verdict.status, verdict.reason) == (ConditionStatus.UNKNOWN, "LagUnknown")
        assert await shell.replicas() == 3

    bench.run(scenario())


def test_while_nothing_is_heard_of_the_group_nothing_is_looked_at(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy(0)
        assert await shell.look(None, None, is_heard=False) is None
        assert await shell.replicas() == 0
        first = await shell.look(None, None)
        assert await shell.replicas() == 1, "a group that nobody knows begins with one"
        assert await shell.look(None, None, is_heard=False) == first

    bench.run(scenario())


def test_a_missing_deployment_is_told_until_it_is_there(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        verdict = await shell.look(1_000)
        assert verdict is not None
        assert verdict.reason == "DeploymentNotFound"
        assert "there is no Deployment readers in namespace shop" in verdict.message
        await shell.deploy(None)
        verdict = await shell.look(1_000)
        assert verdict is not None
        assert verdict.status is ConditionStatus.TRUE
        assert await shell.replicas() == 4

    bench.run(scenario())


def test_what_an_autoscaler_scales_is_left_alone(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy()
        await shell.autoscale()
        verdict = await shell.look(1_000)
        assert verdict is not None
        assert verdict.reason == "ScaledByAnother"
        assert "HorizontalPodAutoscaler cpu scales Deployment readers too" in verdict.message
        assert await shell.replicas() == 1

    bench.run(scenario())


@pytest.mark.parametrize("target", [("StatefulSet", "readers"), ("Deployment", "writers")])
def test_an_autoscaler_of_something_else_is_in_nobodys_way(
    bench: Any, shell: Shell, target: tuple[str, str]
) -> None:
    async def scenario() -> None:
        await shell.deploy()
        await shell.autoscale(*target)
        await shell.look(1_000)
        assert await shell.replicas() == 4

    bench.run(scenario())


def test_a_cluster_without_autoscalers(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy()
        bench.api.missing_kinds.add(kinds.AUTOSCALERS.kind)
        await shell.look(1_000)
        assert await shell.replicas() == 4

    bench.run(scenario())


def test_of_two_groups_the_one_that_the_deployment_names_scales(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy(scaled_by="new")
        old, new = group("old", created=1), group("new", created=2)
        verdict = await shell.look(1_000, of=old)
        assert verdict is not None
        assert verdict.reason == "NotAgreed"
        assert await shell.replicas() == 1
        verdict = await shell.look(200, of=new)
        assert verdict is not None
        assert verdict.status is ConditionStatus.TRUE
        assert await shell.replicas() == 2

    bench.run(scenario())


@pytest.mark.parametrize("scaled_by", [None, "", "others", "readers,others"])
def test_a_deployment_that_has_not_agreed_is_left_alone(
    bench: Any, shell: Shell, scaled_by: str | None
) -> None:
    async def scenario() -> None:
        await shell.deploy(3, scaled_by=scaled_by)
        for _ in range(3):
            verdict = await shell.look(1_000)
            assert verdict is not None
            assert (verdict.status, verdict.reason) == (ConditionStatus.FALSE, "NotAgreed")
            assert "Deployment readers does not allow scaling" in verdict.message
            assert "chiplog.dev/scaled-by" in verdict.message
            assert "Set it to readers, or remove spec.scale" in verdict.message
            assert await shell.replicas() == 3
        assert [one.reason for one in shell.events] == ["NotAgreed"], "told once"
        # It is asked at each look: agreed to, it is scaled, and no longer once that is taken back.
        await shell.annotate("readers")
        await shell.look(1_000)
        assert await shell.replicas() == 4
        await shell.annotate(scaled_by)
        await shell.look(0, after_ms=120_000)
        await shell.look(0, after_ms=120_000)
        assert await shell.replicas() == 4

    bench.run(scenario())


def test_what_is_not_to_be_scaled_any_more_is_forgotten(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy()
        assert await shell.look(0) is not None
        assert await shell.look(1_000, of=group(scales=False)) is None
        assert await shell.replicas() == 1
        assert await shell.look(1_000) is not None

    bench.run(scenario())


@pytest.mark.parametrize("error", [Unavailable("later"), Conflict("changed")])
def test_what_cannot_be_written_is_tried_again(bench: Any, shell: Shell, error: Exception) -> None:
    async def scenario() -> None:
        await shell.deploy()

        bench.api.fault = lambda call: error if call.verb == "patch" else None
        await shell.look(1_000)
        bench.api.fault = lambda _: None
        assert await shell.replicas() == 1
        assert shell.events == []
        await shell.look(1_000)
        assert await shell.replicas() == 4

    bench.run(scenario())


def test_what_is_forbidden_is_told(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        bench.api.fault = lambda _: Forbidden("deployments.apps is forbidden")
        verdict = await shell.look(1_000)
        assert verdict is not None
        assert verdict.reason == "Forbidden"
        assert "deployments.apps is forbidden" in verdict.message

    bench.run(scenario())


def test_who_is_not_in_charge_writes_nothing(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await shell.deploy()
        bench.authority.held = False
        with pytest.raises(NotActive):
            await shell.look(1_000)
        assert await shell.replicas() == 1

    bench.run(scenario())
