"""What all objects of a cluster have in common: where they are, whose they are, how to find them.

Every object is the BrokerCluster's own, so Kubernetes removes it after the cluster. What holds
metadata or data (Broker, PartitionMap, volume claims) is not made here and has no owner.
"""

from collections.abc import Mapping

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.user import User
from chiplog_core.naming import labels
from chiplog_core.naming.api import API_VERSION, BROKER_CLUSTER, USER
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind


def cluster_object(
    kind: Kind, name: str, cluster: BrokerCluster, parts: Mapping[str, object]
) -> Manifest:
    """The manifest of an object that exists once for the cluster. `parts` are its fields beside
    the metadata."""
    return _object(kind, name, cluster, labels.of_cluster(cluster.metadata.name), parts)


def broker_object(
    kind: Kind, name: str, cluster: BrokerCluster, broker_id: BrokerId, parts: Mapping[str, object]
) -> Manifest:
    """The manifest of an object that exists once for each broker. `parts` are its fields beside
    the metadata."""
    return _object(kind, name, cluster, broker_labels(cluster, broker_id), parts)


def broker_labels(cluster: BrokerCluster, broker_id: BrokerId) -> dict[str, str]:
    """The labels of one broker's objects, including its pod."""
    return labels.of_cluster(cluster.metadata.name) | broker_selector(cluster, broker_id)


def brokers_selector(cluster: BrokerCluster) -> dict[str, str]:
    """The labels that select the pods of all of a cluster's brokers."""
    return {labels.CLUSTER: cluster.metadata.name, labels.COMPONENT: labels.BROKER}


def broker_selector(cluster: BrokerCluster, broker_id: BrokerId) -> dict[str, str]:
    """The labels that select one broker's pod. They can never change, because a StatefulSet's
    selector is immutable."""
    return {**brokers_selector(cluster), labels.BROKER_ID: str(broker_id)}


def _object(
    kind: Kind,
    name: str,
    cluster: BrokerCluster,
    object_labels: Mapping[str, str],
    parts: Mapping[str, object],
) -> Manifest:
    """A manifest of the cluster, which owns it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": name,
            "namespace": cluster.metadata.namespace,
            "labels": dict(object_labels),
            "ownerReferences": [owner_of(cluster)],
        },
        **parts,
    }


def owner_of(owner: BrokerCluster | User) -> dict[str, object]:
    """The owner reference, by which Kubernetes deletes the object after the cluster or user."""
    kind = BROKER_CLUSTER if isinstance(owner, BrokerCluster) else USER
    return {
        "apiVersion": API_VERSION,
        "kind": kind.kind,
        "name": owner.metadata.name,
        "uid": owner.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
