"""Who a broker is to the API server, and what it may do there: docs/permissions.md has the table.

Each broker has an account of its own, so that plain RBAC by name keeps it to its own status and
its own Lease. It may read what brokers and topics there are in its namespace, what the users of
its cluster may do, and, if they have passwords, the one Secret with the verifiers of these:
no other Secret, no Topic, no pod.
"""

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import api, names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import broker_object

LEASE_GROUP = "coordination.k8s.io"
RBAC_GROUP = "rbac.authorization.k8s.io"


def service_account(cluster: BrokerCluster, broker_id: BrokerId) -> Manifest:
    """The ServiceAccount of a broker. Its token is projected only into the broker's pod."""
    parts = {"automountServiceAccountToken": False}
    name = names.service_account(cluster.metadata.name, broker_id)
    return broker_object(kinds.SERVICE_ACCOUNTS, name, cluster, broker_id, parts)


def role(cluster: BrokerCluster, broker_id: BrokerId) -> Manifest:
    """The Role with the broker's permissions: it reads Brokers, PartitionMaps and what it needs to
    know of users, and writes only its own status and its own Lease."""
    own_broker = names.broker(cluster.metadata.name, broker_id)
    own_lease = names.broker_lease(cluster.metadata.name, broker_id)
    rules = [
        {
            "apiGroups": [api.GROUP],
            "resources": [api.BROKER.plural, api.PARTITION_MAP.plural],
            "verbs": ["get", "list", "watch"],
        },
        {
            "apiGroups": [api.GROUP],
            "resources": [f"{api.BROKER.plural}/status"],
            "resourceNames": [own_broker],
            "verbs": ["patch"],
        },
        {
            "apiGroups": [LEASE_GROUP],
            "resources": [kinds.LEASES.plural],
            "resourceNames": [own_lease],
            "verbs": ["get", "patch"],
        },
        {
            "apiGroups": [api.GROUP],
            "resources": [api.ACCESS_LIST.plural],
            "resourceNames": [cluster.metadata.name],
            "verbs": ["get", "list", "watch"],
        },
    ]
    if any(listener.asks_for_passwords for listener in cluster.spec.listeners):
        secret = {
            "apiGroups": [""],
            "resources": [kinds.SECRETS.plural],
            "resourceNames": [names.scram_credentials(cluster.metadata.name)],
            "verbs": ["get"],
        }
        rules.append(secret)
    name = names.service_account(cluster.metadata.name, broker_id)
    return broker_object(kinds.ROLES, name, cluster, broker_id, {"rules": rules})


def role_binding(cluster: BrokerCluster, broker_id: BrokerId) -> Manifest:
    """The RoleBinding of the broker's Role."""
    name = names.service_account(cluster.metadata.name, broker_id)
    account = {"kind": "ServiceAccount", "name": name, "namespace": cluster.metadata.namespace}
    parts = {
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": kinds.ROLES.kind, "name": name},
        "subjects": [account],
    }
    return broker_object(kinds.ROLE_BINDINGS, name, cluster, broker_id, parts)
