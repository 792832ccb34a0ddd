"""Changes by users during the faults: they create, delete and extend topics and change clusters.

They write directly to the API server's store, as users who repeat each request until it succeeds.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults import api_server, clocks, network
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE

CHANGES: Final = (
    ("retention.bytes", "4000"),
    ("retention.bytes", "20000"),
    ("retention.ms", "15000"),
    ("retention.ms", str(3 * 24 * 3600 * 1000)),
    ("segment.index.bytes", "48"),
    ("segment.index.bytes", "600"),
    ("segment.ms", "2000"),
    ("segment.ms", "30000"),
    ("index.interval.bytes", "500"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "delete"),
    ("delete.retention.ms", "5000"),
    ("flush.messages", "3"),
    ("chiplog.durability", "PageCache"),
)
"""Settings of topics that users change, with their values."""
FOR_GOOD_SHARE: Final = 0.3
"""Share of changed settings that are not reverted."""
ONLY_FOR_GOOD: Final = frozenset({"cleanup.policy"})
LOSES_NO_CACHE: Final = frozenset(
    {
        "broker killed",
        "pod deleted",
        "operator killed",
        "operator paused",
        "broker paused",
        *clocks.ACTS,
        *clocks.LATER,
        *network.ACTS,
        *api_server.ACTS,
        "topic created",
        "topic deleted",
        "topic grown",
        "retention shortened",
        "broker added",
        "rolling restart",
        "settings changed",
    }
)
"""Faults after which every page cache still holds all written records."""
NEEDED: Final[dict[str, Callable[[Stage], bool]]] = {
    "chiplog.durability": lambda stage: stage.mix.weights.keys() <= LOSES_NO_CACHE,
    # A compacted topic refuses records without keys.
    "cleanup.policy": lambda stage: stage.mix.habits.keys > 0,
}
"""Setting -> whether it may be changed in this mix. Otherwise acknowledged records may be lost
rightly, or all records are refused."""
LONGEST_S: Final = 40.0
MISTAKE: Final = "mistake-"
"""Prefix of the names of Topics that are refused, and soon deleted."""
MOST_TOPICS: Final = 4
MOST_PARTITIONS: Final = 6
MOST_BROKERS: Final = 5
SHORT_RETENTION_MS: Final = 8_000
CLUSTER_CONFIG: Final = {"log.retention.check.interval.ms": 5_000}
"""For mixes with a short retention: brokers look for expired segments every five seconds."""


async def create_topic(stage: Stage) -> None:
    """Create one more topic, unless there are many, and let clients use it."""
    name = f"more-{stage.world.store.version}"
    if len(topic_names(stage)) < MOST_TOPICS:
        _apply_topic(stage, name)
        await use_new_partitions_soon(stage)


async def delete_topic(stage: Stage) -> None:
    """Delete a topic and create it again under the same name, immediately or a little later."""
    world, chance = stage.world, stage.chance
    if (name := _some_topic(stage)) is None:
        return
    if world.store.find(kinds.TOPICS, NAMESPACE, name)["metadata"].get("deletionTimestamp"):  # type: ignore[index]
        return
    world.expect_deletion(name)
    world.store.delete(kinds.TOPICS, ObjectKey(NAMESPACE, name))
    try:
        await _until_gone(stage, name)
        await asyncio.sleep(chance.choice((0.0, 0.5, 5.0)))
    finally:
        # If this act is cancelled here, `World.heal` creates the topic.
        world.wanted_topics.add(name)
    if world.store.find(kinds.TOPICS, NAMESPACE, name) is None:
        world.wanted_topics.discard(name)
        _apply_topic(stage, name)
        await use_new_partitions_soon(stage)


async def grow_topic(stage: Stage) -> None:
    """Add one or two partitions to a topic, and let clients use them."""
    store = stage.world.store
    if (name := _some_topic(stage)) is None:
        return
    topic = store.get(kinds.TOPICS, NAMESPACE, name)
    count = topic["spec"]["partitions"]
    if count < MOST_PARTITIONS:
        _patch(stage, name, {"partitions": count + stage.chance.randint(1, 2)})
        await use_new_partitions_soon(stage)


async def shorten_retention(stage: Stage) -> None:
    """Set a retention of some seconds for a while, with segments that end every few seconds."""
    if (name := _some_topic(stage)) is None:
        return
    short = {"retention.ms": SHORT_RETENTION_MS, "segment.ms": 3_000}
    _patch(stage, name, {"config": short})
    try:
        await asyncio.sleep(stage.chance.uniform(5.0, 30.0))
    finally:
        if stage.world.store.find(kinds.TOPICS, NAMESPACE, name) is not None:
            _patch(stage, name, {"config": dict.fromkeys(short)})


async def change_settings(stage: Stage) -> None:
    """Change some of a topic's log settings, for a while or for good."""
    if (name := _some_topic(stage)) is None:
        return
    key, value = stage.chance.choice(CHANGES)
    if key in NEEDED and not NEEDED[key](stage):
        return
    _patch(stage, name, {"config": {key: value}})
    await asyncio.sleep(stage.chance.uniform(3.0, 40.0))
    if stage.chance.random() < FOR_GOOD_SHARE or key in ONLY_FOR_GOOD:
        return
    if stage.world.store.find(kinds.TOPICS, NAMESPACE, name) is not None:
        _patch(stage, name, {"config": {key: stage.world.config_of(name).get(key)}})


