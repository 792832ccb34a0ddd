"""The names of all Kubernetes objects of a cluster.

Names are derived, never stored: the names of a broker's pod, volume and Lease follow from the
cluster's name and the broker id. So every operator process finds the objects of an earlier one.

Invariants: every result is a valid name of its kind of object as long as the cluster's name is
valid (`CLUSTER_NAME_PATTERN`, at most `MAX_CLUSTER_NAME_LENGTH` characters); two clusters, or
two brokers of one, never share a name.
"""

import hashlib
import re

from chiplog_core.ids import MAX_BROKER_ID, BrokerId
from chiplog_core.limits import MAX_LABEL_LENGTH

OPERATOR_LEASE = "chiplog-operator"
"""The Lease that the active operator holds."""

DATA_PATH = "/var/lib/chiplog/data"
"""The directory where a broker's pod mounts its volume."""

# A Service's name starts with a letter (DNS-1035), so a cluster's does.
CLUSTER_NAME_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
CLUSTER_NAME_MEANING = (
    "a DNS label: lower-case letters, digits and '-', beginning with a letter, not ending with '-'"
)

_LONGEST_SERVICE_SUFFIX = max(
    len("-kafka-external-bootstrap"), len(f"-broker-{MAX_BROKER_ID}-external")
)
MAX_CLUSTER_NAME_LENGTH = MAX_LABEL_LENGTH - _LONGEST_SERVICE_SUFFIX
"""With this limit the longest Service name of a cluster is still a DNS label."""

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_PLAIN_LENGTH = 200
_MAX_STEM_LENGTH = 180


def stateful_set(cluster: str, broker_id: BrokerId) -> str:
    """The StatefulSet of one broker. Each broker has its own, so that each can be moved or
    resized alone."""
    return f"{cluster}-broker-{broker_id}"


def pod(cluster: str, broker_id: BrokerId) -> str:
    """The only pod of the broker's StatefulSet."""
    return f"{stateful_set(cluster, broker_id)}-0"


def volume_claim(cluster: str, broker_id: BrokerId) -> str:
    """The PersistentVolumeClaim that the StatefulSet creates for the broker's data."""
    return f"data-{pod(cluster, broker_id)}"


def service_account(cluster: str, broker_id: BrokerId) -> str:
    """The ServiceAccount of one broker. Each has its own, so that plain RBAC can limit it to its
    own objects."""
    return stateful_set(cluster, broker_id)


def bootstrap_service(cluster: str) -> str:
    """The Service with the bootstrap address for clients inside the Kubernetes cluster."""
    return f"{cluster}-kafka-bootstrap"


def brokers_service(cluster: str) -> str:
    """The headless Service that gives each broker's pod its DNS name."""
    return f"{cluster}-kafka-brokers"


def external_bootstrap_service(cluster: str) -> str:
    """The Service with the bootstrap address for clients outside the Kubernetes cluster."""
    return f"{cluster}-kafka-external-bootstrap"


def external_broker_service(cluster: str, broker_id: BrokerId) -> str:
    """The Service with the address of one broker for clients outside the Kubernetes cluster."""
    return f"{stateful_set(cluster, broker_id)}-external"


def listener_service(cluster: str, listener: str, broker_id: BrokerId | None = None) -> str:
    """The Service, and the Ingress, of a listener that has its own: with the address of one broker,
    or the bootstrap address. A listener's name has no dash, so no two listeners share a name."""
    bootstrap = f"{cluster}-{listener}-ext"
    return bootstrap if broker_id is None else f"{bootstrap}-{broker_id}"


def broker_config(cluster: str) -> str:
    """The ConfigMap that brokers read when they start."""
    return f"{cluster}-broker-config"


def internal_secret(cluster: str) -> str:
    """The Secret of the internal listener, which brokers and operator share."""
    return f"{cluster}-internal"


def broker_certificates(cluster: str) -> str:
    """The Secret with the brokers' certificates for listeners with TLS, and their keys. Each
    broker's pod mounts its own entries."""
    return f"{cluster}-broker-certs"


def cluster_ca_certificate(cluster: str) -> str:
    """The Secret with the certificates that clients of listeners with TLS must trust."""
    return f"{cluster}-cluster-ca-cert"


def cluster_ca_key(cluster: str) -> str:
    """The Secret with the private key of the cluster CA."""
    return f"{cluster}-cluster-ca"


def clients_ca_certificate(cluster: str) -> str:
    """The Secret with the certificates that brokers trust when clients authenticate with TLS."""
    return f"{cluster}-clients-ca-cert"


def clients_ca_key(cluster: str) -> str:
    """The Secret with the private key of the clients CA."""
    return f"{cluster}-clients-ca"


def scram_credentials(cluster: str) -> str:
    """The Secret with the verifiers of the passwords of the cluster's users."""
    return f"{cluster}-scram-credentials"


def secrets_of(cluster: str) -> frozenset[str]:
    """All Secrets that the operator makes for a cluster."""
    return frozenset(
        name(cluster)
        for name in (
            internal_secret,
            broker_certificates,
            cluster_ca_certificate,
            cluster_ca_key,
            clients_ca_certificate,
            clients_ca_key,
            scram_credentials,
        )
    )


def disruption_budget(cluster: str) -> str:
    """The PodDisruptionBudget over all brokers."""
    return f"{cluster}-brokers"


def network_policy(cluster: str) -> str:
    """The NetworkPolicy over all brokers."""
    return f"{cluster}-brokers"


def broker(cluster: str, broker_id: BrokerId) -> str:
    """The broker's Broker object."""
    return f"{cluster}-{broker_id}"


def broker_lease(cluster: str, broker_id: BrokerId) -> str:
    """The Lease by which the broker shows that it is alive; named like its Broker object."""
    return broker(cluster, broker_id)


def partition_map(cluster: str, topic_name: str) -> str:
    """The PartitionMap of a topic name. A cluster's name has no dot, so the first dot separates
    the two."""
    return f"{cluster}.{object_name(topic_name)}"


def object_name(kafka_name: str) -> str:
    """The `metadata.name` for a topic or group that was created under its Kafka name.

    It is the name itself if Kubernetes allows it (at most 200 characters). Otherwise it is the
    lower-case name with '-' for every other character, cut at 180, and the start of the name's
    SHA-256, which keeps `Orders`, `orders` and `order_s` apart. A '-' next to a dot or at an end is
    dropped, because Kubernetes does not allow it: `_schemas` becomes `schemas-` and 8 hex digits.
    """
    if len(kafka_name) <= _MAX_PLAIN_LENGTH and _SUBDOMAIN.fullmatch(kafka_name):
        return kafka_name
    digest = hashlib.sha256(kafka_name.encode()).hexdigest()[:8]
    dashed = re.sub(r"[^a-z0-9.-]", "-", kafka_name.lower())
    stem = re.sub(r"-*(\.-*)+", ".", dashed)[:_MAX_STEM_LENGTH].strip("-.")
    return f"{stem}-{digest}" if stem else digest
