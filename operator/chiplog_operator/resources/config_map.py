"""`server.properties`: the configuration that brokers read once, when they start.

Configuration that topics inherit is not in it: it travels in Broker and PartitionMap objects and
takes effect without a restart.
"""

from collections.abc import Mapping

from chiplog_core.config.broker_keys import LISTENERS, TOPIC_DEFAULTS, broker_key
from chiplog_core.config.given import given_broker_config
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.listeners import listeners
from chiplog_operator.resources.objects import cluster_object
from chiplog_operator.resources.volumes import CLIENTS_CA_PATH, TLS_PATH

FILE_NAME = "server.properties"
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - a pod's addresses are all its own


def config_map(cluster: BrokerCluster) -> Manifest:
    """The ConfigMap `<cluster>-broker-config`, which has the brokers' `server.properties`."""
    name = names.broker_config(cluster.metadata.name)
    data = {FILE_NAME: _text(cluster.metadata.name, properties(cluster))}
    return cluster_object(kinds.CONFIG_MAPS, name, cluster, {"data": data})


def properties(cluster: BrokerCluster) -> Mapping[str, str]:
    """The properties of the brokers' file, in Kafka's text form: first the listeners, then the
    keys that brokers read at their start, sorted."""
    values = given_broker_config(cluster.spec.config).values
    return {
        LISTENERS.name: ",".join(
            f"{listener.name}://{EVERY_ADDRESS}:{listener.port}" for listener in listeners(cluster)
        ),
        **_tls_properties(cluster),
        **{name: values[name] for name in sorted(values) if _is_read_at_start(name)},
    }


def _tls_properties(cluster: BrokerCluster) -> dict[str, str]:
    """The properties of listeners with TLS; none if there are no such listeners. What the files
    hold may change while the broker runs."""
    of_cluster = listeners(cluster)
    if not any(listener.tls for listener in of_cluster):
        return {}
    protocols = (f"{one.name}:{'SSL' if one.tls else 'PLAINTEXT'}" for one in of_cluster)
    found = {"listener.security.protocol.map": ",".join(protocols)}
    for listener in of_cluster:
        prefix = f"listener.name.{listener.name}.ssl"
        if listener.tls:
            found[f"{prefix}.keystore.location"] = f"{TLS_PATH}/{listener.name}"
        if listener.asks_for_certificates:
            found[f"{prefix}.truststore.location"] = CLIENTS_CA_PATH
            found[f"{prefix}.client.auth"] = "required"
    return found


def _is_read_at_start(name: str) -> bool:
    """Whether brokers read the key only when they start, and users may set it."""
    key = broker_key(name)
    return name not in TOPIC_DEFAULTS and key is not None and key.set_by is None


def _text(cluster_name: str, settings: Mapping[str, str]) -> str:
    """The file's text, with a comment that says where to change it."""
    lines = (f"{name}={value}\n" for name, value in settings.items())
    origin = f"# Made from BrokerCluster {cluster_name}, which is where to change it.\n"
    return origin + "".join(lines)
