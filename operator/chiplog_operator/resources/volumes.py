"""What is mounted into a broker's pod, and where."""

from dataclasses import dataclass, field

from chiplog_core.model.api_access import TOKEN_PATH, projected_volume
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names

DATA_VOLUME = "data"
"""Also the first part of the volume claim's name."""

DATA_PATH = "/var/lib/chiplog"
CONFIG_PATH = "/etc/chiplog"
SECRET_PATH = "/etc/chiplog-internal"  # noqa: S105 - a path


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolume:
    """A volume of the pod and its place in the container."""

    name: str
    path: str
    source: dict[str, object] = field(default_factory=dict)
    read_only: bool = True

    def to_volume(self) -> dict[str, object]:
        return {"name": self.name, **self.source}

    def to_mount(self) -> dict[str, object]:
        """The volume's entry in the container's `volumeMounts`."""
        mount: dict[str, object] = {"name": self.name, "mountPath": self.path}
        return {**mount, "readOnly": True} if self.read_only else mount


def data_mount() -> dict[str, object]:
    """The mount of the broker's data volume. The StatefulSet adds the volume itself."""
    return {"name": DATA_VOLUME, "mountPath": DATA_PATH}


def pod_volumes(cluster: BrokerCluster) -> list[PodVolume]:
    """All volumes of the pod except the data volume, which the StatefulSet adds."""
    name = cluster.metadata.name
    return [
        PodVolume(
            name="config",
            path=CONFIG_PATH,
            source={"configMap": {"name": names.broker_config(name)}},
        ),
        PodVolume(
            name="internal",
            path=SECRET_PATH,
            source={"secret": {"secretName": names.internal_secret(name), "defaultMode": 0o440}},
        ),
        PodVolume(name="api-access", path=TOKEN_PATH, source=projected_volume()),
        PodVolume(name="tmp", path="/tmp", source={"emptyDir": {}}, read_only=False),  # noqa: S108
    ]
