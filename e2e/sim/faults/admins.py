"""Requests to brokers as from Kafka's own tools, consoles and old clients.

They use any version of a request, with sensible arguments or not, at any broker. Some only read;
the others change topics, as `users` does through Kubernetes.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final

from chiplog_wire.protocol.apis import APIS, ApiKey
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.faults.users import MOST_PARTITIONS, MOST_TOPICS, topic_names, use_new_partitions_soon
from e2e.sim.history import DeleteAsked
from e2e.sim.wire import PORT, UNREACHED, Wire

Ask = tuple[ApiKey, dict[str, Any]]
"""The key of a request and its fields."""
# Kafka's numbers for kinds of resources, and for operations on a setting.
TOPIC: Final = 2
BROKER: Final = 4
SET: Final = 0
DELETE: Final = 1
APPEND: Final = 2
SETTINGS: Final = (
    ("compression.type", "lz4"),
    ("compression.type", "producer"),
    ("compression.type", "zstd"),
    ("max.message.bytes", "2000000"),
    ("message.timestamp.type", "LogAppendTime"),
    ("segment.bytes", "20000"),
    ("flush.messages", "3"),
    ("cleanup.policy", "condense"),
    ("retention.ms", "soon"),
    ("min.insync.replicas", "99"),
    ("no.such.key", "1"),
)
"""Settings that tools set or ask for; some do not exist or have wrong values."""
TIMEOUT_MS: Final = 4000
IN_A_ROW: Final = 6
"""Number of requests in one act."""


async def ask(stage: Stage) -> None:
    """Send some requests that only read."""
    await as_client(stage, lambda wire, chance: _ask(stage, wire, chance))


async def _ask(stage: Stage, wire: Wire, chance: random.Random) -> None:
    for _ in range(IN_A_ROW):
        key, values = chance.choice(QUESTIONS)(stage, chance)
        await send(stage, wire, chance, key, values)


async def administer(stage: Stage) -> None:
    """Send a request that may change a topic."""
    await as_client(stage, lambda wire, chance: chance.choice(CHANGES)(stage, wire, chance))


async def as_client(stage: Stage, work: Callable[[Wire, random.Random], Any]) -> None:
    """Run `work` as a new client with its own connections and random stream."""
    world = stage.world
    chance = random.Random(stage.chance.getrandbits(64))  # noqa: S311 - not for secrets
    wire = Wire(world.bootstrap, chance, "admin")
    await world.as_client(f"admin-{chance.getrandbits(32):x}", work(wire, chance))


async def send(
    stage: Stage,
    wire: Wire,
    chance: random.Random,
    key: ApiKey,
    values: dict[str, Any],
    host: str = "",
) -> Any:
    """Send a request in a random version to a random broker, or to `host`; returns the response.

    None if no broker answered.
    """
    api = APIS[key]
    version = chance.randint(api.min_served, api.max_version)
    host = host or chance.choice(sorted(one.host for one in stage.world.nodes.values()))
    at = host, PORT
    try:
        return await wire.say(at, key, version, values)
    except UNREACHED as error:
        stage.world.notebook.error(type(error).__name__)
        return None


# ---- questions: each returns a random request that only reads


def _name(stage: Stage, chance: random.Random) -> str:
    """A topic's name, mostly of one that exists, sometimes an invalid one."""
    names: list[str] = topic_names(stage)
    return chance.choice([*names, *names, *names, "no-such-topic", "not a name/at all"])


def _some_partitions(stage: Stage, chance: random.Random) -> list[tuple[str, int]]:
    """One to three partitions as (topic, number), which need not exist."""
    return [(_name(stage, chance), chance.randrange(5)) for _ in range(chance.randint(1, 3))]


def _versions(_stage: Stage, chance: random.Random) -> Ask:
    """An ApiVersions request, whose client name may be invalid."""
    software = chance.choice(("console", "not a name!"))
    return ApiKey.API_VERSIONS, {
        "client_software_name": software,
        "client_software_version": "1.0",
    }


def _metadata(stage: Stage, chance: random.Random) -> Ask:
    """A Metadata request for some topics, for all (None), or for none (an empty list)."""
    wanted = [{"name": name, "topic_id": None} for name, _ in _some_partitions(stage, chance)]
    return ApiKey.METADATA, {"topics": chance.choice((wanted, None, []))}


def _cluster(_stage: Stage, chance: random.Random) -> Ask:
    """A DescribeCluster request, also with an endpoint type that does not exist."""
    return ApiKey.DESCRIBE_CLUSTER, {
        "endpoint_type": chance.choice((1, 1, 2, 7)),
        "include_fenced_brokers": chance.random() < 0.5,
    }


def _topic_partitions(stage: Stage, chance: random.Random) -> Ask:
    """A DescribeTopicPartitions request, also with a small limit or a cursor."""
    parts = _some_partitions(stage, chance)
    cursor = {"topic_name": parts[0][0], "partition_index": parts[0][1]}
    return ApiKey.DESCRIBE_TOPIC_PARTITIONS, {
        "topics": [{"name": name} for name, _ in parts],
        "response_partition_limit": chance.choice((1, 3, 2000)),
        "cursor": chance.choice((None, cursor)),
    }


