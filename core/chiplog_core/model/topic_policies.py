"""Guard rails: what every topic of a cluster must keep to."""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC, MAX_REPLICAS, MAX_TOPIC_NAME_LENGTH
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.references import Namespace
from chiplog_core.topic_name import TOPIC_NAME_MEANING


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePrefix:
    """How topics of one namespace must begin."""

    namespace: Annotated[Namespace, "The namespace of the Topic objects."]
    prefix: Annotated[
        str,
        "What the names of their topics must begin with, like payments.",
        Length(MAX_TOPIC_NAME_LENGTH, minimum=1),
        Pattern("[a-zA-Z0-9._-]+", TOPIC_NAME_MEANING),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicies:
    """Rules that every topic must keep, whether it is made by kubectl or by a Kafka client."""

    name_pattern: Annotated[
        str | None,
        "Regular expression that a whole topic name must match, in the syntax of RE2.",
        Length(512, minimum=1),
    ] = None
    namespace_prefixes: Annotated[
        tuple[NamespacePrefix, ...],
        "How topics of each namespace must begin.",
        Items(200, key=("namespace",)),
    ] = ()
    max_partitions: Annotated[
        int | None, "The most partitions a topic may have.", Range(1, MAX_PARTITIONS_PER_TOPIC)
    ] = None
    min_replicas: Annotated[
        int | None, "The fewest replicas a topic may have.", Range(1, MAX_REPLICAS)
    ] = None
    min_retention: Annotated[
        Duration | None, "The shortest retention.ms a topic may have, like 1d."
    ] = None
    max_retention: Annotated[
        Duration | None,
        "The longest retention.ms a topic may have, like 30d; a topic that keeps records for "
        "ever is then refused.",
    ] = None
