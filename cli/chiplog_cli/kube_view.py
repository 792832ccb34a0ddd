"""What `status --cluster` shows: the conditions that the operator keeps, and where to connect."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from chiplog_cli.status_view import pairs
from chiplog_cli.tables import table
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.conditions import Condition, ConditionStatus, ConditionType
from chiplog_core.model.topic import Topic
from chiplog_core.telemetry.findings import Finding

CONDITION_HEADER = ("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
TOPIC_HEADER = ("TOPIC", "NAMESPACE", "PARTITIONS", "REPLICAS", "READY", "REASON", "MESSAGE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A BrokerCluster and the Topics that name it."""

    cluster: BrokerCluster
    topics: tuple[Topic, ...]


def belongs(topic: Topic, cluster: BrokerCluster) -> bool:
    """Whether the Topic names this cluster."""
    reference = topic.spec.cluster_ref
    namespace = reference.namespace or topic.metadata.namespace
    return (reference.name, namespace) == (cluster.metadata.name, cluster.metadata.namespace)


def readiness(described: Described) -> Iterator[Finding]:
    """A finding for the cluster and each of its Topics: whether it matches its newest spec."""
    objects: Iterable[BrokerCluster | Topic] = (described.cluster, *described.topics)
    for item in objects:
        meta = item.metadata
        what = f"{item.KIND.kind} {meta.namespace}/{meta.name} is Ready"
        ready = {condition.type: condition for condition in item.status.conditions}.get(
            ConditionType.READY
        )
        if ready is None or (item.status.observed_generation or 0) < meta.generation:
            yield Finding(
                what, "the operator has not reconciled its newest spec yet; see the operator's log"
            )
        elif ready.status is not ConditionStatus.TRUE:
            yield Finding(what, f"{ready.reason}: {ready.message}")
        else:
            yield Finding(what)


def document(described: Described) -> dict[str, Any]:
    """The statuses of the BrokerCluster and its Topics for JSON and YAML."""
    cluster, status = described.cluster, described.cluster.status
    return {
        "name": cluster.metadata.name,
        "namespace": cluster.metadata.namespace,
        "clusterId": status.cluster_id,
        "replicas": cluster.spec.replicas,
        "readyReplicas": status.ready_replicas,
        "topics": status.topics,
        "partitions": status.partitions,
        "offlinePartitions": status.offline_partitions,
        "underReplicatedPartitions": status.under_replicated_partitions,
        "listeners": [
            {"name": listener.name, "bootstrapServers": listener.bootstrap_servers}
            for listener in status.listeners
        ],
        "conditions": [_condition(condition) for condition in status.conditions],
        "topicObjects": [_topic(topic) for topic in described.topics],
    }


def text(described: Described) -> str:
    """The statuses of the BrokerCluster and its Topics as text and tables."""
    shown = document(described)
    header = {
        "BrokerCluster": f"{shown['namespace']}/{shown['name']}",
        "Cluster id": shown["clusterId"] or "unknown",
        "Brokers": f"{_or_unknown(shown['readyReplicas'])} of {shown['replicas']} ready",
        "Topics": _or_unknown(shown["topics"]),
        "Partitions": f"{_or_unknown(shown['partitions'])} "
        f"({_or_unknown(shown['offlinePartitions'])} offline, "
        f"{_or_unknown(shown['underReplicatedPartitions'])} under-replicated)",
    }
    for listener in shown["listeners"]:
        header[f"Listener {listener['name']}"] = listener["bootstrapServers"]
    conditions = [tuple(condition.values()) for condition in shown["conditions"]]
    topics = [_topic_row(topic) for topic in shown["topicObjects"]]
    parts = [pairs(header), table(CONDITION_HEADER, conditions), table(TOPIC_HEADER, topics)]
    return "\n\n".join(parts)


def _topic(topic: Topic) -> dict[str, Any]:
    """A Topic as a document."""
    return {
        "topic": topic.topic_name,
        "namespace": topic.metadata.namespace,
        "partitions": topic.status.partitions,
        "replicas": topic.status.replicas,
        "conditions": [_condition(condition) for condition in topic.status.conditions],
    }


def _topic_row(topic: Mapping[str, Any]) -> tuple[object, ...]:
    """The row of a Topic's document."""
    shown = _ready_or_warning(topic["conditions"])
    facts = (topic[key] for key in ("topic", "namespace", "partitions", "replicas"))
    return (*facts, shown.get("status"), shown.get("reason"), shown.get("message"))


def _ready_or_warning(conditions: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The condition Ready; empty without one. If Ready and Warning are both True, it has reason and
    message of Warning, because those of Ready say nothing then."""
    by_type = {condition["type"]: condition for condition in conditions}
    ready = by_type.get(ConditionType.READY, {})
    warning = by_type.get(ConditionType.WARNING)
    if warning and warning["status"] == ready.get("status") == ConditionStatus.TRUE:
        return {**ready, "reason": warning["reason"], "message": warning["message"]}
    return ready


def _condition(condition: Condition) -> dict[str, Any]:
    """A condition as a document."""
    return {
        "type": condition.type,
        "status": condition.status.value,
        "lastTransitionTime": _time(condition.last_transition_time),
        "reason": condition.reason,
        "message": condition.message,
    }


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def _or_unknown(value: object) -> object:
    return "unknown" if value is None else value


def topics_of_cluster(topics: Iterable[Topic], cluster: BrokerCluster) -> tuple[Topic, ...]:
    """The Topics that name the cluster, by name."""
    return tuple(
        sorted(
            (topic for topic in topics if belongs(topic, cluster)),
            key=lambda topic: (topic.topic_name, topic.metadata.namespace),
        )
    )
