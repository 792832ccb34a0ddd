"""The entry: everything Kubernetes should have for one cluster, and what distinguishes one state of
it from another."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster, BrokerClusterStatus
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import Kind
from chiplog_operator.resources.access import role, role_binding, service_account
from chiplog_operator.resources.config_map import config_map, properties
from chiplog_operator.resources.disruption_budget import disruption_budget
from chiplog_operator.resources.lease import broker_lease
from chiplog_operator.resources.network_policy import network_policies
from chiplog_operator.resources.outside import ingresses, own_services
from chiplog_operator.resources.pod import pod_template
from chiplog_operator.resources.secret import internal_secret
from chiplog_operator.resources.services import (
    HeldPorts,
    bootstrap_service,
    brokers_service,
    external_services,
)
from chiplog_operator.resources.settings import BuildSettings
from chiplog_operator.resources.stateful_set import stateful_set

KINDS: tuple[Kind, ...] = (
    kinds.SECRETS,
    kinds.CONFIG_MAPS,
    kinds.SERVICES,
    kinds.DISRUPTION_BUDGETS,
    kinds.INGRESSES,
    kinds.NETWORK_POLICIES,
    kinds.SERVICE_ACCOUNTS,
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
    kinds.LEASES,
    kinds.STATEFUL_SETS,
)
"""Every kind that `manifests` makes, in the order in which it makes them."""

_ANY_BROKER = BrokerId(1)


def manifests(
    cluster: BrokerCluster,
    broker_ids: Iterable[BrokerId],
    settings: BuildSettings,
    node_ports: HeldPorts | None = None,
    certificates: Sequence[Manifest] = (),
) -> list[Manifest]:
    """All objects of the cluster, each with its hash, in the order in which to apply them.

    `broker_ids` are the brokers that should exist, `node_ports` the ports to request,
    `certificates` the Secrets with the cluster's CAs and certificates. StatefulSets come last, so
    that a broker's pod finds its ServiceAccount, Role and Lease, and what it mounts.
    """
    ids = sorted(set(broker_ids))
    current = revision(cluster, settings)
    built = [
        internal_secret(cluster, settings.internal_password),
        *certificates,
        config_map(cluster),
        brokers_service(cluster),
        bootstrap_service(cluster),
        *external_services(cluster, ids, node_ports or {}),
        *own_services(cluster, ids),
        disruption_budget(cluster),
        *ingresses(cluster, ids),
        *network_policies(cluster, settings),
        *(service_account(cluster, broker_id) for broker_id in ids),
        *(role(cluster, broker_id) for broker_id in ids),
        *(role_binding(cluster, broker_id) for broker_id in ids),
        *(broker_lease(cluster, broker_id) for broker_id in ids),
        *(stateful_set(cluster, broker_id, settings, current) for broker_id in ids),
    ]
    return [with_hash(manifest) for manifest in built]


def without_volatile_fields(cluster: BrokerCluster) -> BrokerCluster:
    """The cluster without fields that change all the time. Equal results have equal manifests."""
    meta = replace(cluster.metadata, resource_version="", generation=0)
    return replace(cluster, metadata=meta, status=BrokerClusterStatus())


def revision(cluster: BrokerCluster, settings: BuildSettings) -> str:
    """The `labels.REVISION` of all the cluster's pods. It changes when they must restart.

    It is made from the pod template and `server.properties`. Brokers differ only in their ids, so
    they all have the same revision.
    """
    template = pod_template(cluster, _ANY_BROKER, settings)
    return _hash({"template": template, "properties": properties(cluster)})


def with_hash(manifest: Manifest) -> Manifest:
    """The manifest with its hash in `labels.MANIFEST_HASH`."""
    metadata = manifest["metadata"]
    annotations = dict(metadata.get("annotations", {}))
    annotations.pop(labels.MANIFEST_HASH, None)
    bare = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    annotations = {**annotations, labels.MANIFEST_HASH: _hash(bare)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def _hash(value: object) -> str:
    """The first 16 hex digits of the SHA-256 of the value as JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
