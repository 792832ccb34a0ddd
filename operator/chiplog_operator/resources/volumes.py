"""What is mounted into a broker's pod, and where."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from chiplog_core.ids import BrokerId
from chiplog_core.model.api_access import TOKEN_PATH, projected_volume
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import CertificateAndKey
from chiplog_core.naming import names
from chiplog_operator.resources.certificate_entries import (
    CA_CERTIFICATE,
    certificate_entry,
    key_entry,
)

DATA_VOLUME = "data"
"""Also the first part of the volume claim's name."""

DATA_PATH = "/var/lib/chiplog"
CONFIG_PATH = "/etc/chiplog"
SECRET_PATH = "/etc/chiplog-internal"  # noqa: S105 - a path
PEERS_PATH = "/etc/chiplog-internal-tls"
"""The folder with `tls.crt`, `tls.key` and `ca.crt`, for connections with other brokers and the
operator. Brokers look for it by themselves: an older version knows no option for it."""
TLS_PATH = "/etc/chiplog-tls"
"""A folder for each listener with TLS, with `tls.crt` and `tls.key`."""
CLIENTS_CA_PATH = "/etc/chiplog-clients-ca"
"""The folder with `ca.crt`: the certificates of the CA that clients' certificates are from."""
OAUTH_TRUST_PATH = "/etc/chiplog-oauth"
"""A folder for each listener with `tlsTrustedCertificates`, with a file for each of these."""
SECRET_MODE = 0o440


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


def pod_volumes(cluster: BrokerCluster, broker_id: BrokerId) -> list[PodVolume]:
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
            source={
                "secret": {"secretName": names.internal_secret(name), "defaultMode": SECRET_MODE}
            },
        ),
        *_certificate_volumes(cluster, broker_id),
        *_trusted_volumes(cluster),
        PodVolume(name="api-access", path=TOKEN_PATH, source=projected_volume()),
        PodVolume(name="tmp", path="/tmp", source={"emptyDir": {}}, read_only=False),  # noqa: S108
    ]


def _certificate_volumes(cluster: BrokerCluster, broker_id: BrokerId) -> Iterator[PodVolume]:
    """The certificates of the listeners with TLS, and for the cluster's own connections, and the CA
    of the clients' certificates.

    The kubelet updates the files when a Secret changes. No content of a Secret is in the template,
    so the pod is not restarted then.
    """
    own = names.broker_certificates(cluster.metadata.name)
    if cluster.spec.has_tls:
        yield _peers_volume(cluster, broker_id)
    for listener in cluster.listeners:
        if not listener.tls:
            continue
        given = listener.own_certificate or CertificateAndKey(
            secret_name=own, certificate=certificate_entry(broker_id), key=key_entry(broker_id)
        )
        items = ((given.certificate, "tls.crt"), (given.key, "tls.key"))
        path = f"{TLS_PATH}/{listener.name}"
        yield PodVolume(
            name=f"tls-{listener.name}", path=path, source=_entries(given.secret_name, items)
        )
    if any(listener.asks_for_certificates for listener in cluster.listeners):
        secret = names.clients_ca_certificate(cluster.metadata.name)
        source = _entries(secret, ((CA_CERTIFICATE, CA_CERTIFICATE),))
        yield PodVolume(name="clients-ca", path=CLIENTS_CA_PATH, source=source)


def _peers_volume(cluster: BrokerCluster, broker_id: BrokerId) -> PodVolume:
    """The broker's own certificate and the cluster CA."""
    name = cluster.metadata.name
    own = {
        "name": names.broker_certificates(name),
        "items": [
            {"key": certificate_entry(broker_id), "path": "tls.crt"},
            {"key": key_entry(broker_id), "path": "tls.key"},
        ],
    }
    ca = {
        "name": names.cluster_ca_certificate(name),
        "items": [{"key": CA_CERTIFICATE, "path": CA_CERTIFICATE}],
    }
    sources = [{"secret": own}, {"secret": ca}]
    source: dict[str, object] = {"projected": {"sources": sources, "defaultMode": SECRET_MODE}}
    return PodVolume(name="internal-tls", path=PEERS_PATH, source=source)


def _trusted_volumes(cluster: BrokerCluster) -> Iterator[PodVolume]:
    """The CAs of the servers with keys of issuers of tokens."""
    for listener in cluster.listeners:
        given = listener.authentication
        if given is None or not given.tls_trusted_certificates:
            continue
        sources = [
            {
                "secret": {
                    "name": one.secret_name,
                    "items": [{"key": one.certificate, "path": f"{number}.crt"}],
                }
            }
            for number, one in enumerate(given.tls_trusted_certificates)
        ]
        source: dict[str, object] = {"projected": {"sources": sources, "defaultMode": SECRET_MODE}}
        path = f"{OAUTH_TRUST_PATH}/{listener.name}"
        yield PodVolume(name=f"oauth-{listener.name}", path=path, source=source)


def _entries(secret: str, files: Iterable[tuple[str, str]]) -> dict[str, object]:
    """The volume source with entries of a Secret, each with the name of its file."""
    items = [{"key": entry, "path": path} for entry, path in files]
    return {"secret": {"secretName": secret, "items": items, "defaultMode": SECRET_MODE}}
