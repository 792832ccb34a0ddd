"""A whole operator that resets groups and scales their consumers."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.group_exchange import (
    RESET_PATH,
    ResetAnswer,
    ResetRequest,
    request_from_body,
    to_body,
)
from chiplog_core.model.group_status import ResetOffset, ResetState
from chiplog_core.observed.processes import Identity
from chiplog_kube import kinds
from chiplog_operator.groups.loop import GroupPorts
from chiplog_operator.groups.port import Access
from tests.shell.test_groups import NAMESPACE, Brokers, Running

RESET = {"id": "one", "strategy": "to-earliest", "dryRun": False}


@dataclass
class ResettingBrokers(Brokers):
    """They run each id once, and go to offset 0."""

    resets: list[ResetRequest] = field(default_factory=list)
    done: dict[str, ResetAnswer] = field(default_factory=dict)

    async def ask(self, whom: Identity, access: Access, path: str, body: bytes) -> bytes:
        if path != RESET_PATH:
            return await super().ask(whom, access, path, body)
        asked = request_from_body(ResetRequest, body)
        self.resets.append(asked)
        if asked.reset.id not in self.done:
            before, self.committed[asked.group_id] = self.committed[asked.group_id], 0
            self.done[asked.reset.id] = ResetAnswer(
                group_id=asked.group_id,
                id=asked.reset.id,
                state=ResetState.DONE,
                offsets=(
                    ResetOffset(
                        topic="orders",
                        partition=PartitionIndex(0),
                        offset=before,
                        new_offset=Offset(0),
                    ),
                ),
            )
        return to_body(self.done[asked.reset.id])


@pytest.fixture
def it(bench: Any) -> Running:
    running = Running(bench)
    running.brokers = ResettingBrokers(bench)
    bench.groups = GroupPorts(port=running.brokers, figures_listener=running.metrics.groups)
    return running


def resets(it: Running) -> list[ResetRequest]:
    assert isinstance(it.brokers, ResettingBrokers)
    return it.brokers.resets


def events(it: Running, reason: str) -> list[str]:
    found = it.bench.api.all_of(kinds.EVENTS)
    return [one["message"] for one in found if one["reason"] == reason]


def condition(it: Running, kind: str) -> tuple[str, str]:
    for one in it.status()["conditions"]:
        if one["type"] == kind:
            return one["status"], one["reason"]
    return "", ""


def test_a_reset_runs_once_and_is_told_of(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"], it.brokers.end = 10, 10
        await it.apply(reset=RESET)
        await it.bench.clock.advance(5)
        told = it.status()["reset"]
        assert (told["id"], told["state"]) == ("one", "Done")
        assert told["offsets"] == [
            {"topic": "orders", "partition": 0, "offset": 10, "newOffset": 0}
        ]
        assert it.status()["totalLag"] == 10
        assert it.bench.ready(kinds.CONSUMER_GROUPS, "billing") == ("True", "Ready")
        (asked,) = resets(it)
        assert asked.positions[0].partitions[0].end_offset == 10
        it.brokers.committed["billing"] = 10
        await it.bench.api.delete(kinds.CONSUMER_GROUPS, NAMESPACE, "billing")
        await it.apply(reset=RESET)
        await it.bench.clock.advance(5)
        assert it.status()["reset"]["state"] == "Done"
        assert (len(resets(it)), it.brokers.committed["billing"]) == (2, 10)
        assert len(events(it, "OffsetsReset")) == 2, "of two objects"

    it.run(scenario)


def test_a_cluster_that_is_paused_resets_and_scales_nothing(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        it.brokers.committed["billing"] = 10
        pause = {"metadata": {"annotations": {"chiplog.dev/pause-reconciliation": "true"}}}
        await it.bench.api.patch(
            kinds.BROKER_CLUSTERS, NAMESPACE, "demo", pause, field_manager="kubectl"
        )
        await it.bench.clock.advance(1)
        await it.apply(reset=RESET)
        await it.bench.clock.advance(5)
        assert resets(it) == []

    it.run(scenario)


def test_a_deployment_has_no_more_pods_than_there_are_partitions(it: Running) -> None:
    async def scenario() -> None:
        await it.begin()
        deployment = {
            "metadata": {
                "name": "readers",
                "namespace": NAMESPACE,
                "annotations": {"chiplog.dev/scaled-by": "billing"},
            },
            "spec": {"replicas": 3},
        }
        it.brokers.committed["billing"], it.brokers.end = 0, 1_000
        scale = {"deploymentRef": {"name": "readers"}, "max": 5, "lagPerReplica": 100}
        await it.apply(scale=scale)
        await it.bench.clock.advance(1)
        assert condition(it, "Scaled") == ("False", "DeploymentNotFound")
        await it.bench.api.create(kinds.DEPLOYMENTS, deployment, field_manager="kubectl")
        await it.bench.clock.advance(6)
        assert condition(it, "Scaled") == ("True", "Scaled")
        assert it.bench.one(kinds.DEPLOYMENTS, "readers")["spec"]["replicas"] == 1
        what = "the maximum is 1: the group has no more partitions"
        assert events(it, "Scaled") == [f"Deployment readers is scaled from 3 to 1 pods: {what}"]
        await it.bench.clock.advance(60)
        assert it.bench.one(kinds.DEPLOYMENTS, "readers")["spec"]["replicas"] == 1

    it.run(scenario)


def test_a_group_is_reset_from_another_namespace_only_where_it_is_that_namespaces(
    it: Running,
) -> None:
    async def scenario() -> None:
        await it.begin(allowedTopicNamespaces=["*"])
        it.brokers.committed |= {"billing": 10, "team-a.readers": 10}
        for group_id in ("billing", "team-a.readers"):
            manifest = {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "ConsumerGroup",
                "metadata": {"namespace": "team-a", "name": group_id},
                "spec": {
                    "clusterRef": {"name": "demo", "namespace": NAMESPACE},
                    "reset": {**RESET, "id": group_id},
                },
            }
            await it.bench.api.create(kinds.CONSUMER_GROUPS, manifest, field_manager="kubectl")
        await it.bench.clock.advance(30)
        assert [one.group_id for one in resets(it)] == ["team-a.readers"]
        assert it.brokers.committed["billing"] == 10
        assert it.bench.ready(kinds.CONSUMER_GROUPS, "billing") == ("False", "NotAllowed")
        assert len(events(it, "NotAllowed")) == 1

    it.run(scenario)
