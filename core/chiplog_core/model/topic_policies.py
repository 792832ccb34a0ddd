"""Guard rails: what every topic of a cluster must keep to."""

from dataclasses import dataclass
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC, MAX_REPLICAS, MAX_TOPIC_NAME_LENGTH
from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.name_pattern import SHARED_SYNTAX, SHARED_SYNTAX_MEANING
from chiplog_core.model.references import Namespace
from chiplog_core.quantities import Quantity
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
    """Rules that every topic must keep, whether it is made by kubectl or by a Kafka client.

    A topic that was there before a rule runs on, with a Warning condition; what would break the
    rule anew or more than before is refused.
    """

    name_pattern: Annotated[
        str | None,
        "Regular expression that a whole topic name must match, like payments\\.[a-z-]+.",
        Length(512, minimum=1),
        Pattern(SHARED_SYNTAX, SHARED_SYNTAX_MEANING),
    ] = None
    namespace_prefixes: Annotated[
        tuple[NamespacePrefix, ...],
        "How topics of each of these namespaces must begin.",
        Items(200, key=("namespace",)),
    ] = ()
    require_namespace_prefix: Annotated[
        bool,
        "Topics of every other namespace than the cluster's must begin with the name of their "
        "namespace and a dot, like team-a.orders, unless namespacePrefixes says otherwise.",
    ] = False
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
        "ever is then refused, also one that is only compacted.",
    ] = None
    max_retention_bytes: Annotated[
        Quantity | None,
        "The largest retention.bytes a topic may have, like 50Gi. It counts per partition. A topic "
        "that sets no limit is then refused, also one that is only compacted.",
    ] = None
