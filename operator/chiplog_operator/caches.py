"""Everything the operator knows of Kubernetes, by kind, and which cluster it belongs to.

A change of an object does no more here than move it in the index and notify about what became
dirty. Objects that change all the time without meaning anything (Leases, nodes, pods' conditions)
are compared by what decisions need of them (`views`), so that a heartbeat wakes nobody.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.cache import ObjectCache
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import (
    ObjectKey,
    key_of,
    labels_of,
    metadata,
    uid_of,
    without_managed_fields,
)
from chiplog_operator import views


class ClusterKey(NamedTuple):
    """A BrokerCluster by where it is; it need not exist."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


USER_KINDS = (kinds.BROKER_CLUSTERS, kinds.TOPICS, kinds.CONSUMER_GROUPS, kinds.USERS)
"""Kinds of objects that users write. Kopf watches these."""

JOB_KINDS = (kinds.VERIFICATIONS, kinds.REBALANCES)
"""Kinds of objects that users write and Spark jobs carry out. Kopf watches these."""

DECIDED_KINDS = (kinds.BROKERS, kinds.PARTITION_MAPS)
"""What the planner writes."""

OWNED_KINDS = (
    kinds.CONFIG_MAPS,
    kinds.SERVICES,
    kinds.DISRUPTION_BUDGETS,
    kinds.INGRESSES,
    kinds.NETWORK_POLICIES,
    kinds.SERVICE_ACCOUNTS,
    kinds.ROLES,
    kinds.ROLE_BINDINGS,
    kinds.STATEFUL_SETS,
)
"""Kinds of objects that the operator makes from a BrokerCluster and finds by its label. Secrets are
read one by one, by name: the operator has no right to list them."""

OBSERVED_KINDS = (kinds.LEASES, kinds.PODS, kinds.VOLUME_CLAIMS)
"""Kinds that other controllers maintain; found by the cluster's label, too."""

LABELLED_KINDS = (*OWNED_KINDS, *OBSERVED_KINDS)
ALL_KINDS = (*USER_KINDS, *JOB_KINDS, *DECIDED_KINDS, *LABELLED_KINDS, kinds.NODES)


class Listener(Protocol):
    """Is notified of what a change means for clusters."""

    def cluster_changed(self, cluster: ClusterKey, *, urgent: bool = False) -> None:
        """Something about this cluster changed. Urgent: partitions may be waiting."""

    def groups_changed(self, cluster: ClusterKey) -> None:
        """The specs of the cluster's ConsumerGroups, or the cluster's own, changed."""

    def users_changed(self, cluster: ClusterKey) -> None:
        """The specs of the cluster's Users, or the cluster's own, changed."""

    def jobs_changed(self) -> None:
        """The specs of Verifications or Rebalances changed."""

    def all_clusters_changed(self) -> None:
        """Something changed on which any cluster may depend."""


class ProcessListener(Protocol):
    """Is notified of Leases and pods, to judge whether brokers' processes are alive."""

    def lease_changed(self, cluster: ClusterKey, lease: Manifest) -> None:
        """A broker renewed its Lease, or the operator changed it."""

    def pod_changed(self, cluster: ClusterKey, pod: Manifest) -> None:
        """A broker's pod is in this state."""


