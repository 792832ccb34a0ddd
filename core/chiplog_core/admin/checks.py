"""Checks whether an admin operation can be carried out, in Kafka's order and with Kafka's error
codes and messages.

The caller has found the topic before. Checks that need Kubernetes (who manages the object, what
happens to its records) are elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from chiplog_core.admin.capacity import Capacity
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import changed
from chiplog_core.admin.operations import ConfigureTopic, CreateTopic, GrowTopic
from chiplog_core.admin.topic_names import colliding_name, why_not_a_topic_name
from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.given import given_topic_config
from chiplog_core.config.topic_keys import MIN_INSYNC_REPLICAS
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC, MAX_REPLICAS
from chiplog_core.topic_name import TRANSACTION_STATE, is_internal


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts about a cluster that the checks need."""

    broker_ids: Collection[int]
    """The brokers that can hold replicas."""
    default_partitions: int
    default_replicas: int = 1
    topics: Collection[str] = ()
    """All topic names that are in use."""
    capacity: Capacity
    """How many topics and partitions there are, and may be."""
    inherited: Mapping[str, str] = field(default_factory=dict)
    """The part of the brokers' configuration that topics inherit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic that can be created, with every default filled in."""

    partitions: int
    replicas: int
    config: Mapping[str, str]
    """In Kafka's text form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTopic:
    """The facts about an existing topic that the checks need."""

    name: str
    partitions: int
    replicas: int
    config: Mapping[str, str]


def check_creation(operation: CreateTopic, facts: ClusterFacts) -> NewTopic:
    """The new topic with every default filled in. Raises `Refused` if it cannot be created."""
    check_new_name(operation.name, facts.topics)
    partitions, replicas = counts(operation, facts)
    check_capacity(facts, topics=1, partitions=partitions)
    config = checked_config(operation.config, replicas)
    return NewTopic(partitions=partitions, replicas=replicas, config=config)


def check_growth(operation: GrowTopic, topic: ExistingTopic, facts: ClusterFacts) -> int:
    """The number of partitions that the operation adds. Raises `Refused`."""
    current = topic.partitions
    if operation.partitions <= current:
        verb = "already has" if operation.partitions == current else "has"
        raise Refused(
            Code.INVALID_PARTITIONS,
            f"Topic {verb} {current} partition(s), the number can only grow.",
        )
    check_count(operation.partitions)
    added = operation.partitions - current
    check_capacity(facts, topics=0, partitions=added)
    if operation.assignments:
        if len(operation.assignments) != added:
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are added, but {len(operation.assignments)} have a replica "
                "assignment: give each added partition one",
            )
        check_placement(operation.assignments, facts, topic.replicas)
    return added


def check_configuration(
    operation: ConfigureTopic, topic: ExistingTopic, facts: ClusterFacts
) -> Mapping[str, str]:
    """The topic's own configuration after the change. Raises `Refused`."""
    own = {} if operation.replace else topic.config
    try:
        config = changed(TopicConfig(own, facts.inherited), operation.changes)
    except ValueError as error:
        raise Refused(Code.INVALID_CONFIG, str(error)) from error
    return checked_config(config, topic.replicas, by_client=True)