async def add_broker(stage: Stage) -> None:
    """Add a machine, and one broker more to the cluster's spec, unless there are many."""
    world = stage.world
    if len(world.nodes) < MOST_BROKERS:
        world.add_node()
        world.has_changed_brokers = True
        spec = {"spec": {"replicas": len(world.nodes)}}
        world.store.patch(kinds.BROKER_CLUSTERS, ObjectKey(NAMESPACE, CLUSTER), spec)


async def roll(stage: Stage) -> None:
    """Change the pods' annotations, for which the operator restarts one broker after the other."""
    stage.world.has_changed_brokers = True
    annotation = {"example.com/change": str(stage.world.store.version)}
    spec = {"spec": {"template": {"annotations": annotation}}}
    stage.world.store.patch(kinds.BROKER_CLUSTERS, ObjectKey(NAMESPACE, CLUSTER), spec)


def topic_names(stage: Stage) -> list[str]:
    """Names of all Topics that are valid, or that a user could correct."""
    metas = [one["metadata"] for one in stage.world.store.all_of(kinds.TOPICS)]
    return [one["name"] for one in metas if not one["name"].startswith(MISTAKE)]


def _some_topic(stage: Stage) -> str | None:
    """The name of a random Topic; None while the only one is deleted and not created again."""
    names = topic_names(stage)
    return stage.chance.choice(names) if names else None


def _apply_topic(stage: Stage, name: str) -> None:
    stage.world.make_topic(name, stage.chance.randint(1, 3))


def _patch(stage: Stage, name: str, spec: dict[str, Any]) -> None:
    stage.world.store.patch(kinds.TOPICS, ObjectKey(NAMESPACE, name), {"spec": spec})


async def _until_gone(stage: Stage, name: str) -> None:
    """Wait until the Topic is gone, but no longer than `LONGEST_S`."""
    until_s = stage.world.loop.time() + LONGEST_S
    while stage.world.store.find(kinds.TOPICS, NAMESPACE, name) is not None:
        if stage.world.loop.time() > until_s:
            return
        await asyncio.sleep(0.25)


async def use_new_partitions_soon(stage: Stage) -> None:
    """For ten seconds, let clients use new partitions as soon as there are any."""
    for _ in range(20):
        await asyncio.sleep(0.5)
        stage.world.use_new_partitions()


ACTS: Final[dict[str, Act]] = {
    "topic created": create_topic,
    "topic deleted": delete_topic,
    "topic grown": grow_topic,
    "retention shortened": shorten_retention,
    "broker added": add_broker,
    "rolling restart": roll,
}
LATER: Final[dict[str, Act]] = {"settings changed": change_settings}
"""Changes that only seeds from `FIRST_LATER` on draw."""
