"""Admin requests of Kafka clients that only the operator can carry out, and its answers.

A broker may write only its own status. So it puts a client's request, like CreateTopics, there and
waits until the operator has carried it out and has put the answer into the broker's spec. The
broker removes the request when it has answered its client; then the operator removes the answer.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import PartitionIndex
from chiplog_core.limits import (
    MAX_ADMIN_BODY_LENGTH,
    MAX_ADMIN_RESULTS,
    MAX_PARTITIONS_PER_TOPIC,
    MAX_REPLICAS,
    MAX_REQUESTER_LENGTH,
)
from chiplog_core.manifest.constraints import Items, Length, Range
from chiplog_core.model.metadata import Uid
from chiplog_core.model.references import TopicName

RequestId = Annotated[str, Length(64, minimum=1)]


class AdminOperation(StrEnum):
    """The requests of Kafka's protocol that only the operator can carry out."""

    CREATE_TOPICS = "CreateTopics"
    DELETE_TOPICS = "DeleteTopics"
    CREATE_PARTITIONS = "CreatePartitions"
    ALTER_CONFIGS = "AlterConfigs"
    INCREMENTAL_ALTER_CONFIGS = "IncrementalAlterConfigs"
    ELECT_LEADERS = "ElectLeaders"
    ALTER_PARTITION_REASSIGNMENTS = "AlterPartitionReassignments"
    CREATE_ACLS = "CreateAcls"
    DELETE_ACLS = "DeleteAcls"
    ALTER_USER_SCRAM_CREDENTIALS = "AlterUserScramCredentials"
    ALTER_CLIENT_QUOTAS = "AlterClientQuotas"


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest:
    """A client's request to a broker."""

    id: Annotated[RequestId, "Name of the request, unique for this broker."]
    principal: Annotated[
        str,
        "Principal of the client, as authenticated by the broker.",
        Length(MAX_REQUESTER_LENGTH),
    ]
    op: Annotated[AdminOperation, "Name of the Kafka request."]
    body: Annotated[
        str,
        "The Kafka request as JSON, with the field names of Kafka's protocol. What only brokers "
        "and the operator may know is encrypted.",
        Length(MAX_ADMIN_BODY_LENGTH),
    ]
    deadline: Annotated[
        datetime,
        "When the client stops waiting for the answer. The operator drops the request "
        "if it has not started it by then.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminResult:
    """Result for one topic of a request, or for one of its partitions."""

    topic: Annotated[TopicName, "Name of the topic that this result is about."]
    partition: Annotated[
        PartitionIndex | None,
        "Number of the partition that this result is about; only for requests with one "
        "result per partition.",
    ] = None
    error_code: Annotated[
        int, "Kafka's error code for this topic or partition; 0 for success.", Range(-1, 32_767)
    ]
    error_message: Annotated[str, "Error message for the client.", Length(4_096)] = ""
    topic_uid: Annotated[
        Uid | None,
        "metadata.uid of the Topic object. The broker reports success to the client "
        "when it has seen the PartitionMap that this Topic owns.",
    ] = None
    partitions: Annotated[
        int | None,
        "Only for a CreateTopics with validateOnly: how many partitions the topic would have.",
        Range(1, MAX_PARTITIONS_PER_TOPIC),
    ] = None
    replicas: Annotated[
        int | None,
        "Only for a CreateTopics with validateOnly: how many replicas each partition would have.",
        Range(1, MAX_REPLICAS),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminAnswer:
    """The operator's answer to a request."""

    id: Annotated[RequestId, "Id of the request in status.requests that is answered."]
    error_code: Annotated[
        int, "Kafka's error code for the request as a whole; 0 for none.", Range(-1, 32_767)
    ] = 0
    error_message: Annotated[str, "Error message for the client.", Length(4_096)] = ""
    results: Annotated[
        tuple[AdminResult, ...],
        "Result for each topic of the request, or for each partition.",
        Items(MAX_ADMIN_RESULTS),
    ] = ()
