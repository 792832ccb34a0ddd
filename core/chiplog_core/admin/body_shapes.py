"""The bodies of admin requests as Kafka declares their messages, with one topic or user in each.

The limits here are only those of Kafka's types and of the length of a body. The module `checks`
checks the values, because it answers with Kafka's error codes.
"""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.admin.config_change import Change
from chiplog_core.client_quotas.entities import MAX_QUOTA, Quota
from chiplog_core.ids import MAX_INT32, LeaderEpoch, PartitionEpoch, PartitionIndex, TopicId
from chiplog_core.limits import (
    MAX_ACLS_PER_USER,
    MAX_ADMIN_BODY_LENGTH,
    MAX_ADMIN_RESULTS,
    MAX_USERNAME_LENGTH,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.access_list import AclEntry, Principal

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
"""Kafka's numbers of the config resource types TOPIC and BROKER."""

Int32 = Annotated[int, Range(-MAX_INT32 - 1, MAX_INT32)]
Text = Annotated[str, Length(MAX_ADMIN_BODY_LENGTH)]
BrokerIds = Annotated[tuple[Int32, ...], Items(MAX_ADMIN_BODY_LENGTH, ordered=True)]
TopicResource = Annotated[int, Range(TOPIC_RESOURCE, TOPIC_RESOURCE)]
TopicOrBrokerResource = Annotated[int, Range(TOPIC_RESOURCE, BROKER_RESOURCE)]

PREFERRED_ELECTION = 0
UNCLEAN_ELECTION = 1
"""Kafka's numbers of the two election types."""

ONE = Items(1, minimum=1)
MANY = Items(MAX_ADMIN_BODY_LENGTH)
MANY_NAMES = Items(MAX_ADMIN_BODY_LENGTH, key=("name",))
MANY_PARTITIONS = Items(MAX_ADMIN_BODY_LENGTH, key=("partitionIndex",))
ELECTED = Items(MAX_ADMIN_RESULTS, minimum=1, key=("partitionIndex",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """A key and its value."""

    name: Text
    value: Text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPartition:
    """A partition of a new topic, with the brokers that the client chose for its replicas."""

    partition_index: Int32
    broker_ids: BrokerIds


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatableTopic:
    """A new topic; -1 leaves a count to the cluster."""

    name: Text
    num_partitions: Int32
    replication_factor: Int32
    assignments: Annotated[tuple[PlacedPartition, ...], MANY_PARTITIONS]
    configs: Annotated[tuple[Config, ...], MANY_NAMES]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopics:
    """CreateTopicsRequest."""

    topics: Annotated[tuple[CreatableTopic, ...], ONE]
    timeout_ms: Int32
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableTopic:
    """A topic to delete. If an id is given, the topic is deleted only if it has this id."""

    name: Text
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopics:
    """DeleteTopicsRequest."""

    topics: Annotated[tuple[DeletableTopic, ...], ONE]
    timeout_ms: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One of the new partitions, with the brokers that the client chose for its replicas."""

    broker_ids: BrokerIds


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowingTopic:
    """A topic and the number of partitions it should have."""

    name: Text
    count: Int32
    assignments: Annotated[tuple[Placement, ...], MANY]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """CreatePartitionsRequest."""

    topics: Annotated[tuple[GrowingTopic, ...], ONE]
    timeout_ms: Int32
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedResource:
    """A topic and its whole configuration."""

    resource_type: TopicResource
    resource_name: Text
    configs: Annotated[tuple[Config, ...], MANY_NAMES]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterConfigs:
    """AlterConfigsRequest."""

    resources: Annotated[tuple[ReplacedResource, ...], ONE]
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOperation:
    """A key, the kind of its change (see `Change`) and the value; a DELETE has no value."""

    name: Text
    config_operation: Annotated[int, Range(min(Change), max(Change))]
    value: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedResource:
    """A topic or a broker, and the changes to its configuration."""

    resource_type: TopicOrBrokerResource
    resource_name: Text
    configs: Annotated[tuple[ConfigOperation, ...], MANY_NAMES]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalAlterConfigs:
    """IncrementalAlterConfigsRequest."""

    resources: Annotated[tuple[ChangedResource, ...], ONE]
    validate_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectedPartition:
    """A partition and its leader epoch as the broker knew it that got the request."""

    partition_index: PartitionIndex
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Partitions of one topic. If an id is given, the topic must have this id."""

    topic: Text
    topic_id: TopicId | None = None
    partitions: Annotated[tuple[ElectedPartition, ...], ELECTED]


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """ElectLeadersRequest. Election type 0 is preferred, 1 unclean."""

    election_type: Annotated[int, Range(PREFERRED_ELECTION, UNCLEAN_ELECTION)]
    topic_partitions: Annotated[tuple[TopicPartitions, ...], ONE]
    timeout_ms: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignablePartition:
    """A partition, its new replicas (none to cancel), and its partition epoch as the broker knew it
    that got the request."""

    partition_index: PartitionIndex
    replicas: BrokerIds | None = None
    partition_epoch: PartitionEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignableTopic:
    """Partitions of the topic that has this id."""

    name: Text
    topic_id: TopicId
    partitions: Annotated[tuple[ReassignablePartition, ...], ELECTED]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReassignments:
    """AlterPartitionReassignmentsRequest."""

    allow_replication_factor_change: bool = True
    topics: Annotated[tuple[ReassignableTopic, ...], ONE]
    timeout_ms: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterAcls:
    """CreateAclsRequest, or the ACLs that a DeleteAclsRequest matches: those of one principal,
    grouped as in an AccessList."""

    principal: Principal
    acls: Annotated[tuple[AclEntry, ...], Items(MAX_ACLS_PER_USER, minimum=1)]
    timeout_ms: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramChange:
    """A credential of one user: to store `sealed`, or without it to delete what is stored."""

    name: Annotated[str, Length(MAX_USERNAME_LENGTH, minimum=1)]
    sealed: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterUserScramCredentials:
    """AlterUserScramCredentialsRequest, with a sealed verifier instead of the salted password."""

    users: Annotated[tuple[ScramChange, ...], ONE]
    timeout_ms: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOperation:
    """A quota and its value; without one it is removed."""

    key: Quota
    value: Annotated[float | None, Range(0, int(MAX_QUOTA))] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntry:
    """The changes for one user."""

    user: Annotated[str, Length(MAX_USERNAME_LENGTH, minimum=1)]
    ops: Annotated[tuple[QuotaOperation, ...], Items(len(Quota), key=("key",))]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterClientQuotas:
    """AlterClientQuotasRequest, for users only."""

    entries: Annotated[tuple[QuotaEntry, ...], ONE]
    validate_only: bool
    timeout_ms: Int32
