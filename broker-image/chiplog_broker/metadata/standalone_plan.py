"""What becomes of an admin operation where one broker is the whole cluster: pure decisions.

Checks come in the order in which Kafka makes them, and say what Kafka says in its codes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from chiplog_broker.metadata.config_change import changed
from chiplog_broker.metadata.operations import ConfigureTopic, CreateTopic, GrowTopic
from chiplog_broker.metadata.topic_names import colliding_name, why_not_a_topic_name
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.given import given_topic_config
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC
from chiplog_core.topic_name import is_internal


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """What a standalone broker keeps of a topic.

    A partition's leader epoch is counted from the session that made it: every session of
    the broker is a new reign over every partition, without a write for each.
    """

    name: str
    topic_id: UUID
    made_in_sessions: tuple[int, ...]
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a client may leave to the cluster, and who the cluster is."""

    broker_id: int
    partitions: int
    session: int
    inherited: Mapping[str, str] = field(default_factory=dict)
    """The broker's configuration, as far as topics inherit it."""


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The operation cannot be carried out; code and text go to the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def created(
    operation: CreateTopic,
    topics: Mapping[str, TopicRecord],
    defaults: Defaults,
    topic_id: UUID,
) -> TopicRecord:
    """The record of a new topic. Raises `Refused`."""
    name = operation.name
    if why := why_not_a_topic_name(name):
        raise Refused(ErrorCode.invalid_topic_exception, why)
    if name in topics:
        raise Refused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if is_internal(name):
        raise Refused(ErrorCode.invalid_topic_exception, f"{name} is made by the cluster itself")
    if other := colliding_name(name, topics):
        raise Refused(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topic: {other}",
        )
    count = partition_count(operation, defaults)
    config = checked_config(operation.config)
    return TopicRecord(name, topic_id, (defaults.session,) * count, config)


def partition_count(operation: CreateTopic, defaults: Defaults) -> int:
    """How many partitions a new topic gets, given by number or by placement."""
    if operation.assignments:
        if operation.partitions is not None or operation.replicas is not None:
            raise Refused(
                ErrorCode.invalid_request,
                "give either partitions and replication factor, or a replica assignment",
            )
        check_placement(operation.assignments.values(), defaults.broker_id)
        if sorted(operation.assignments) != list(range(len(operation.assignments))):
            raise Refused(
                ErrorCode.invalid_replica_assignment, "partitions must be numbered from 0"
            )
        return len(operation.assignments)
    if operation.replicas not in (None, 1):
        raise Refused(
            ErrorCode.invalid_replication_factor,
            f"Unable to replicate the partition {operation.replicas} time(s): "
            "a standalone broker is alone",
        )
    count = defaults.partitions if operation.partitions is None else operation.partitions
    check_count(count)
    return count


def grown(operation: GrowTopic, record: TopicRecord, defaults: Defaults) -> TopicRecord:
    """The record of a topic with more partitions. Raises `Refused`."""
    have = len(record.made_in_sessions)
    if operation.partitions <= have:
        direction = "already has" if operation.partitions == have else "has"
        raise Refused(
            ErrorCode.invalid_partitions,
            f"Topic {direction} {have} partition(s), the number can only grow.",
        )
    check_count(operation.partitions)
    added = operation.partitions - have
    if operation.assignments:
        if len(operation.assignments) != added:
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"{added} partitions are added but {len(operation.assignments)} are placed",
            )
        check_placement(operation.assignments, defaults.broker_id)
    sessions = record.made_in_sessions + (defaults.session,) * added
    return replace(record, made_in_sessions=sessions)


def configured(operation: ConfigureTopic, record: TopicRecord, defaults: Defaults) -> TopicRecord:
    """The record of a topic with another configuration. Raises `Refused`."""
    own = {} if operation.replace else record.config
    try:
        config = changed(TopicConfig(own, defaults.inherited), operation.changes)
    except ValueError as error:
        raise Refused(ErrorCode.invalid_config, str(error)) from error
    return replace(record, config=checked_config(config))


def check_count(count: int) -> None:
    if count < 1:
        raise Refused(
            ErrorCode.invalid_partitions, "Number of partitions was set to an invalid value."
        )
    if count > MAX_PARTITIONS_PER_TOPIC:
        raise Refused(
            ErrorCode.invalid_partitions,
            f"{count} partitions are more than a topic may have: {MAX_PARTITIONS_PER_TOPIC}",
        )


def check_placement(placements: Iterable[tuple[int, ...]], broker_id: int) -> None:
    for brokers in placements:
        if brokers != (broker_id,):
            raise Refused(
                ErrorCode.invalid_replica_assignment,
                f"replicas {list(brokers)} do not exist: this cluster is broker {broker_id}",
            )


def checked_config(config: Mapping[str, str]) -> Mapping[str, str]:
    """The configuration in Kafka's own form. Raises `Refused`."""
    given = given_topic_config(config, "config")
    if given.problems:
        raise Refused(ErrorCode.invalid_config, "; ".join(map(str, given.problems)))
    if int(given.values.get("min.insync.replicas", "1")) > 1:
        raise Refused(
            ErrorCode.invalid_config,
            "config[min.insync.replicas] is above the number of replicas, 1: set it to 1",
        )
    return given.values
