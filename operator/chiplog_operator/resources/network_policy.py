"""The NetworkPolicy: who may connect to brokers.

It is a second lock. The internal listener asks for the cluster's password in any case, and the
operator's questions are signed; where brokers have certificates, both ask for one. Probes come from
the kubelet of the pod's own node, which Kubernetes never lets a policy keep out.
"""

from collections.abc import Sequence

from chiplog_core.manifest.writing import write
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.network_policy import NetworkPolicySettings
from chiplog_core.naming import labels, names, ports
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import brokers_selector, cluster_object
from chiplog_operator.resources.settings import BuildSettings

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that the API server gives every namespace: its name."""


def network_policies(cluster: BrokerCluster, settings: BuildSettings) -> list[Manifest]:
    """The NetworkPolicy for the pods of all brokers, in a list.

    The list is empty if the operator does not run in a pod, because the policy would block it from
    the brokers' ports for it.
    """
    settings_of_policy = cluster.spec.network_policy or NetworkPolicySettings()
    if not settings_of_policy.enabled or not settings.operator_namespace:
        return []
    # The connection that shows when a process ends needs the health port in any case.
    asked_at = (ports.HEALTH, ports.OPERATOR) if cluster.spec.has_tls else (ports.HEALTH,)
    spec = {
        "podSelector": {"matchLabels": brokers_selector(cluster)},
        "policyTypes": ["Ingress"],
        "ingress": [
            _rule(ports.INTERNAL, [{"podSelector": {"matchLabels": brokers_selector(cluster)}}]),
            *(_rule(port, [_operator(settings.operator_namespace)]) for port in asked_at),
            _rule(ports.METRICS),
            *(
                _rule(listener.port, [write(peer) for peer in listener.network_policy_peers])
                for listener in cluster.listeners
            ),
        ],
    }
    name = names.network_policy(cluster.metadata.name)
    return [cluster_object(kinds.NETWORK_POLICIES, name, cluster, {"spec": spec})]


def _operator(namespace: str) -> dict[str, object]:
    """The peer that selects the operator's pods in its namespace."""
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}},
        "podSelector": {"matchLabels": {labels.NAME: labels.OPERATOR}},
    }


def _rule(port: int, peers: Sequence[object] = ()) -> dict[str, object]:
    """The rule that allows peers to connect to a port; without peers, everybody."""
    rule: dict[str, object] = {"ports": [{"protocol": "TCP", "port": port}]}
    return {**rule, "from": list(peers)} if peers else rule
