"""What the operator tells Prometheus, read as Prometheus reads it."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from chiplog_core.ids import LeaderEpoch
from chiplog_core.model.actions import Replace
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.naming.labels import PAUSE
from chiplog_kube import kinds
from chiplog_kube.request_meter import NO_ANSWER, About
from chiplog_operator.caches import ClusterKey
from chiplog_operator.metrics import Metrics
from chiplog_operator.unclean_elections import UncleanElections

NAMESPACE, CLUSTER = "shop", "demo"
KEY = ClusterKey(NAMESPACE, CLUSTER)
OF_CLUSTER = f"cluster={CLUSTER},namespace={NAMESPACE}"
OF_PLAN = f"name={CLUSTER},namespace={NAMESPACE}"


def told(metrics: Metrics) -> dict[str, float]:
    """`name{labels}`, the labels by their names and without quotes, -> value."""
    found = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        for one in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(one.labels.items()))
            found[f"{one.name}{{{labels}}}"] = one.value
    return found


async def start(bench: Any) -> None:
    for kind, name in ((kinds.DEFINITIONS, "topics.chiplog.dev"), (kinds.NAMESPACES, NAMESPACE)):
        await bench.api.create(kind, {"metadata": {"name": name}}, field_manager="test")
    await bench.apply_cluster()
    await bench.apply_topic("orders", partitions=6)
    await bench.clock.advance(1)
    await bench.start_brokers()
    await bench.live(4.5)


def test_a_cluster_is_told_of_while_it_is_there(bench: Any) -> None:
    async def scenario() -> tuple[dict[str, float], dict[str, float]]:
        async with bench.running():
            await start(bench)
            before = told(bench.metrics)
            for kind in (kinds.TOPICS, kinds.BROKER_CLUSTERS, kinds.BROKERS, kinds.PARTITION_MAPS):
                for one in list(bench.api.all_of(kind)):
                    meta = one["metadata"]
                    patch: dict[str, Any] = {"metadata": {"finalizers": []}}
                    at = (kind, NAMESPACE, meta["name"])
                    await bench.api.patch(*at, patch, field_manager="test")
                    await bench.api.delete(*at)
            await bench.clock.advance(200)
            return before, told(bench.metrics)

    before, after = bench.run(scenario())
    assert before[f"kafka_controller_kafkacontroller_activecontrollercount{{{OF_CLUSTER}}}"] == 1
    assert before[f"chiplog_topic_ready{{{OF_CLUSTER},topic=orders}}"] == 1
    assert before[f"chiplog_brokercluster_ready{{{OF_CLUSTER}}}"] in {0, 1}
    assert before[f"chiplog_brokercluster_partitions_sharing_domain{{{OF_CLUSTER}}}"] == 0
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
    assert before[f"{unclean}{{{OF_CLUSTER}}}"] == 0
    assert before[f"chiplog_operator_actions_total{{action=Create,{OF_PLAN}}}"] >= 4
    assert f"chiplog_operator_plan_actions{{{OF_PLAN}}}" in before
    assert before["chiplog_operator_queue_length{}"] in {0, 1}
    assert 0 < before["chiplog_operator_queue_seconds_sum{}"] < 10
    assert before[f"chiplog_operator_resources{{kind=Topic,{OF_PLAN}}}"] == 1
    assert [one for one in after if CLUSTER in one] == []
    assert after["chiplog_operator_queue_length{}"] == 0


def test_readiness_is_that_of_the_objects_now(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            await bench.apply_topic("copy", topicName="orders")
            await bench.apply_topic("wrong", config={"retention.ms": "long"})
            await bench.clock.advance(1)
            found = told(bench.metrics)
            # Two Topics of one name: one of them is refused, and that is what is told.
            assert found[f"chiplog_topic_ready{{{OF_CLUSTER},topic=orders}}"] == 0
            assert found[f"chiplog_topic_ready{{{OF_CLUSTER},topic=wrong}}"] == 0
            await bench.api.delete(kinds.TOPICS, NAMESPACE, "copy")
            await bench.clock.advance(1)
            found = told(bench.metrics)
            assert found[f"chiplog_topic_ready{{{OF_CLUSTER},topic=orders}}"] == 1

    bench.run(scenario())


@pytest.mark.parametrize(
    ("max_lag", "status", "expected"),
    [
        ({"records": 10}, "True", 1),
        ({"records": 10}, "False", 0),
        ({"records": 10}, "Unknown", None),
        (None, "True", None),
    ],
)
def test_objectives_of_groups_that_have_one(
    bench: Any, max_lag: Any, status: str, expected: float | None
) -> None:
    condition = {"type": "LagWithinObjective", "status": status}
    bench.system()
    spec = {"clusterRef": {"name": CLUSTER}, "groupId": "Billing", "maxLag": max_lag}
    put(bench, kinds.CONSUMER_GROUPS, "billing", spec, {"conditions": [condition]})
    at = f"chiplog_consumergroup_lag_objective_met{{{OF_CLUSTER.split(',', maxsplit=1)[0]}"
    at += f",consumergroup=Billing,namespace={NAMESPACE}}}"
    assert told(bench.metrics).get(at) == expected


def test_a_rebalance_is_in_one_state(bench: Any) -> None:
    bench.system()
    spec = {"clusterRef": {"name": CLUSTER}}
    put(bench, kinds.REBALANCES, "even", spec, {"state": "ProposalReady"})
    put(bench, kinds.REBALANCES, "young", spec, {})
    found = told(bench.metrics)
    now = {
        one.split("name=")[1].split(",")[0]: one.split("state=")[1].rstrip("}")
        for one, value in found.items()
        if one.startswith("chiplog_rebalance_state") and value
    }
    assert now == {"even": "ProposalReady", "young": "New"}
    assert sum(one.startswith("chiplog_rebalance_state") for one in found) == 16


def put(bench: Any, kind: Any, name: str, spec: Any, status: Any) -> None:
    """Into the operator's caches, as a watch does."""
    manifest = {"metadata": {"namespace": NAMESPACE, "name": name}, "spec": spec, "status": status}
    bench.metrics.objects._caches[kind].put(manifest)


