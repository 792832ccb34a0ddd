"""`server.properties`: the configuration that brokers read once, when they start.

Configuration that topics inherit is not in it: it travels in Broker and PartitionMap objects and
takes effect without a restart.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from chiplog_core.config.broker_keys import (
    AUTHORIZER_CLASS_NAME,
    LISTENERS,
    STANDARD_AUTHORIZER,
    TOPIC_DEFAULTS,
    broker_key,
)
from chiplog_core.config.given import given_broker_config
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.listener_keys import (
    LISTENER_SECURITY_PROTOCOL_MAP,
    OAUTH_EXPECTED_AUDIENCE,
    OAUTH_EXPECTED_ISSUER,
    OAUTH_JWKS_ENDPOINT_URL,
    OAUTH_SUB_CLAIM_NAME,
    OAUTH_TRUSTSTORE_LOCATION,
    OF_THE_API_SERVER,
    SASL_ENABLED_MECHANISMS,
    SSL_CLIENT_AUTH,
    SSL_KEYSTORE_LOCATION,
    SSL_TRUSTSTORE_LOCATION,
    name_for_listener,
)
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.certificates import AuthenticationType
from chiplog_core.model.listener import Listener
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import Manifest
from chiplog_operator.resources.objects import cluster_object
from chiplog_operator.resources.volumes import CLIENTS_CA_PATH, OAUTH_TRUST_PATH, TLS_PATH

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
            f"{listener.name}://{EVERY_ADDRESS}:{listener.port}" for listener in cluster.listeners
        ),
        **_security_properties(cluster),
        **{name: values[name] for name in sorted(values) if _is_read_at_start(name)},
    }


def _security_properties(cluster: BrokerCluster) -> dict[str, str]:
    """The properties of listeners with TLS or SASL, and of the authorizer; none if there is nothing
    of that. What the files hold, and who may do what, may change while the broker runs."""
    of_cluster = cluster.listeners
    found = {}
    if any(listener.tls or _has_sasl(listener) for listener in of_cluster):
        protocols = (f"{one.name}:{_protocol(one)}" for one in of_cluster)
        found[LISTENER_SECURITY_PROTOCOL_MAP.name] = ",".join(protocols)
    for listener in of_cluster:
        found.update(_listener_properties(listener))
    if cluster.spec.authorization is not None:
        found[AUTHORIZER_CLASS_NAME.name] = STANDARD_AUTHORIZER
    return found


def _protocol(listener: Listener) -> str:
    """Kafka's name of the listener's security protocol."""
    transport = "SSL" if listener.tls else "PLAINTEXT"
    return f"SASL_{transport}" if _has_sasl(listener) else transport


def _has_sasl(listener: Listener) -> bool:
    return listener.asks_for_passwords or listener.asks_for_tokens


def _listener_properties(listener: Listener) -> dict[str, str]:
    """The security properties of a listener."""
    found, name_of = {}, partial(name_for_listener, listener.name)
    if listener.tls:
        found[name_of(SSL_KEYSTORE_LOCATION)] = f"{TLS_PATH}/{listener.name}"
    if listener.asks_for_certificates:
        found[name_of(SSL_TRUSTSTORE_LOCATION)] = CLIENTS_CA_PATH
        found[name_of(SSL_CLIENT_AUTH)] = "required"
    if listener.asks_for_passwords:
        found[name_of(SASL_ENABLED_MECHANISMS)] = "SCRAM-SHA-512"
    if listener.asks_for_tokens:
        found[name_of(SASL_ENABLED_MECHANISMS)] = "OAUTHBEARER"
        values = _token_properties(listener)
        found.update({name_of(key): value for key, value in values.items() if value})
    return found


def _token_properties(listener: Listener) -> dict[ConfigKey[Any], str | None]:
    """Which tokens a listener accepts. A value that is not set is None; the spec was validated."""
    given = listener.authentication
    assert given is not None, "the listener asks for tokens"
    found: dict[ConfigKey[Any], str | None] = {OAUTH_EXPECTED_AUDIENCE: given.audience}
    if given.type is AuthenticationType.KUBERNETES_TOKEN:
        return {**found, OAUTH_JWKS_ENDPOINT_URL: OF_THE_API_SERVER}
    trusted = f"{OAUTH_TRUST_PATH}/{listener.name}" if given.tls_trusted_certificates else None
    return {
        **found,
        OAUTH_JWKS_ENDPOINT_URL: given.jwks_endpoint_uri,
        OAUTH_EXPECTED_ISSUER: given.valid_issuer_uri,
        OAUTH_SUB_CLAIM_NAME: given.user_name_claim,
        OAUTH_TRUSTSTORE_LOCATION: trusted,
    }


def _is_read_at_start(name: str) -> bool:
    """Whether brokers read the key only when they start, and users may set it."""
    key = broker_key(name)
    return name not in TOPIC_DEFAULTS and key is not None and key.set_by is None


def _text(cluster_name: str, settings: Mapping[str, str]) -> str:
    """The file's text, with a comment that says where to change it."""
    lines = (f"{name}={value}\n" for name, value in settings.items())
    origin = f"# Made from BrokerCluster {cluster_name}, which is where to change it.\n"
    return origin + "".join(lines)
