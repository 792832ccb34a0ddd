"""What Prometheus can ask about users' objects, from what is written in their status.

Made from the operator's caches when it is asked for, so that a deleted object has no metrics.
Where several objects speak for one topic or group, it is as well as the worst of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from chiplog_core.model.conditions import ConditionStatus, ConditionType
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import condition_of, key_of
from chiplog_operator.caches import Caches, cluster_of

CLUSTER: Final = ("namespace", "cluster")


class ObjectsCollector(Collector):
    """Nothing, before there are caches."""

    def __init__(self) -> None:
        self._caches: Caches | None = None

    def show(self, caches: Caches) -> None:
        """Collect from these caches from now on."""
        self._caches = caches

    def describe(self) -> Iterator[Metric]:
        """No metrics, because registering must not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The metrics of users' objects, made from the caches for each scrape."""
        yield self._family(
            kinds.BROKER_CLUSTERS,
            GaugeMetricFamily(
                "chiplog_brokercluster_ready",
                "1 if the BrokerCluster matches its spec (condition Ready), else 0.",
                labels=CLUSTER,
            ),
        )
        yield self._family(
            kinds.BROKER_CLUSTERS,
            GaugeMetricFamily(
                "chiplog_brokercluster_partitions_sharing_domain",
                "Partitions of users with two replicas on one node or in one rack, although "
                "another one with a broker that takes replicas has none of them.",
                labels=CLUSTER,
            ),
            value_of=_sharing,
        )
        yield self._family(
            kinds.TOPICS,
            GaugeMetricFamily(
                "chiplog_topic_ready",
                "1 if the Topic matches its spec (condition Ready), else 0. The namespace is that "
                "of the cluster.",
                labels=(*CLUSTER, "topic"),
            ),
            name_field="topicName",
        )
        yield self._family(
            kinds.CONSUMER_GROUPS,
            GaugeMetricFamily(
                "chiplog_consumergroup_lag_objective_met",
                "1 if the group's lag is within spec.maxLag of its ConsumerGroup, 0 if not; only "
                "for groups that set it, and while the lag is known.",
                labels=(*CLUSTER, "consumergroup"),
            ),
            name_field="groupId",
            value_of=_objective,
        )
        yield self._rebalances()

    def _family(
        self,
        kind: Kind,
        family: GaugeMetricFamily,
        *,
        name_field: str = "",
        value_of: Callable[[Manifest], int | None] | None = None,
    ) -> Metric:
        """A metric with a value for each topic, group or cluster.

        `name_field` is the field of the spec with its name; if the field is not set, it has the
        object's name. An empty `name_field` means that the cluster is the only label. `value_of`
        returns the value for an object, or None for no value; by default it is 1 if the object is
        ready. If several objects name the same topic or group, the smallest value counts.
        """
        found: dict[tuple[str, ...], int] = {}
        for manifest in self._objects(kind):
            cluster = cluster_of(kind, manifest)
            value = (value_of or _ready)(manifest)
            if cluster is None or value is None:
                continue
            spec = _mapping(manifest.get("spec"))
            name = (str(spec.get(name_field) or key_of(manifest).name),) if name_field else ()
            labels = (*cluster, *name)
            found[labels] = min(value, found.get(labels, value))
        for labels, value in sorted(found.items()):
            family.add_metric(labels, value)
        return family

    def _rebalances(self) -> Metric:
        """The metric with the state of each Rebalance: a series for each possible state."""
        family = GaugeMetricFamily(
            "chiplog_rebalance_state",
            "1 for the current state of the Rebalance, 0 for all others.",
            labels=("namespace", "name", "cluster", "state"),
        )
        for manifest in self._objects(kinds.REBALANCES):
            cluster = cluster_of(kinds.REBALANCES, manifest)
            now = _mapping(manifest.get("status")).get("state") or RebalanceState.NEW.value
            if cluster is None:
                continue
            for state in RebalanceState:
                labels = [*key_of(manifest), cluster.name, state.value]
                family.add_metric(labels, int(state.value == now))
        return family

    def _objects(self, kind: Kind) -> list[Manifest]:
        """All objects of a kind by namespace and name; none before `show`."""
        if self._caches is None:
            return []
        return [manifest for _, manifest in sorted(self._caches[kind].objects.items())]


def _ready(manifest: Manifest) -> int:
    """1 if the condition Ready is true, else 0."""
    ready = condition_of(manifest, ConditionType.READY.value)
    return int(ready.get("status") == ConditionStatus.TRUE.value)


def _sharing(manifest: Manifest) -> int | None:
    """How many partitions share a node or rack without need; None before it is known."""
    found = _mapping(manifest.get("status")).get("sharingPartitions")
    return found if isinstance(found, int) else None


def _objective(manifest: Manifest) -> int | None:
    """1 if the lag objective is met, 0 if not; None without an objective, or if it is unknown."""
    if not _mapping(manifest.get("spec")).get("maxLag"):
        return None
    status = condition_of(manifest, ConditionType.LAG_WITHIN_OBJECTIVE.value).get("status")
    if status not in {ConditionStatus.TRUE.value, ConditionStatus.FALSE.value}:
        return None
    return int(status == ConditionStatus.TRUE.value)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