def test_unclean_elections_are_counted_once_and_not_those_of_the_past(bench: Any) -> None:
    async def scenario() -> PartitionMap:
        async with bench.running():
            await start(bench)
            return PartitionMap.from_manifest(bench.one(kinds.PARTITION_MAPS, "demo.orders"))

    first = bench.run(scenario())

    def elected(at: PartitionMap, *epochs: int) -> PartitionMap:
        (generation,) = at.spec.generations
        partitions = tuple(
            replace(one, unclean_epoch=LeaderEpoch(epochs[one.partition]))
            if one.partition < len(epochs)
            else one
            for one in generation.partitions
        )
        spec = replace(at.spec, generations=(replace(generation, partitions=partitions),))
        return replace(at, spec=spec)

    seen = UncleanElections()
    assert seen.count_new(elected(first, 3)) == 0, "it was before"
    assert seen.count_new(elected(first, 3, 5)) == 1
    assert seen.count_new(elected(first, 3, 5)) == 0
    assert seen.count_new(elected(first, 7, 8)) == 2
    seen.keep(set())
    assert seen.count_new(elected(first, 9, 9)) == 0, "another topic of this name"
    # The very write that elects is seen, and not again when it is observed.
    name = f"kafka_controller_controllerstats_uncleanleaderelections_total{{{OF_CLUSTER}}}"
    assert told(bench.metrics)[name] == 0
    bench.metrics.acted(KEY, Replace(resource=elected(first, 4)))
    assert told(bench.metrics)[name] == 1


def test_requests_to_the_api_server() -> None:
    metrics = Metrics()
    metrics.requests.answered(About("patch", "topics/status"), "409", 0.2)
    metrics.requests.answered(About("patch", "topics/status"), NO_ANSWER, 15.0)
    found = told(metrics)
    total = "chiplog_operator_api_requests_total"
    assert found[f"{total}{{code=409,resource=topics/status,verb=patch}}"] == 1
    assert found[f"{total}{{code=none,resource=topics/status,verb=patch}}"] == 1
    duration = "chiplog_operator_api_request_duration_seconds"
    assert found[f"{duration}_count{{verb=patch}}"] == 2
    assert found[f"{duration}_bucket{{le=0.25,verb=patch}}"] == 1


def test_a_paused_cluster_is_counted_as_paused(bench: Any) -> None:
    async def scenario() -> None:
        async with bench.running():
            await start(bench)
            patch = {"metadata": {"annotations": {PAUSE: "true"}}}
            at = (kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
            await bench.api.patch(*at, patch, field_manager="kubectl")
            await bench.clock.advance(1)

    bench.run(scenario())
    paused = f"chiplog_operator_resources_paused{{kind=BrokerCluster,{OF_PLAN}}}"
    assert told(bench.metrics)[paused] == 1
