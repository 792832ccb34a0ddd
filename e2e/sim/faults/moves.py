"""Replicas move during the faults: reassigned by a tool, by another number, off a broker that goes.

Users change the specs of Topics and of the cluster; a tool sends AlterPartitionReassignments.
"""

import asyncio
import random
from collections.abc import Mapping
from typing import Any, Final

from chiplog_core.model.partition_map import PartitionState
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from chiplog_wire.protocol.apis import ApiKey
from e2e.sim.faults.admins import TIMEOUT_MS, as_client, send
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.faults.users import MOST_BROKERS, topic_names
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.maps import states_in
from e2e.sim.wire import TopicPartition, Wire

MOST_REPLICAS: Final = 3
CANCELLED_SHARE: Final = 0.3


async def reassign(stage: Stage) -> None:
    """Let a tool move some partitions to other brokers; sometimes it cancels that soon after."""
    stage.world.has_changed_brokers = True
    await as_client(stage, lambda wire, chance: _reassign(stage, wire, chance))


async def _reassign(stage: Stage, wire: Wire, chance: random.Random) -> None:
    found = list(states_in(stage.world.store))
    if not found:
        return
    chosen = chance.sample(found, min(len(found), chance.randint(1, 3)))
    targets = {one: _target(stage, state, chance) for one, state in chosen}
    await alter(stage, wire, chance, targets)
    if chance.random() < CANCELLED_SHARE:
        await asyncio.sleep(chance.choice((0.0, 0.3, 2.0, 10.0)))
        await alter(stage, wire, chance, dict.fromkeys(targets))


def _target(stage: Stage, state: PartitionState, chance: random.Random) -> list[int]:
    """As many brokers as the partition has; they need not be alive."""
    brokers = sorted(stage.world.nodes)
    return chance.sample(brokers, min(len(state.target), len(brokers)))


async def alter(
    stage: Stage,
    wire: Wire,
    chance: random.Random,
    targets: Mapping[TopicPartition, list[int] | None],
) -> None:
    """Send an AlterPartitionReassignments; None cancels."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for one, replicas in targets.items():
        if replicas is not None and stage.world.upkeep_watch is not None:
            stage.world.upkeep_watch.asked.add((str(one), tuple(replicas)))
        partition = {"partition_index": one.number, "replicas": replicas}
        topics.setdefault(one.topic, []).append(partition)
    values = {
        "timeout": TIMEOUT_MS,
        "topics": [{"name": name, "partitions": parts} for name, parts in topics.items()],
    }
    await send(stage, wire, chance, ApiKey.ALTER_PARTITION_REASSIGNMENTS, values)
    await send(stage, wire, chance, ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None})


async def change_replicas(stage: Stage) -> None:
    """Change the number of a topic's replicas, for a while or for good, but never below that with
    which the run began: what fewer disks may lose, the checkers would have to expect."""
    world, chance = stage.world, stage.chance
    names = topic_names(stage)
    most = min(MOST_REPLICAS, broker_count(stage))
    if not names or most <= stage.mix.replicas:
        return
    name = chance.choice(names)
    world.has_changed_brokers = True
    set_replicas(stage, name, chance.randint(stage.mix.replicas + 1, most))
    await asyncio.sleep(chance.uniform(0.2, 30.0))
    if chance.random() < 0.5 and world.store.find(kinds.TOPICS, NAMESPACE, name) is not None:
        set_replicas(stage, name, stage.mix.replicas)


async def remove_broker(stage: Stage) -> None:
    """Ask for one broker less, unless a topic has more replicas than would be left; sometimes the
    user wants it back before it is gone, or after."""
    world, chance = stage.world, stage.chance
    if not can_remove(stage):
        return
    world.has_changed_brokers = True
    scale(stage, broker_count(stage) - 1)
    await asyncio.sleep(chance.choice((0.2, 2.0, 10.0, 40.0)))
    if chance.random() < 0.6 and broker_count(stage) < MOST_BROKERS:
        scale(stage, broker_count(stage) + 1)


def can_remove(stage: Stage) -> bool:
    """Whether there are enough brokers for all topics without one of them."""
    topics = stage.world.store.all_of(kinds.TOPICS)
    most_replicas = max((one["spec"].get("replicas", 1) for one in topics), default=1)
    return broker_count(stage) - 1 >= max(stage.mix.replicas, most_replicas, 2)


def broker_count(stage: Stage) -> int:
    """The number of brokers that the cluster's spec asks for."""
    cluster = stage.world.store.get(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
    return int(cluster["spec"]["replicas"])


def scale(stage: Stage, brokers: int) -> None:
    """Ask for this many brokers; machines for new ones are added as soon as these exist."""
    key = ObjectKey(NAMESPACE, CLUSTER)
    stage.world.store.patch(kinds.BROKER_CLUSTERS, key, {"spec": {"replicas": brokers}})
    stage.world.add_nodes_as_needed()


def set_replicas(stage: Stage, name: str, replicas: int) -> None:
    """Set the number of replicas of a Topic."""
    key = ObjectKey(NAMESPACE, name)
    stage.world.store.patch(kinds.TOPICS, key, {"spec": {"replicas": replicas}})


ACTS: Final[dict[str, Act]] = {
    "partitions reassigned": reassign,
    "replicas changed": change_replicas,
    "broker removed": remove_broker,
}
OF_SPECS: Final = ("replicas changed", "broker removed")
"""Those that change the spec of a Topic or of the cluster."""
