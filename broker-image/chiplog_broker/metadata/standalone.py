"""Metadata of a standalone broker: files in a directory, changed by this process only.

There is one file for the cluster and one for each topic. Each is replaced atomically and durably
before its change is visible. Operations are carried out one after the other.
"""

import asyncio
import logging
from dataclasses import dataclass
from uuid import UUID

from chiplog_broker.metadata import standalone_plan as plan
from chiplog_broker.metadata.json_files import read_json, write_json
from chiplog_broker.metadata.operations import Outcome, PlannedTopic
from chiplog_broker.metadata.port import TopicChanged, TopicDeleted
from chiplog_broker.metadata.standalone_plan import Defaults, TopicRecord
from chiplog_broker.metadata.view import PartitionView, TopicView
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.storage.errors import StorageError
from chiplog_core.admin.checks import check_not_internal
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.operations import (
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    GrowTopic,
    ReassignPartitions,
    Request,
)
from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.internal_topics import CREATED_TOPICS, InternalTopic
from chiplog_core.ids import TopicId
from chiplog_core.naming.names import object_name
from chiplog_core.topic_name import is_internal
from chiplog_wire.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

CLUSTER_FILE = "cluster.json"
TOPICS = "topics"
FILE_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The cluster id, and the number of starts of its broker."""

    cluster_id: str
    session: int


async def admit(disk: Disk, rng: Rng) -> ClusterRecord:
    """Begin a session; its number is durable before it is used.

    Raises `ValueError` if the file cannot be read: a guessed session could assign producer ids and
    leader epochs twice.
    """
    disk.make_directory(TOPICS)
    # A kill may have left a new topic's file whose name is in the page cache only.
    await disk.sync_directory(TOPICS)
    if disk.exists(CLUSTER_FILE):
        cluster_id, session = read_fields(disk, CLUSTER_FILE, "clusterId", "session")
        record = ClusterRecord(str(cluster_id), int(str(session)) + 1)
    else:
        # Kafka's cluster ids have the same form as topic ids: a random UUID in base64.
        record = ClusterRecord(str(TopicId.draw(rng.token)), 1)
    stored = {"clusterId": record.cluster_id, "session": record.session}
    await write_json(disk, CLUSTER_FILE, stored)
    return record


class StandaloneStore:
    """The `MetadataStore` of a standalone broker.

    Reads all topics when it is created; raises `ValueError` if a file cannot be read.
    """

    def __init__(
        self,
        disk: Disk,
        rng: Rng,
        defaults: Defaults,
    ) -> None:
        self._disk = disk
        self._rng = rng
        self._defaults = defaults
        self._topics: dict[str, TopicRecord] = {}
        self._lock = asyncio.Lock()
        self._changed: TopicChanged
        self._deleted: TopicDeleted

        for name in disk.names(TOPICS):
            # Other names are temporary files that a power cut has left.
            if name.endswith(FILE_SUFFIX):
                record = read_record(disk, f"{TOPICS}/{name}")
                self._topics[record.name] = record

    async def start(self, changed: TopicChanged, deleted: TopicDeleted) -> None:
        """Pass every topic to `changed`, and create the internal topics that are missing. From now
        on `changed` and `deleted` are called for every change."""
        self._changed, self._deleted = changed, deleted
        for record in self._topics.values():
            await changed(self._view(record))
        for topic in CREATED_TOPICS.values():
            await self._make_internal_topic(topic)

    async def submit(self, operation: Request, _principal: str = ANONYMOUS) -> Outcome:
        """Carry out an admin operation, after those that were submitted before. A refusal or an
        error of the disk is returned as an error code."""
        async with self._lock:
            try:
                return await self._carry_out(operation)
            except Refused as refused:
                return Outcome.refused(refused)
            except (OSError, StorageError) as failed:
                logger.exception("operation_failed", extra={"topic": operation.name})
                return Outcome(ErrorCode.kafka_storage_error, str(failed))

    async def close(self) -> None:
        """Does nothing: there are no tasks."""

    def views(self) -> list[TopicView]:
        """All topics; needed before the logs are open."""
        return [self._view(record) for record in self._topics.values()]

    async def _carry_out(self, operation: Request) -> Outcome:
        """Check an operation and carry it out, or only check it if it is to be validated. Raises
        `Refused`, and `OSError` or `StorageError` if the disk fails."""
        if isinstance(operation, CreateTopic):
            topic_id = UUID(bytes=TopicId.draw(self._rng.token).value)
            record = plan.new_topic_record(operation, self._topics, self._defaults, topic_id)
            if operation.validate_only:
                view = self._view(record)
                planned = PlannedTopic(len(view.partitions), view.replication_factor, view.config)
                return Outcome(planned=planned)
            return await self._put(record, validate_only=False)
        if isinstance(operation, ConfigureBroker):
            return plan.broker_configuration(operation)
        old = self._topics.get(operation.name)
        if old is None:
            raise Refused(
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                f"The topic '{operation.name}' does not exist.",
            )
        if isinstance(operation, ElectLeaders):
            raise Refused(Code.ELECTION_NOT_NEEDED, "the only broker leads every partition")
        if isinstance(operation, ReassignPartitions):
            return plan.reassignment(operation, self._defaults.broker_id)
        check_not_internal(operation.name)
        match operation:
            case DeleteTopic():
                plan.check_identity(operation, old)
                return await self._delete(old)
            case GrowTopic():
                record = plan.grown_topic_record(operation, old, self._topics, self._defaults)
            case ConfigureTopic():
                record = plan.configured_topic_record(operation, old, self._defaults)
        return await self._put(record, validate_only=operation.validate_only)

    async def _make_internal_topic(self, topic: InternalTopic) -> None:
        """Create an internal topic, or update its configuration. If the disk fails, the next start
        tries again."""
        topic_id = UUID(bytes=TopicId.draw(self._rng.token).value)
        known = self._topics.get(topic.name)
        record = plan.internal_topic_record(topic, known, self._defaults, topic_id)
        if record == known:
            return
        try:
            await self._put(record, validate_only=False)
        except (OSError, StorageError):
            logger.exception("internal_topic_not_made", extra={"topic": topic.name})

    async def _put(self, record: TopicRecord, *, validate_only: bool) -> Outcome:
        """Store a new or changed topic and apply it; with `validate_only` only return its view."""
        view = self._view(record)
        if not validate_only:
            old = self._topics.get(record.name)
            try:
                await self._write(record)
                await self._changed(view)
            except (OSError, StorageError):
                await self._undo(record, old)
                raise
            self._topics[record.name] = record
        return Outcome(topic=view)

    async def _undo(self, record: TopicRecord, old: TopicRecord | None) -> None:
        """Restore the topic as it was before a failed change, if the disk allows it; `old` is None
        for a new topic, which is deleted."""
        try:
            if old is None:
                await self._delete(record)
            else:
                await self._write(old)
                await self._changed(self._view(old))
        except (OSError, StorageError):
            logger.exception("undo_failed", extra={"topic": record.name})

    async def _write(self, record: TopicRecord) -> None:
        await write_json(self._disk, topic_path(record.name), encode_record(record))

    async def _delete(self, record: TopicRecord) -> Outcome:
        """Delete a topic and its data."""
        # The record is deleted before the data. After a crash in between, the data belongs to
        # no topic; in the other order the topic would exist again without its records.
        self._disk.remove(topic_path(record.name))
        await self._disk.sync_directory(TOPICS)
        self._topics.pop(record.name, None)
        await self._deleted(record.name, record.topic_id)
        return Outcome()

    def _view(self, record: TopicRecord) -> TopicView:
        """The topic as clients and replicas see it: this broker is the only replica, and leads."""
        broker_id, session = self._defaults.broker_id, self._defaults.session
        partitions = tuple(
            # The leader epoch is the number of sessions since the partition was created.
            PartitionView(index, broker_id, session - made_in, (broker_id,), (broker_id,))
            for index, made_in in enumerate(record.made_in_sessions)
        )
        config = TopicConfig(record.config, self._defaults.inherited)
        return TopicView(record.name, record.topic_id, partitions, config, is_internal(record.name))


def topic_path(topic: str) -> str:
    """The file of a topic. Its name is the topic's if that is short and in lower case; otherwise it
    is derived from the topic's name and a hash of it (`object_name`)."""
    return f"{TOPICS}/{object_name(topic)}{FILE_SUFFIX}"


def encode_record(record: TopicRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "topicId": str(record.topic_id),
        "madeInSessions": list(record.made_in_sessions),
        "config": dict(record.config),
    }


def read_record(disk: Disk, path: str) -> TopicRecord:
    """The topic stored in a file. Raises `ValueError` naming the file if it cannot be read."""
    name, topic_id, sessions, config = read_fields(
        disk, path, "name", "topicId", "madeInSessions", "config"
    )
    if not (isinstance(sessions, list) and isinstance(config, dict)):
        raise ValueError(f"metadata/{path} was changed or is damaged: restore it from a backup")
    return TopicRecord(str(name), UUID(str(topic_id)), tuple(sessions), config)


def read_fields(disk: Disk, path: str, *fields: str) -> list[object]:
    """The named fields of a JSON file. Raises `ValueError` naming the file if it is invalid."""
    try:
        found = read_json(disk, path)
        return [found[field] for field in fields]
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(
            f"metadata/{path} was changed or is damaged ({error!r}): restore it from a backup"
        ) from error
