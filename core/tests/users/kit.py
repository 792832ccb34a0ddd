"""Users and clusters for tests."""

from typing import Any

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.user import User
from chiplog_core.naming.api import API_VERSION

MUTUAL = {
    "name": "tls",
    "type": "internal",
    "port": 9093,
    "tls": True,
    "authentication": {"type": "tls"},
}
SCRAM = {
    "name": "scram",
    "type": "internal",
    "port": 9095,
    "authentication": {"type": "scram-sha-512"},
}
SIMPLE = {"type": "simple"}


def cluster(**spec: Any) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "home", "uid": "uid-of-demo"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}, **spec},
        }
    )


def user(name: str = "alice", type_: str | None = "scram-sha-512", *acls: Any, **spec: Any) -> User:
    """A User; `metadata` in `spec` adds to its metadata."""
    metadata = {"name": name, "namespace": "home", "uid": f"uid-of-{name}", "generation": 1}
    made: dict[str, Any] = {"clusterRef": {"name": "demo"}}
    if type_ is not None:
        made["authentication"] = {"type": type_}
    if acls:
        made["authorization"] = {"type": "simple", "acls": list(acls)}
    metadata |= spec.pop("metadata", {})
    return User.from_manifest(
        {"apiVersion": API_VERSION, "kind": "User", "metadata": metadata, "spec": made | spec}
    )


def rule(name: str | None = "orders", *operations: str, **fields: Any) -> dict[str, Any]:
    resource = {"type": fields.pop("of", "topic")}
    if name is not None:
        resource["name"] = name
    if "pattern" in fields:
        resource["patternType"] = fields.pop("pattern")
    return {"resource": resource, "operations": list(operations), **fields}