def check_new_name(name: str, topics: Collection[str]) -> None:
    """Check that a new topic can have this name. Raises `Refused`."""
    if why := why_not_a_topic_name(name):
        raise Refused(Code.INVALID_TOPIC_EXCEPTION, why)
    if name in topics:
        raise Refused(Code.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if is_internal(name):
        raise Refused(
            Code.INVALID_TOPIC_EXCEPTION,
            f"{name} is an internal topic, which the cluster creates itself",
        )
    if other := colliding_name(name, topics):
        raise Refused(
            Code.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with existing topic: {other}",
        )


def check_not_internal(name: str) -> None:
    """Check that clients may delete, grow or configure a topic of this name. Raises `Refused` for
    internal topics.

    Apache Kafka's controller checks only the client's permission. But more partitions would move
    every group or transactional id to another coordinator (KIP-1268), and a deletion would delete
    all committed offsets, or what was decided about transactions.
    """
    if is_internal(name):
        keys = "transaction.state.log.*" if name == TRANSACTION_STATE else "offsets.topic.*"
        raise Refused(
            Code.INVALID_TOPIC_EXCEPTION,
            f"{name} is an internal topic, which clients cannot change or delete: change the "
            f"{keys} keys of the brokers' configuration",
        )


def counts(operation: CreateTopic, facts: ClusterFacts) -> tuple[int, int]:
    """The numbers of partitions and replicas of a new topic. The request gives them as numbers, or
    by a replica assignment, or leaves them to the cluster's defaults. Raises `Refused`."""
    if operation.assignments:
        return _placed_counts(operation, facts)
    replicas = facts.default_replicas if operation.replicas is None else operation.replicas
    partitions = facts.default_partitions if operation.partitions is None else operation.partitions
    check_replicas(replicas, facts)
    check_count(partitions)
    return partitions, replicas


def _placed_counts(operation: CreateTopic, facts: ClusterFacts) -> tuple[int, int]:
    """The numbers of partitions and replicas in a replica assignment. Raises `Refused`."""
    if operation.partitions is not None or operation.replicas is not None:
        raise Refused(
            Code.INVALID_REQUEST,
            "give either partitions and replication factor, or a replica assignment",
        )
    placements = operation.assignments
    replicas = len(next(iter(placements.values())))
    check_placement(placements.values(), facts, replicas)
    if sorted(placements) != list(range(len(placements))):
        raise Refused(
            Code.INVALID_REPLICA_ASSIGNMENT,
            "the partitions of a replica assignment must be numbered from 0, without gaps",
        )
    check_count(len(placements))
    return len(placements), replicas


def check_replicas(replicas: int, facts: ClusterFacts) -> None:
    """Check that there are enough brokers for this many replicas. Raises `Refused`."""
    if not 1 <= replicas <= MAX_REPLICAS:
        raise Refused(
            Code.INVALID_REPLICATION_FACTOR,
            f"Replication factor must be larger than 0 and at most {MAX_REPLICAS}, or -1 to use "
            "the default value.",
        )
    if replicas > len(facts.broker_ids):
        raise Refused(
            Code.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication "
            f"factor of {replicas} cannot be reached because only {len(facts.broker_ids)} "
            "broker(s) are registered.",
        )


def check_count(count: int) -> None:
    """Check that a topic can have this many partitions. Raises `Refused`."""
    if count < 1:
        raise Refused(Code.INVALID_PARTITIONS, "Number of partitions was set to an invalid value.")
    if count > MAX_PARTITIONS_PER_TOPIC:
        raise Refused(
            Code.INVALID_PARTITIONS,
            f"{count} partitions exceed the limit of {MAX_PARTITIONS_PER_TOPIC} for one topic",
        )


def check_capacity(facts: ClusterFacts, *, topics: int, partitions: int) -> None:
    """Check that the cluster's limits allow this many more topics and partitions. Raises
    `Refused`."""
    if why := facts.capacity.why_exceeded(topics=topics, partitions=partitions):
        raise Refused(Code.POLICY_VIOLATION, why)


def check_placement(
    placements: Iterable[tuple[int, ...]], facts: ClusterFacts, replicas: int
) -> None:
    """Check a replica assignment: for each partition, this many different existing brokers. Raises
    `Refused`."""
    for brokers in placements:
        if unknown := sorted(set(brokers) - set(facts.broker_ids)):
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(brokers)} name brokers that do not exist: {unknown}",
            )
        if not brokers or len(brokers) != replicas or len(set(brokers)) != len(brokers):
            raise Refused(
                Code.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(brokers)} must be {replicas or 'some'} different brokers, "
                "as for the other partitions",
            )


def checked_config(
    config: Mapping[str, str], replicas: int, *, by_client: bool = False
) -> Mapping[str, str]:
    """The configuration with every value in Kafka's own text form. `by_client` allows the keys that
    only clients set. Raises `Refused`."""
    parsed = given_topic_config(config, "config", by_client=by_client)
    if parsed.problems:
        raise Refused(Code.INVALID_CONFIG, "; ".join(map(str, parsed.problems)))
    if int(parsed.values.get(MIN_INSYNC_REPLICAS.name, "1")) > replicas:
        raise Refused(
            Code.INVALID_CONFIG,
            f"config[{MIN_INSYNC_REPLICAS.name}] is above the number of replicas, {replicas}: "
            f"set it to at most {replicas}",
        )
    return parsed.values
