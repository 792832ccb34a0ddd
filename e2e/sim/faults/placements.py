"""Users place partitions by hand while replicas move: `spec.assignments`, `initialAssignments`."""

import asyncio
from typing import Any, Final

from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from e2e.sim.faults.move_steps import place_all, serving, users_partitions
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.faults.users import MOST_TOPICS, topic_names, use_new_partitions_soon
from e2e.sim.kubelet import NAMESPACE

KEPT_SHARE: Final = 0.6


async def place(stage: Stage) -> None:
    """Place some partitions of a topic; often place them elsewhere soon after, or nowhere."""
    world, chance = stage.world, stage.chance
    names = sorted({one.topic for one, _ in users_partitions(stage)})
    if not names or not serving(stage):
        return
    world.has_changed_brokers = True
    name = chance.choice(names)
    for _ in range(chance.choice((1, 1, 2, 3))):
        if world.store.find(kinds.TOPICS, NAMESPACE, name) is None:
            return
        place_all(stage, name, _entries(stage, name))
        await asyncio.sleep(chance.choice((0.1, 1.0, 5.0, 15.0)) * chance.random())
    is_there = world.store.find(kinds.TOPICS, NAMESPACE, name) is not None
    if chance.random() > KEPT_SHARE and is_there:
        place_all(stage, name, None)


def _entries(stage: Stage, name: str) -> list[dict[str, Any]]:
    """Random brokers for some partitions, as many as they are to have."""
    chance, able = stage.chance, serving(stage)
    topic = stage.world.store.get(kinds.TOPICS, NAMESPACE, name)
    count = topic["spec"].get("replicas", 1)
    if count > len(able):
        return []
    found = [one.number for one, _ in users_partitions(stage) if one.topic == name]
    chosen = sorted(chance.sample(found, chance.randint(1, len(found)))) if found else []
    return [{"partition": one, "replicas": chance.sample(able, count)} for one in chosen]


async def create_placed(stage: Stage) -> None:
    """Create a topic whose partitions are to be created on certain brokers."""
    world, chance, able = stage.world, stage.chance, serving(stage)
    name, count = f"placed-{world.store.version}", stage.mix.replicas
    if len(topic_names(stage)) >= MOST_TOPICS or len(able) < count:
        return
    partitions = chance.randint(1, 3)
    entries = [
        {"partition": one, "replicas": chance.sample(able, count)}
        for one in range(chance.randint(1, partitions))
    ]
    spec = {**world.topic_defaults, "config": world.config_of(name), "initialAssignments": entries}
    world.apply_topic(name, partitions, **spec)
    await use_new_partitions_soon(stage)


def give_up_impossible(stage: Stage) -> None:
    """Remove the placements that cannot be carried out any more, and those that keep a broker which
    is to be removed: the operator waits for their users."""
    able = serving(stage)
    cluster_is_shrinking = stage.world.wants_fewer_brokers()
    for topic in stage.world.store.all_of(kinds.TOPICS):
        spec = topic["spec"]
        entries = spec.get("assignments") or []
        is_possible = all(
            set(one["replicas"]) <= set(able) and len(one["replicas"]) == spec.get("replicas", 1)
            for one in entries
        )
        if spec.get("initialAssignments"):
            # A topic that is not created yet waits if the number of its replicas was changed.
            patch = {"spec": {"initialAssignments": None}}
            key = ObjectKey(NAMESPACE, topic["metadata"]["name"])
            stage.world.store.patch(kinds.TOPICS, key, patch)
        if entries and (cluster_is_shrinking or not is_possible):
            place_all(stage, topic["metadata"]["name"], None)


OF_SPECS: Final[dict[str, Act]] = {
    "partitions placed": place,
    "topic created as placed": create_placed,
}
