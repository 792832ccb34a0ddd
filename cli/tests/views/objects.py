"""Objects as the API server sends them."""

from collections.abc import Mapping, Sequence
from typing import Any

API_VERSION = "chiplog.dev/v1alpha1"
EXTERNAL = "external"


def condition(name: str, status: str = "True", reason: str = "AsSpec") -> dict[str, Any]:
    return {
        "type": name,
        "status": status,
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-31T12:00:00Z",
        "reason": reason,
        "message": f"{name} is {reason}.",
    }


def broker_cluster(listeners: Mapping[str, str], **status: Any) -> dict[str, Any]:
    """`demo` in the namespace `shop`; the listener `external` is one of type nodeport."""
    return {
        "apiVersion": API_VERSION,
        "kind": "BrokerCluster",
        "metadata": _metadata("demo", "shop"),
        "spec": {
            "replicas": 3,
            "storage": {"size": "10Gi"},
            "listeners": [
                {
                    "name": name,
                    "type": "nodeport" if name == EXTERNAL else "internal",
                    "port": 9094 if name == EXTERNAL else 9092,
                }
                for name in listeners
            ],
        },
        "status": {
            "clusterId": "c-1",
            "readyReplicas": 2,
            "partitions": 6,
            "underReplicatedPartitions": 1,
            "listeners": [
                {"name": name, "bootstrapServers": address} for name, address in listeners.items()
            ],
            **status,
        },
    }


def topic(
    name: str,
    namespace: str = "shop",
    reference: str = "demo",
    reference_namespace: str | None = None,
    conditions: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    named = {"namespace": reference_namespace} if reference_namespace else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": _metadata(name, namespace),
        "spec": {"clusterRef": {"name": reference, **named}, "partitions": 6},
        "status": {"partitions": 6, "replicas": 3, "conditions": list(conditions)},
    }


def _metadata(name: str, namespace: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "generation": 1,
    }
