"""The PodDisruptionBudget: a node drain takes one broker at a time, and waits for its return."""

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import brokers_selector, cluster_object


def disruption_budget(cluster: BrokerCluster) -> Manifest:
    """The PodDisruptionBudget for the pods of all brokers: an eviction may stop one at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": brokers_selector(cluster)}}
    name = names.disruption_budget(cluster.metadata.name)
    return cluster_object(kinds.DISRUPTION_BUDGETS, name, cluster, {"spec": spec})