class Caches:
    """All caches, and the index from clusters to their objects."""

    def __init__(self, listener: Listener, processes: ProcessListener) -> None:
        self._listener = listener
        self._processes = processes
        self._members: dict[Kind, dict[ClusterKey, set[ObjectKey]]] = {
            kind: defaultdict(set) for kind in ALL_KINDS
        }
        self._caches = {
            kind: ObjectCache(partial(self._changed, kind), _KEEP.get(kind, without_managed_fields))
            for kind in ALL_KINDS
        }

    def __getitem__(self, kind: Kind) -> ObjectCache:
        return self._caches[kind]

    def __contains__(self, kind: Kind) -> bool:
        return kind in self._caches

    def members(self, kind: Kind, cluster: ClusterKey) -> list[Manifest]:
        """The cluster's objects of a kind, by namespace and name."""
        objects = self._caches[kind].objects
        return [objects[key] for key in sorted(self._members[kind].get(cluster, ()))]

    def service_addresses(self, cluster: ClusterKey) -> dict[str, str]:
        """The addresses of the cluster's load balancers, by the names of their Services. A Service
        that the BrokerCluster does not own counts for nothing, whatever its name and labels."""
        owner = self._caches[kinds.BROKER_CLUSTERS].get(cluster.namespace, cluster.name)
        if owner is None:
            return {}
        addresses = {
            key_of(one).name: views.service_address(one)
            for one in self.members(kinds.SERVICES, cluster)
            if uid_of(owner) in views.owners_of(one)
        }
        return {name: address for name, address in addresses.items() if address}

    def clusters(self) -> set[ClusterKey]:
        """Every cluster that exists or that a user's object names."""
        return {
            cluster
            for kind in USER_KINDS
            for cluster, members in self._members[kind].items()
            if members
        }

    def _changed(self, kind: Kind, before: Manifest | None, after: Manifest | None) -> None:
        """Update the index, and notify the listeners. An object can move to another cluster.
        `before` or `after` is None if the object did not or does not exist."""
        old_cluster, new_cluster = self._cluster(kind, before), self._cluster(kind, after)
        if old_cluster is not None and old_cluster != new_cluster and before is not None:
            self._members[kind][old_cluster].discard(key_of(before))
        if new_cluster is not None and after is not None:
            self._members[kind][new_cluster].add(key_of(after))
        if after is None and old_cluster is not None and before is not None:
            self._members[kind][old_cluster].discard(key_of(before))
        for cluster in {old_cluster, new_cluster} - {None}:
            assert cluster is not None
            if kind is kinds.USERS:
                self._notify_of_user(cluster, before, after)
            else:
                notify = self._notify_of_job if kind in JOB_KINDS else self._notify
                notify(kind, cluster, before, after)
        if kind is kinds.NODES and views.differ(views.node, before, after):
            self._listener.all_clusters_changed()

    def _notify(
        self, kind: Kind, cluster: ClusterKey, before: Manifest | None, after: Manifest | None
    ) -> None:
        """Notify the listeners of an object that was created, changed or deleted, if anything
        depends on the change."""
        if kind is kinds.LEASES:
            if after is not None:
                self._processes.lease_changed(cluster, after)
            # A renewal needs no plan. Whether a Lease has expired is judged by time.
            if (before is None) != (after is None):
                self._listener.cluster_changed(cluster)
        elif kind is kinds.PODS:
            if after is not None:
                self._processes.pod_changed(cluster, after)
            if views.differ(views.pod, before, after):
                self._listener.cluster_changed(cluster)
        elif kind is kinds.CONSUMER_GROUPS:
            # A group's status is written often, and nothing follows from it.
            if views.differ(views.desired_state, before, after):
                self._listener.groups_changed(cluster)
                self._listener.cluster_changed(cluster)
        else:
            self._listener.cluster_changed(cluster, urgent=kind is kinds.BROKERS)
            if kind is kinds.BROKER_CLUSTERS and views.differ(views.desired_state, before, after):
                self._listener.groups_changed(cluster)
                self._listener.users_changed(cluster)

    def _notify_of_user(
        self, cluster: ClusterKey, before: Manifest | None, after: Manifest | None
    ) -> None:
        """Notify the listener of a changed User."""
        if views.differ(views.desired_state, before, after):
            self._listener.users_changed(cluster)

    def _notify_of_job(
        self, kind: Kind, cluster: ClusterKey, before: Manifest | None, after: Manifest | None
    ) -> None:
        """Notify the listeners of a changed Verification or Rebalance."""
        if views.differ(views.desired_state, before, after):
            self._listener.jobs_changed()
        if kind is kinds.REBALANCES:
            self._listener.cluster_changed(cluster)  # its status says which leaderships are to move

    def _cluster(self, kind: Kind, manifest: Manifest | None) -> ClusterKey | None:
        """The object's cluster; None without an object, and for nodes, which belong to none."""
        return None if manifest is None or kind is kinds.NODES else cluster_of(kind, manifest)


def cluster_of(kind: Kind, manifest: Manifest) -> ClusterKey | None:
    """The cluster to which an object belongs or which it names; None if that cannot be parsed."""
    namespace = metadata(manifest).get("namespace", "")
    if kind is kinds.BROKER_CLUSTERS:
        return ClusterKey(namespace, key_of(manifest).name)
    if kind in USER_KINDS or kind in JOB_KINDS:
        return _referenced(manifest, namespace)
    if kind in DECIDED_KINDS:
        name = _mapping(manifest.get("spec")).get("cluster")
    else:
        name = labels_of(manifest).get(labels.CLUSTER)
    return ClusterKey(namespace, name) if isinstance(name, str) and name else None


def _referenced(manifest: Manifest, namespace: str) -> ClusterKey | None:
    """The cluster in `spec.clusterRef` of an object in this namespace; None if it cannot be
    parsed."""
    reference = _mapping(_mapping(manifest.get("spec")).get("clusterRef"))
    name, owner_namespace = reference.get("name"), reference.get("namespace") or namespace
    return (
        ClusterKey(owner_namespace, name)
        if isinstance(name, str) and isinstance(owner_namespace, str) and name
        else None
    )


def _mapping(value: object) -> Mapping[str, object]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def with_managed_fields(manifest: Manifest) -> Manifest:
    """The whole object. Unlike for other kinds, its managedFields are cached, too: they say who
    wrote each field, and so what the operator may change or delete."""
    return manifest


_KEEP: Mapping[Kind, Callable[[Manifest], Manifest]] = {
    kinds.TOPICS: with_managed_fields,
    kinds.CONSUMER_GROUPS: with_managed_fields,
    kinds.USERS: with_managed_fields,
    kinds.NODES: views.kept_node,
    kinds.PODS: views.kept_pod,
    kinds.STATEFUL_SETS: without_managed_fields,
}


def scopes(watch_namespaces: Iterable[str]) -> tuple[str, ...]:
    """The namespaces to list and watch, one request for each. Without names it is one empty name,
    which means all namespaces."""
    return tuple(watch_namespaces) or ("",)
