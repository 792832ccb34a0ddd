"""The effect of admin operations on a standalone broker, as pure decisions.

`chiplog_core.admin.checks` decides whether an operation is possible, as for every cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from chiplog_broker.metadata.operations import Outcome
from chiplog_core.admin.capacity import Capacity
from chiplog_core.admin.checks import (
    ClusterFacts,
    ExistingTopic,
    check_configuration,
    check_creation,
    check_growth,
)
from chiplog_core.admin.client_keys import check_broker_change
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.operations import (
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    ReassignPartitions,
)
from chiplog_core.config.internal_topics import InternalTopic
from chiplog_core.ids import TopicId
from chiplog_core.topic_name import is_internal
from chiplog_wire.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """The stored state of a topic of a standalone broker.

    The leader epoch of a partition is the number of sessions since the one that created it. So
    every session is a new leadership of every partition, without a write for each.
    """

    name: str
    topic_id: UUID
    made_in_sessions: tuple[int, ...]
    config: Mapping[str, str]


NO_TOPICS: Mapping[str, TopicRecord] = {}


@dataclass(frozen=True, slots=True)
class Defaults:
    """The cluster's defaults for new topics, and its identity."""

    broker_id: int
    partitions: int
    session: int
    inherited: Mapping[str, str] = field(default_factory=dict)
    """The part of the broker's configuration that topics inherit."""
    config: Mapping[str, str] = field(default_factory=dict)
    """The complete configuration of the broker."""


def internal_topic_record(
    topic: InternalTopic, known: TopicRecord | None, defaults: Defaults, topic_id: UUID
) -> TopicRecord:
    """The record of an internal topic, with the broker's present configuration.

    `known` is the stored record: its partitions and topic id stay. If it is None, the topic is new
    and gets `topic_id`.
    """
    if known is None:
        partitions = topic.size(defaults.config, brokers=1).partitions
        sessions = (defaults.session,) * partitions
    else:
        topic_id, sessions = known.topic_id, known.made_in_sessions
    config = topic.config(defaults.config, replicas=1)
    return TopicRecord(topic.name, topic_id, sessions, config)


def new_topic_record(
    operation: CreateTopic,
    topics: Mapping[str, TopicRecord],
    defaults: Defaults,
    topic_id: UUID,
) -> TopicRecord:
    """The record of a new topic. Raises `Refused`."""
    new = check_creation(operation, cluster_facts(defaults, topics))
    sessions = (defaults.session,) * new.partitions
    return TopicRecord(operation.name, topic_id, sessions, new.config)


def grown_topic_record(
    operation: GrowTopic,
    record: TopicRecord,
    topics: Mapping[str, TopicRecord],
    defaults: Defaults,
) -> TopicRecord:
    """The record of a topic with more partitions. Raises `Refused`."""
    added = check_growth(operation, to_existing_topic(record), cluster_facts(defaults, topics))
    sessions = record.made_in_sessions + (defaults.session,) * added
    return replace(record, made_in_sessions=sessions)


def configured_topic_record(
    operation: ConfigureTopic, record: TopicRecord, defaults: Defaults
) -> TopicRecord:
    """The record of a topic with another configuration. Raises `Refused`."""
    config = check_configuration(operation, to_existing_topic(record), cluster_facts(defaults))
    return replace(record, config=config)


def check_identity(operation: DeleteTopic, record: TopicRecord) -> None:
    """Raises `Refused` if the client deletes by topic id, and the name now belongs to another
    topic."""
    if operation.topic_id not in (None, TopicId(record.topic_id.bytes)):
        raise Refused(Code.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


def cluster_facts(
    defaults: Defaults, topics: Mapping[str, TopicRecord] = NO_TOPICS
) -> ClusterFacts:
    """The state of this one-broker cluster, as the checks of admin operations need it."""
    user_topics = [record for name, record in topics.items() if not is_internal(name)]
    return ClusterFacts(
        broker_ids=(defaults.broker_id,),
        default_partitions=defaults.partitions,
        topics=topics,
        capacity=Capacity.of(
            defaults.config,
            topics=len(user_topics),
            partitions=sum(len(record.made_in_sessions) for record in user_topics),
        ),
        inherited=defaults.inherited,
    )


def to_existing_topic(record: TopicRecord) -> ExistingTopic:
    """Convert a stored topic to the form in which the checks of admin operations get it."""
    return ExistingTopic(
        name=record.name,
        partitions=len(record.made_in_sessions),
        replicas=1,
        config=record.config,
    )


def reassignment(operation: ReassignPartitions, broker_id: int) -> Outcome:
    """The result for each partition: it can only stay on the only broker."""

    def outcome(replicas: tuple[int, ...] | None) -> Outcome:
        if replicas is None:
            return Outcome(
                ErrorCode.no_reassignment_in_progress,
                "no reassignment of the partition is in progress",
            )
        if replicas == (broker_id,):
            return Outcome()
        return Outcome(ErrorCode.invalid_replica_assignment, "there is no other broker")

    return Outcome(
        partitions={index: outcome(target.replicas) for index, target in operation.targets.items()}
    )


def broker_configuration(operation: ConfigureBroker) -> Outcome:
    """The result of a change of this broker's throttles: there are none to remove, and none can be
    set. Raises `Refused`."""
    if check_broker_change(operation, {}):
        raise Refused(
            Code.POLICY_VIOLATION,
            "a standalone broker has no replicas to throttle: there is no other broker",
        )
    return Outcome()
