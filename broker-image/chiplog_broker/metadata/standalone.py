"""Metadata of a broker that is a cluster by itself: files in a directory, decided in process.

One file for the cluster, one for each topic, each replaced whole and durably before anyone
sees the change. Operations are carried out one after another.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from chiplog_broker.metadata import standalone_plan as plan
from chiplog_broker.metadata.operations import (
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    Operation,
    Outcome,
)
from chiplog_broker.metadata.standalone_plan import Defaults, Refused, TopicRecord
from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.metadata import TopicChanged, TopicDeleted
from chiplog_broker.ports.rng import Rng
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_core.config.effective import TopicConfig, topic_defaults
from chiplog_core.ids import TopicId
from chiplog_core.names import object_name

CLUSTER_FILE = "cluster.json"
TOPICS = "topics"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """Who this cluster is, and how often its broker has started."""

    cluster_id: str
    session: int


async def admit(disk: Disk, rng: Rng) -> ClusterRecord:
    """Begin a session: its number is durable before anything is done in it.

    Raises `ValueError` for a file that does not read: a guess would give out producer ids
    and leader epochs twice.
    """
    disk.make_directory(TOPICS)
    if disk.exists(CLUSTER_FILE):
        old = read_json(disk, CLUSTER_FILE)
        record = ClusterRecord(str(old["clusterId"]), int(str(old["session"])) + 1)
    else:
        record = ClusterRecord(random_uuid_text(rng), 1)
    text = json.dumps({"clusterId": record.cluster_id, "session": record.session})
    await disk.replace(CLUSTER_FILE, text.encode())
    return record


class StandaloneStore:
    """The `MetadataStore` of a broker without Kubernetes.

    Reads all topics at once; raises `ValueError` for a file that does not read.
    """

    def __init__(
        self,
        disk: Disk,
        rng: Rng,
        defaults: Defaults,
        broker_config: Mapping[str, str],
    ) -> None:
        self._disk = disk
        self._rng = rng
        self._defaults = defaults
        self._inherited = topic_defaults(broker_config)
        self._topics: dict[str, TopicRecord] = {}
        self._turn = asyncio.Lock()
        self._changed: TopicChanged
        self._deleted: TopicDeleted

        for name in disk.names(TOPICS):
            record = record_from(read_json(disk, f"{TOPICS}/{name}"))
            self._topics[record.name] = record

    async def start(self, changed: TopicChanged, deleted: TopicDeleted) -> None:
        self._changed, self._deleted = changed, deleted
        for record in self._topics.values():
            await changed(self._view(record))

    async def submit(self, operation: Operation) -> Outcome:
        async with self._turn:
            try:
                return await self._carry_out(operation)
            except Refused as refused:
                return Outcome(refused.code, str(refused))

    async def close(self) -> None:
        """Nothing runs by itself."""

    def views(self) -> list[TopicView]:
        """All topics, for those that need them before the logs are open."""
        return [self._view(record) for record in self._topics.values()]

    async def _carry_out(self, operation: Operation) -> Outcome:
        if isinstance(operation, CreateTopic):
            topic_id = new_topic_id(self._rng)
            record = plan.created(operation, self._topics, self._defaults, topic_id)
            return await self._put(record, validate_only=operation.validate_only)
        old = self._topics.get(operation.name)
        if old is None:
            raise Refused(
                ErrorCode.unknown_topic_or_partition,
                f"The topic '{operation.name}' does not exist.",
            )
        match operation:
            case DeleteTopic():
                return await self._delete(old)
            case GrowTopic():
                record = plan.grown(operation, old, self._defaults)
            case ConfigureTopic():
                record = plan.configured(operation, old)
        return await self._put(record, validate_only=operation.validate_only)

    async def _put(self, record: TopicRecord, *, validate_only: bool) -> Outcome:
        view = self._view(record)
        if not validate_only:
            text = json.dumps(record_to(record), indent=1)
            await self._disk.replace(path_of(record.name), text.encode())
            self._topics[record.name] = record
            await self._changed(view)
        return Outcome(topic=view)

    async def _delete(self, record: TopicRecord) -> Outcome:
        # The data goes first: a crash in between leaves a topic whose deletion is asked for
        # again, and not data that no topic claims.
        await self._deleted(record.name, record.topic_id)
        del self._topics[record.name]
        self._disk.remove(path_of(record.name))
        await self._disk.sync_directory(TOPICS)
        return Outcome()

    def _view(self, record: TopicRecord) -> TopicView:
        broker_id, session = self._defaults.broker_id, self._defaults.session
        partitions = tuple(
            PartitionView(index, broker_id, session - made_in, (broker_id,), (broker_id,))
            for index, made_in in enumerate(record.made_in_sessions)
        )
        config = TopicConfig(record.config, self._inherited)
        return TopicView(record.name, record.topic_id, partitions, config)


def path_of(topic: str) -> str:
    """A topic's file; names of 249 characters and of capital letters need another form."""
    return f"{TOPICS}/{object_name(topic)}.json"


def record_to(record: TopicRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "topicId": str(record.topic_id),
        "madeInSessions": list(record.made_in_sessions),
        "config": dict(record.config),
    }


def record_from(stored: Mapping[str, object]) -> TopicRecord:
    sessions, config = stored["madeInSessions"], stored["config"]
    assert isinstance(sessions, list)
    assert isinstance(config, dict)
    return TopicRecord(str(stored["name"]), UUID(str(stored["topicId"])), tuple(sessions), config)


def read_json(disk: Disk, path: str) -> dict[str, object]:
    """A small file of ours. Raises `ValueError` naming it where it does not read."""
    file = disk.open(path)
    try:
        found = json.loads(file.read(0, file.size()))
    except ValueError as error:
        raise ValueError(f"{path} is not what this broker wrote: {error}") from error
    finally:
        file.close()
    if not isinstance(found, dict):
        raise ValueError(f"{path} is not what this broker wrote")
    return found


def new_topic_id(rng: Rng) -> UUID:
    """A random id whose text does not look like an option to a command line, as Kafka's."""
    while True:
        topic_id = UUID(bytes=rng.token(16), version=4)
        if not uuid_text(topic_id).startswith("-"):
            return topic_id


def random_uuid_text(rng: Rng) -> str:
    return uuid_text(new_topic_id(rng))


def uuid_text(value: UUID) -> str:
    """Kafka's form of a UUID: 22 characters of URL-safe base64."""
    return str(TopicId(value.bytes))
