"""Names for this operator's checks of all PartitionMaps (`World.maps_check`).

What was listed may come from an etcd that was restored to an older copy. So every complete list
has a name of its own, drawn with it, and nothing is decided from its maps before the brokers
have compared them with their disks, and said so by that name. A single map that is read again and
turns out to be older than what was known asks again, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from chiplog_kube.api import Manifest
from chiplog_kube.manifests import is_older, uid_of, version_of
from chiplog_operator.caches import ClusterKey


@dataclass(frozen=True, slots=True)
class MapsListener:
    """Receives what one reflector of PartitionMaps reports about its watch."""

    checks: "MapsChecks"
    namespace: str

    def listed(self) -> None:
        self.checks.listed(self.namespace)

    def interrupted(self) -> None:
        """Nothing to do: a write fails if the map changed, and the next list starts a new check."""


class Listener(Protocol):
    """Wakes those who decide from maps."""

    def all_clusters_changed(self) -> None:
        """Brokers must compare their maps again, under a new name."""


class MapsChecks:
    """The name of the last check, for every cluster."""

    def __init__(self, new_name: Callable[[], str], listener: Listener) -> None:
        self._new_name = new_name
        self._listener = listener
        self._by_namespace: dict[str, str] = {}
        self._by_cluster: dict[ClusterKey, str] = {}

    def listener_for(self, namespace: str) -> MapsListener:
        """The listener for the reflector of this namespace's maps; empty for all namespaces."""
        return MapsListener(self, namespace)

    def listed(self, namespace: str) -> None:
        """Start a new check of every cluster in a namespace, because its maps were listed. An empty
        name means all namespaces."""
        self._by_namespace[namespace] = self._new_name()
        self._by_cluster = {
            cluster: name
            for cluster, name in self._by_cluster.items()
            if namespace not in {"", cluster.namespace}
        }
        self._listener.all_clusters_changed()

    def start_check_of(self, cluster: ClusterKey) -> None:
        """Start a new check of one cluster, because its maps were listed or read: its brokers
        compare the maps with their disks."""
        self._by_cluster[cluster] = self._new_name()
        self._listener.all_clusters_changed()

    def read(self, cluster: ClusterKey, before: Manifest | None, found: Manifest | None) -> None:
        """Start a new check if a map that was read is older than the cached one, or is gone: etcd
        may have been restored. `before` is the cached map, `found` the one that exists, or None."""
        if before is not None and (found is None or _went_back(before, found)):
            self.start_check_of(cluster)

    def of(self, cluster: ClusterKey) -> str:
        """The name of the cluster's last check, for `World.maps_check`; empty before the first
        list."""
        listed = self._by_namespace.get(cluster.namespace) or self._by_namespace.get("", "")
        return self._by_cluster.get(cluster, listed)


def _went_back(before: Manifest, found: Manifest) -> bool:
    """Whether the map is another object, or has an older version than before."""
    is_another = uid_of(before) != uid_of(found)
    return is_another or is_older(version_of(found), version_of(before))
