"""Objects as users write them, and short ways to look at them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from chiplog_core.ids import BrokerId, ReplicaRef
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.partition_map import Generation, PartitionMap, PartitionState
from chiplog_core.model.topic import Topic
from chiplog_core.naming.api import API_VERSION
from chiplog_core.topic_name import is_internal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOME = "home"
CLUSTER = "demo"


def internal_topics(*, partitions: int = 1, replicas: int = 1) -> dict[str, object]:
    """The configuration of a cluster whose internal topics are created with these sizes.

    Without arguments they are on one broker only.
    """
    return {
        "offsets.topic.num.partitions": partitions,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": partitions,
        "transaction.state.log.replication.factor": replicas,
    }


def cluster(replicas: int = 3, **spec: object) -> BrokerCluster:
    """A BrokerCluster as a user writes it."""
    given = spec.get("config", {})
    assert isinstance(given, Mapping)
    spec["config"] = {**internal_topics(), **given}
    return BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": CLUSTER, "namespace": HOME},
            "spec": {"replicas": replicas, "storage": {"size": "1Gi"}, **spec},
        }
    )


def topic(
    name: str = "orders", *, annotations: Mapping[str, str] | None = None, **spec: object
) -> Topic:
    """A Topic as a user writes it."""
    return Topic.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "Topic",
            "metadata": {"name": name, "namespace": HOME, "annotations": dict(annotations or {})},
            "spec": {"clusterRef": {"name": CLUSTER}, **spec},
        }
    )


def partitions_of(
    maps: Iterable[PartitionMap],
) -> Iterator[tuple[str, Generation, PartitionState]]:
    for one in maps:
        for generation in one.spec.generations:
            for state in generation.partitions:
                yield one.spec.topic_name, generation, state


def removable(state: PartitionState) -> set[BrokerId]:
    """The brokers that may delete what they have of the partition."""
    return {one.broker for one in state.leftovers if one.removable_since is not None}


def of_users(maps: Mapping[str, PartitionMap]) -> dict[str, PartitionMap]:
    """Those of topics that users asked for, by name."""
    return {name: one for name, one in maps.items() if not is_internal(name)}


def ref(text: str) -> ReplicaRef:
    return ReplicaRef.from_text(text)
