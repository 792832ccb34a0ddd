"""References from one object to another, and text types that several kinds share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from chiplog_core.ids import BrokerId
from chiplog_core.limits import (
    MAX_ADMIN_BODY_LENGTH,
    MAX_CONFIG_ENTRIES,
    MAX_GROUP_ID_LENGTH,
    MAX_NAME_LENGTH,
    MAX_REPLICAS_PER_PARTITION,
    MAX_TOPIC_NAME_LENGTH,
)
from chiplog_core.manifest.constraints import Entries, Items, Length, Pattern
from chiplog_core.naming.names import (
    CLUSTER_NAME_MEANING,
    CLUSTER_NAME_PATTERN,
    MAX_CLUSTER_NAME_LENGTH,
)
from chiplog_core.topic_name import TOPIC_NAME_MEANING, TOPIC_NAME_PATTERN

ClusterName = Annotated[
    str,
    Length(MAX_CLUSTER_NAME_LENGTH, minimum=1),
    Pattern(CLUSTER_NAME_PATTERN, CLUSTER_NAME_MEANING),
]
Namespace = Annotated[
    str,
    Length(63, minimum=1),
    Pattern("[a-z0-9]([-a-z0-9]*[a-z0-9])?", "the name of a namespace"),
]
TopicName = Annotated[
    str,
    Length(MAX_TOPIC_NAME_LENGTH, minimum=1),
    Pattern(TOPIC_NAME_PATTERN, TOPIC_NAME_MEANING),
]
GroupId = Annotated[str, Length(MAX_GROUP_ID_LENGTH, minimum=1)]
ObjectName = Annotated[
    str,
    Length(MAX_NAME_LENGTH, minimum=1),
    Pattern(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
        "the name of a Kubernetes object",
    ),
]

ConfigScalar: TypeAlias = str | int | float | bool
"""A configuration value in a manifest. It is converted to Kafka's text form when it is checked."""

ConfigTexts = Annotated[Mapping[str, Annotated[str, Length(1024)]], Entries(200)]
"""Checked configuration in Kafka's text form."""

ClientConfig = Annotated[
    Mapping[str, Annotated[str, Length(MAX_ADMIN_BODY_LENGTH)]], Entries(MAX_CONFIG_ENTRIES)
]
"""Checked configuration that Kafka's clients set, in Kafka's text form. The lists of throttled
replicas are as long as a request may be."""

ReplicaList = Annotated[
    tuple[BrokerId, ...], Items(MAX_REPLICAS_PER_PARTITION, minimum=1, unique=True, ordered=True)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRef:
    """The BrokerCluster that an object belongs to."""

    name: Annotated[ClusterName, "metadata.name of the BrokerCluster."]
    namespace: Annotated[
        Namespace | None,
        "Namespace of the BrokerCluster; default: the namespace of this object. Another namespace "
        "works only if the cluster's allowedTopicNamespaces contains the namespace of this object.",
    ] = None