def _configs(stage: Stage, chance: random.Random) -> Ask:
    """A DescribeConfigs request for a broker, a topic, and a resource type we do not serve."""
    of_broker = {"resource_type": BROKER, "resource_name": chance.choice(("1", "2", "", "9", "x"))}
    of_topic = {"resource_type": TOPIC, "resource_name": _name(stage, chance)}
    wanted = chance.choice((None, [chance.choice(SETTINGS)[0]]))
    resources: list[dict[str, Any]] = [
        of_broker,
        of_topic,
        {"resource_type": 8, "resource_name": "1"},
    ]
    return ApiKey.DESCRIBE_CONFIGS, {
        "resources": [one | {"configuration_keys": wanted} for one in resources],
        "include_synonyms": chance.random() < 0.5,
        "include_documentation": chance.random() < 0.5,
    }


def _config_resources(_stage: Stage, chance: random.Random) -> Ask:
    """A ListConfigResources request, also with a resource type that does not exist."""
    return ApiKey.LIST_CONFIG_RESOURCES, {
        "resource_types": chance.choice(((), (TOPIC,), (BROKER, TOPIC, 99)))
    }


def _log_dirs(stage: Stage, chance: random.Random) -> Ask:
    """A DescribeLogDirs request for all partitions (None) or some."""
    wanted = [
        {"topic": name, "partitions": [number]} for name, number in _some_partitions(stage, chance)
    ]
    return ApiKey.DESCRIBE_LOG_DIRS, {"topics": chance.choice((None, wanted))}


def _epoch(stage: Stage, chance: random.Random) -> Ask:
    """An OffsetForLeaderEpoch request, also with epochs that are too old or too new."""
    return ApiKey.OFFSET_FOR_LEADER_EPOCH, {
        "replica_id": -1,
        "topics": [
            {
                "topic": name,
                "partitions": [
                    {
                        "partition": number,
                        "current_leader_epoch": chance.choice((-1, 0, 3)),
                        "leader_epoch": chance.randrange(6),
                    }
                ],
            }
            for name, number in _some_partitions(stage, chance)
        ],
    }


def _offsets(stage: Stage, chance: random.Random) -> Ask:
    """A ListOffsets request for a special timestamp (below 0) or one near the present."""
    now_ms = stage.world.notebook.now_ms()
    timestamp = chance.choice((-1, -2, -3, -4, -9, now_ms, now_ms - 10_000, now_ms + 10_000))
    return ApiKey.LIST_OFFSETS, {
        "replica_id": -1,
        "topics": [
            {"name": name, "partitions": [{"partition_index": number, "timestamp": timestamp}]}
            for name, number in _some_partitions(stage, chance)
        ],
    }


def _fetch(stage: Stage, chance: random.Random) -> Ask:
    """A Fetch request, also with wrong offsets, leader epochs or sessions."""
    ids = {one.topic: one.topic_id for one in stage.world.used_partitions}
    return ApiKey.FETCH, {
        "replica_id": chance.choice((-1, -1, -1, 1)),
        "max_wait": chance.choice((0, 300)),
        "min_bytes": chance.choice((0, 1, 100_000)),
        "max_bytes": chance.choice((1, 1000, 2**20)),
        "session_id": chance.choice((0, 0, 77)),
        "session_epoch": chance.choice((-1, 0, 1)),
        "topics": [
            {
                "topic": name,
                "topic_id": ids.get(name),
                "partitions": [
                    {
                        "partition": number,
                        "current_leader_epoch": chance.choice((-1, -1, 0, 9)),
                        "fetch_offset": chance.choice((0, 3, 50, 10**6, -1)),
                        "partition_max_bytes": chance.choice((1, 500, 2**20)),
                    }
                ],
            }
            for name, number in _some_partitions(stage, chance)
        ],
    }


def _coordinator(_stage: Stage, chance: random.Random) -> Ask:
    """A FindCoordinator request for a group (key type 0) or a transaction (1)."""
    key_type = chance.choice((0, 1))
    return ApiKey.FIND_COORDINATOR, {
        "key": "a",
        "key_type": key_type,
        "coordinator_keys": ["a", "b"],
    }


def _acls(_stage: Stage, chance: random.Random) -> Ask:
    """A request about ACLs, which brokers refuse."""
    key = chance.choice((ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS))
    return key, {"creations": [{}], "filters": [{}]}


def _producer_id(_stage: Stage, chance: random.Random) -> Ask:
    """An InitProducerId request, also for a transaction."""
    name = chance.choice((None, None, "transactions"))
    return ApiKey.INIT_PRODUCER_ID, {"transactional_id": name, "transaction_timeout": 60_000}


QUESTIONS: Final = (
    _versions,
    _metadata,
    _cluster,
    _topic_partitions,
    _configs,
    _config_resources,
    _log_dirs,
    _epoch,
    _offsets,
    _fetch,
    _coordinator,
    _acls,
    _producer_id,
)


# ---- changes: each sends one request that may change a topic


