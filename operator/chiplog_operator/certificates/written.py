"""The Secrets of a cluster with TLS that the operator writes."""

from collections.abc import Iterator

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube.api import Manifest
from chiplog_operator.certificates.reading import Found
from chiplog_operator.certificates.secrets import (
    CERTIFICATE_REQUESTS,
    KEY_REQUESTS,
    secret_of,
)
from chiplog_operator.certificates.wishes import Wishes
from chiplog_operator.resources.certificate_entries import (
    CA_CERTIFICATE,
    CA_KEY,
    CA_PASSWORD,
    CA_TRUSTSTORE,
    OPERATOR_CERTIFICATE,
    OPERATOR_KEY,
    certificate_entry,
    key_entry,
)


def secrets_of(wishes: Wishes, found: Found, cluster: BrokerCluster) -> Iterator[Manifest]:
    """The Secrets of generated CAs, and the one of the certificates of brokers and the
    operator."""
    for wish, ca in (
        (wishes.cluster_ca, found.cluster_ca),
        (wishes.clients_ca, found.clients_ca),
    ):
        if wish is not None and ca is not None and wish.is_generated:
            done = ca.fulfilled
            yield secret_of(cluster, wish.names.key_secret, {CA_KEY: ca.key}, done & KEY_REQUESTS)
            yield secret_of(
                cluster,
                wish.names.certificate_secret,
                {
                    CA_CERTIFICATE: "".join(ca.pems),
                    CA_TRUSTSTORE: ca.truststore.data,
                    CA_PASSWORD: ca.truststore.password,
                },
                done & CERTIFICATE_REQUESTS,
            )
    if found.cluster_ca is not None:
        entries = {}
        for broker_id, server in sorted(found.servers.items()):
            entries[certificate_entry(broker_id)] = server.certificate
            entries[key_entry(broker_id)] = server.key
        if found.operator is not None:
            entries[OPERATOR_CERTIFICATE] = found.operator.certificate
            entries[OPERATOR_KEY] = found.operator.key
        name = names.broker_certificates(cluster.metadata.name)
        yield secret_of(cluster, name, entries, found.servers_fulfilled)
