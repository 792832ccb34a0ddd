"""Replication is throttled while replicas move: by the cluster's spec, or by Kafka's own keys.

The limits change while moves run. At the end of the faults all of them are raised: then every move
must end.
"""

import asyncio
import random
from typing import Any, Final

from chiplog_core.config.broker_keys import FOLLOWER_THROTTLED_RATE, LEADER_THROTTLED_RATE
from chiplog_core.config.topic_keys import FOLLOWER_THROTTLED_REPLICAS, LEADER_THROTTLED_REPLICAS
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey
from chiplog_wire.protocol.apis import ApiKey
from e2e.sim.faults.admins import BROKER, DELETE, SET, TOPIC, as_client, send
from e2e.sim.faults.move_steps import serving, users_partitions
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.wire import Wire

LOW_RATES: Final = (1, 1, 1, 30, 300, 3_000)
"""In bytes per second. A batch has some hundred bytes."""
HIGH_RATE: Final = 1_000_000_000
RATES: Final = (LEADER_THROTTLED_RATE.name, FOLLOWER_THROTTLED_RATE.name)
LISTS: Final = (LEADER_THROTTLED_REPLICAS.name, FOLLOWER_THROTTLED_REPLICAS.name)
TRIES: Final = 40


async def limit_moves(stage: Stage) -> None:
    """Set `spec.replicationThrottle`, change it once or twice, and remove it again."""
    chance = stage.chance
    stage.world.has_changed_brokers = True
    for _ in range(chance.randint(1, 3)):
        _set_throttle(stage, chance.choice(LOW_RATES))
        await asyncio.sleep(chance.uniform(1.0, 15.0))
    _set_throttle(stage, chance.choice((None, None, HIGH_RATE)))


def _set_throttle(stage: Stage, rate: int | None) -> None:
    key = ObjectKey(NAMESPACE, CLUSTER)
    stage.world.store.patch(kinds.BROKER_CLUSTERS, key, {"spec": {"replicationThrottle": rate}})


async def limit_replicas(stage: Stage) -> None:
    """Throttle as Kafka's tools do: rates of brokers and lists of topics' replicas. Change the
    rates, and often remove all of it again."""
    stage.world.has_changed_brokers = True
    await as_client(stage, lambda wire, chance: _limit_replicas(stage, wire, chance))


async def _limit_replicas(stage: Stage, wire: Wire, chance: random.Random) -> None:
    lists = _lists(stage, chance)
    await _alter(stage, wire, chance, lists + _rates(stage, chance.choice(LOW_RATES)))
    for _ in range(chance.randint(0, 2)):
        await asyncio.sleep(chance.uniform(1.0, 12.0))
        await _alter(stage, wire, chance, _rates(stage, chance.choice(LOW_RATES)))
    await asyncio.sleep(chance.uniform(1.0, 12.0))
    if chance.random() < 0.6:
        removed = [_resource(TOPIC, name, dict.fromkeys(LISTS)) for name in _topics(stage)]
        await _alter(stage, wire, chance, removed + _rates(stage, None))


def _lists(stage: Stage, chance: random.Random) -> list[dict[str, Any]]:
    """The throttled replicas of each topic: all, or some brokers' replicas of each partition."""
    found = []
    for name in _topics(stage):
        brokers = chance.sample(sorted(stage.world.nodes), max(len(stage.world.nodes) // 2, 1))
        partitions = [one.number for one, _ in users_partitions(stage) if one.topic == name]
        listed = ",".join(f"{number}:{broker}" for number in partitions for broker in brokers)
        value = chance.choice(("*", "*", listed))
        found.append(_resource(TOPIC, name, dict.fromkeys(LISTS, value)))
    return found


def _topics(stage: Stage) -> list[str]:
    return sorted({one.topic for one, _ in users_partitions(stage)})


def _rates(stage: Stage, rate: int | None) -> list[dict[str, Any]]:
    """Both rates of every broker that serves; None removes them."""
    return [_rate(one, rate) for one in serving(stage)]


def _rate(broker_id: int, rate: int | None) -> dict[str, Any]:
    """Both rates of a broker."""
    value = None if rate is None else str(rate)
    return _resource(BROKER, str(broker_id), dict.fromkeys(RATES, value))


def _resource(kind: int, name: str, values: dict[str, str | None]) -> dict[str, Any]:
    """A resource of an IncrementalAlterConfigs; None removes a key."""
    configs = [
        {"name": key, "value": value, "config_operation": DELETE if value is None else SET}
        for key, value in values.items()
    ]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


async def _alter(
    stage: Stage, wire: Wire, chance: random.Random, resources: list[dict[str, Any]]
) -> bool:
    """Send the changes, those of a broker to itself; returns whether all of them were made."""
    made = True
    for one in resources:
        is_broker = one["resource_type"] == BROKER
        host = stage.world.nodes[int(one["resource_name"])].host if is_broker else ""
        values = {"resources": [one], "validate_only": False}
        key = ApiKey.INCREMENTAL_ALTER_CONFIGS
        answer = await send(stage, wire, chance, key, values, host)
        made &= answer is not None and not any(result.error_code for result in answer.responses)
    return made


def raise_limits(stage: Stage) -> None:
    """Raise all limits: the moves that they held back must end now. In the end Kafka's rates are
    high, or are removed."""
    cluster = stage.world.store.get(kinds.BROKER_CLUSTERS, NAMESPACE, CLUSTER)
    if "replicationThrottle" in cluster["spec"]:
        _set_throttle(stage, stage.chance.choice((None, HIGH_RATE)))
    for one in stage.world.store.all_of(kinds.REBALANCES):
        if "replicationThrottle" in one["spec"]:
            key = ObjectKey(NAMESPACE, one["metadata"]["name"])
            patch = {"spec": {"replicationThrottle": stage.chance.choice((None, HIGH_RATE))}}
            stage.world.store.patch(kinds.REBALANCES, key, patch)
    rate = stage.chance.choice((None, HIGH_RATE))

    async def work(wire: Wire, chance: random.Random) -> None:
        for _ in range(TRIES):
            await _alter(stage, wire, chance, [_rate(one, rate) for one in _limited(stage)])
            await asyncio.sleep(1.0)

    stage.world.keep(as_client(stage, work))


def _limited(stage: Stage) -> list[int]:
    """The brokers with a low rate, whether they run now or not."""
    specs = [one["spec"] for one in stage.world.store.all_of(kinds.BROKERS)]
    return [
        spec["brokerId"]
        for spec in specs
        if not spec.get("retired")
        and any(int(spec.get("config", {}).get(key, HIGH_RATE)) < HIGH_RATE for key in RATES)
    ]


ACTS: Final[dict[str, Act]] = {"replicas throttled": limit_replicas}
OF_SPECS: Final[dict[str, Act]] = {"moves throttled": limit_moves}