async def _create(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Send a CreateTopics, also with manual assignments, wrong settings, or only as a trial."""
    world, replicas = stage.world, stage.mix.replicas
    name = chance.choice((f"asked-{world.store.version}", *topic_names(stage), "not a name/at all"))
    if len(topic_names(stage)) >= MOST_TOPICS:
        return
    world.note_request(name)
    config = dict(world.topic_defaults.get("config", {}))
    if chance.random() < 0.3:
        key, value = chance.choice(SETTINGS)
        config[key] = value
    manual = [{"partition_index": 0, "broker_ids": sorted(world.nodes)[:replicas]}]
    is_manual = chance.random() < 0.2
    one = {
        "name": name,
        "num_partitions": -1 if is_manual else chance.randint(1, 3),
        "replication_factor": -1 if is_manual else replicas,
        "assignments": manual if is_manual else [],
        "configs": [{"name": key, "value": str(value)} for key, value in config.items()],
    }
    is_trial = chance.random() < 0.2
    values = {"topics": [one], "timeout": TIMEOUT_MS, "validate_only": is_trial}
    await send(stage, wire, chance, ApiKey.CREATE_TOPICS, values)
    await use_new_partitions_soon(stage)


async def _grow(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Send a CreatePartitions, which may ask for fewer partitions than there are."""
    name = _name(stage, chance)
    one = {"name": name, "count": chance.randint(1, MOST_PARTITIONS), "assignments": None}
    is_trial = chance.random() < 0.2
    values = {"topics": [one], "timeout": TIMEOUT_MS, "validate_only": is_trial}
    await send(stage, wire, chance, ApiKey.CREATE_PARTITIONS, values)
    await use_new_partitions_soon(stage)


async def _delete(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Delete a topic that was created during the faults.

    The first topics are left to `users.delete_topic`, which creates them again.
    """
    names = [one for one in topic_names(stage) if one.startswith(("asked-", "more-"))]
    name = chance.choice([*names, "no-such-topic"])
    stage.world.expect_deletion(name)
    topic = {"name": name, "topic_id": None}
    values = {"topics": [topic], "topic_names": [name], "timeout": TIMEOUT_MS}
    await send(stage, wire, chance, ApiKey.DELETE_TOPICS, values)


async def _configure(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Change a setting of a topic or broker, and set it back after some seconds."""
    name, (key, value) = _name(stage, chance), chance.choice(SETTINGS)
    before = str(stage.world.topic_defaults.get("config", {}).get(key, "")) or None
    resource = {
        "resource_type": chance.choice((TOPIC, TOPIC, TOPIC, BROKER)),
        "resource_name": name,
    }
    operation = chance.choice((SET, SET, SET, APPEND))
    change = {"name": key, "value": value, "config_operation": operation}
    api = chance.choice((ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS))
    if api is ApiKey.ALTER_CONFIGS and before is None:
        # AlterConfigs removes all settings that it does not name: name the present ones, too.
        rest = stage.world.topic_defaults.get("config", {}).items()
        kept = [{"name": one, "value": str(given)} for one, given in rest]
    else:
        kept = []
    values = {"resources": [resource | {"configs": [change, *kept]}], "validate_only": False}
    await send(stage, wire, chance, api, values)
    await asyncio.sleep(chance.uniform(1.0, 10.0))
    back = {"name": key, "value": None, "config_operation": DELETE}
    if before is not None:
        back = {"name": key, "value": before, "config_operation": SET}
    values = {"resources": [resource | {"configs": [back]}], "validate_only": False}
    await send(stage, wire, chance, ApiKey.INCREMENTAL_ALTER_CONFIGS, values)


async def _elect(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Ask for an election of preferred leaders, of all partitions or of some."""
    parts = [
        {"topic": name, "partitions": [number]} for name, number in _some_partitions(stage, chance)
    ]
    values = {
        "election_type": 0,
        "topic_partitions": chance.choice((None, parts)),
        "timeout": TIMEOUT_MS,
    }
    await send(stage, wire, chance, ApiKey.ELECT_LEADERS, values)


async def _delete_records(stage: Stage, wire: Wire, chance: random.Random) -> None:
    """Send a DeleteRecords, noted in the history even if it is refused or not answered."""
    topics: list[dict[str, Any]] = [
        {"name": name, "partitions": [{"partition_index": number, "offset": offset}]}
        for name, number in _some_partitions(stage, chance)
        for offset in (chance.choice((1, 10, 40, 10**6)),)
    ]
    history, now_s = stage.world.notebook.history, stage.world.loop.time()
    history.deletes_asked += [
        DeleteAsked(now_s, topic["name"], one["partition_index"], one["offset"])
        for topic in topics
        for one in topic["partitions"]
    ]
    await send(
        stage, wire, chance, ApiKey.DELETE_RECORDS, {"topics": topics, "timeout": TIMEOUT_MS}
    )


CHANGES: Final = (_create, _create, _grow, _delete, _configure, _configure, _elect, _delete_records)

ACTS: Final[dict[str, Act]] = {"brokers asked": ask, "brokers told": administer}
