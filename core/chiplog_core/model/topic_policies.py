"""Rules that every topic of a cluster must keep."""

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
    """Required name prefix for the topics of a namespace."""

    namespace: Annotated[Namespace, "Namespace of the Topic objects for which the prefix applies."]
    prefix: Annotated[
        str,
        "Prefix that the names of topics of this namespace must have, like payments.",
        Length(MAX_TOPIC_NAME_LENGTH, minimum=1),
        Pattern("[a-zA-Z0-9._-]+", TOPIC_NAME_MEANING),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPolicies:
    """Rules that every topic must keep, whether it is made by kubectl or by a Kafka client.

    A topic that existed before a rule is kept, with a Warning condition. A change that newly
    breaks the rule, or breaks it more than before, is refused.
    """

    name_pattern: Annotated[
        str | None,
        "Regular expression that a whole topic name must match, like payments\\.[a-z-]+.",
        Length(512, minimum=1),
        Pattern(SHARED_SYNTAX, SHARED_SYNTAX_MEANING),
    ] = None
    namespace_prefixes: Annotated[
        tuple[NamespacePrefix, ...],
        "For each namespace of Topic objects, the one prefix with which names of topics must "
        "start. For other namespaces requireNamespacePrefix decides.",
        Items(200, key=("namespace",)),
    ] = ()
    require_namespace_prefix: Annotated[
        bool,
        "Topics in namespaces other than the cluster's must have names that start with their "
        "namespace and a dot, like team-a.orders, unless namespacePrefixes says otherwise.",
    ] = False
    max_partitions: Annotated[
        int | None, "Maximum number of partitions of a topic.", Range(1, MAX_PARTITIONS_PER_TOPIC)
    ] = None
    min_replicas: Annotated[
        int | None, "Minimum number of replicas of a topic.", Range(1, MAX_REPLICAS)
    ] = None
    min_retention: Annotated[Duration | None, "Minimum retention.ms of a topic, like 1d."] = None
    max_retention: Annotated[
        Duration | None,
        "Maximum retention.ms of a topic, like 30d. A topic that keeps records for ever is then "
        "refused, including one that is only compacted.",
    ] = None
    max_retention_bytes: Annotated[
        Quantity | None,
        "Maximum retention.bytes of a topic, like 50Gi, per partition. A topic without a limit is "
        "then refused, including one that is only compacted.",
    ] = None
