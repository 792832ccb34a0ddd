"""A bug in the planner does not become a PartitionMap."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from chiplog_core.ids import ReplicaRef, TopicId
from chiplog_core.model.actions import Action, Plan, Replace
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.observed.world import World
from chiplog_core.planner.plan import plan
from chiplog_kube import kinds

MAP = "demo.orders"
NO_PODS = "BrokersNotReady"
"""What the cluster says of itself on this bench where all else is in order."""
REFUSED = "chiplog_operator_map_writes_refused_total"


class NextLeaderOutsideIsr:
    """A planner with a bug, until a test mends it."""

    def __init__(self) -> None:
        self.is_mended = False

    def __call__(self, world: World, now: datetime, new_id: Callable[[], TopicId]) -> Plan:
        made = plan(world, now, new_id)
        if self.is_mended:
            return made
        return replace(made, actions=tuple(map(_with_wrong_leader, made.actions)))


def _with_wrong_leader(action: Action) -> Action:
    if not isinstance(action, Replace) or not isinstance(action.resource, PartitionMap):
        return action
    spec = action.resource.spec
    (generation,) = spec.generations
    first = replace(generation.partitions[0], leader=ReplicaRef.from_text("9@9"))
    wrong = replace(generation, partitions=(first, *generation.partitions[1:]))
    resource = replace(action.resource, spec=replace(spec, generations=(wrong,)))
    return replace(action, resource=resource)


def ready_message(bench: Any) -> str:
    conditions = bench.one(kinds.BROKER_CLUSTERS, "demo")["status"]["conditions"]
    return str(next(one["message"] for one in conditions if one["type"] == "Ready"))


def refused_total(bench: Any) -> float:
    labels = {"namespace": "shop", "name": "demo"}
    return float(bench.metrics.registry.get_sample_value(REFUSED, labels))


def test_it_is_refused_and_the_last_map_stays_in_force(
    bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bench.planner = planner = NextLeaderOutsideIsr()
    planner.is_mended = True

    async def scenario() -> None:
        await bench.apply_cluster()
        await bench.apply_topic("orders", replicas=3)
        async with bench.running():
            await bench.start_brokers()
            await bench.live(20)
            assert bench.ready(kinds.BROKER_CLUSTERS, "demo")[1] == NO_PODS
            assert refused_total(bench) == 0
            before = bench.one(kinds.PARTITION_MAPS, MAP)["spec"]
            planner.is_mended = False
            with caplog.at_level(logging.CRITICAL, logger="chiplog_operator.execute"):
                await bench.live(12, without=(1,))
            assert bench.one(kinds.PARTITION_MAPS, MAP)["spec"] == before
            assert bench.ready(kinds.BROKER_CLUSTERS, "demo") == ("False", "MapWriteRefused")
            said = "PartitionMap of topic orders is not written: partition 0: the leader 9@9 is not"
            assert said in ready_message(bench)
            assert 1 <= refused_total(bench) == len(caplog.records)
            planner.is_mended = True
            await bench.live(20, without=(1,))
            assert bench.ready(kinds.BROKER_CLUSTERS, "demo")[1] == NO_PODS
            assert bench.one(kinds.PARTITION_MAPS, MAP)["spec"] != before

    bench.run(scenario())
    assert {one.getMessage() for one in caplog.records} == {"map_write_refused"}
