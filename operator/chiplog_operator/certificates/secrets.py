"""The Secrets with CAs and certificates: names, entries and annotations.

The names and entries of a CA's Secrets are those that Strimzi's users know.
"""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_core.certificates.authority import Request
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_kube.manifests import annotations_of
from chiplog_operator.resources.objects import cluster_object

CERTIFICATE_REQUESTS: Final = frozenset({Request.RENEW, Request.REMOVE_OLD})
"""What users ask for with annotations of the Secret with a CA's certificates, which is the one that
changes then. So the write that fulfils a request also takes it back."""
KEY_REQUESTS: Final = frozenset({Request.REPLACE})
"""The same of the Secret with the private key."""
SERVER_REQUESTS: Final = frozenset({Request.RENEW})
"""The same of the Secret with the certificates of brokers."""
IS_SET: Final = "true"
IS_DONE: Final = "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorityNames:
    """What one of the two CAs of a cluster is called."""

    certificate_secret: str
    key_secret: str
    field: str
    """The field of the spec with its settings."""
    common_name: str
    metric: str
    """Its name in metrics."""

    @classmethod
    def of_cluster_ca(cls, cluster: str) -> "AuthorityNames":
        return cls(
            certificate_secret=names.cluster_ca_certificate(cluster),
            key_secret=names.cluster_ca_key(cluster),
            field="spec.clusterCa",
            common_name=f"{cluster} cluster-ca",
            metric="cluster-ca",
        )

    @classmethod
    def of_clients_ca(cls, cluster: str) -> "AuthorityNames":
        return cls(
            certificate_secret=names.clients_ca_certificate(cluster),
            key_secret=names.clients_ca_key(cluster),
            field="spec.clientsCa",
            common_name=f"{cluster} clients-ca",
            metric="clients-ca",
        )


def secret_of(
    cluster: BrokerCluster,
    name: str,
    entries: Mapping[str, str | bytes],
    fulfilled: Iterable[Request] = (),
) -> Manifest:
    """The manifest of a Secret. It takes back the annotations of requests that it fulfils, in the
    same write: a request is carried out once, whenever this process ends."""
    data = {
        entry: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for entry, value in entries.items()
    }
    manifest = cluster_object(kinds.SECRETS, name, cluster, {"type": "Opaque", "data": data})
    annotations = {request.value: IS_DONE for request in sorted(fulfilled)}
    if not annotations:
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": annotations}}


def bytes_of(secret: Manifest | None, entry: str) -> bytes:
    """The value of an entry; empty if there is no Secret, or no such entry. Raises `ValueError` if
    it is not in Base64."""
    return base64.b64decode(((secret or {}).get("data") or {}).get(entry) or "")


def text_of(secret: Manifest | None, entry: str) -> str:
    """The value of an entry as text. Raises `ValueError` if it is none."""
    return bytes_of(secret, entry).decode()


def requests_of(secret: Manifest | None, possible: frozenset[Request]) -> frozenset[Request]:
    """Which of the possible requests the annotations of a Secret make."""
    found = {} if secret is None else annotations_of(secret)
    return frozenset(one for one in possible if found.get(one.value) == IS_SET)
