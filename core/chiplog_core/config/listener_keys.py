"""How listeners are secured: Kafka's keys for TLS and SASL, for all listeners or for one of them.

`ssl.client.auth` is the value of every listener with TLS; `listener.name.tls.ssl.client.auth` is
that of the listener `tls` alone (KIP-103). The name is in lower case in the key, as in Kafka.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from chiplog_core.config.key import ConfigKey, KeyTable
from chiplog_core.config.value_types import INT, LIST, LONG, STRING

V = TypeVar("V")

PEM: Final = "PEM"

LISTENER_SECURITY_PROTOCOL_MAP = ConfigKey(
    name="listener.security.protocol.map",
    value_type=LIST,
    default=("PLAINTEXT:PLAINTEXT", "SSL:SSL"),
    needs_restart=True,
    set_by="spec.listeners",
    doc="The security protocol of each listener, as name:protocol: PLAINTEXT, SSL, "
    "SASL_PLAINTEXT or SASL_SSL.",
)
SSL_KEYSTORE_LOCATION: Final[ConfigKey[str]] = ConfigKey(
    name="ssl.keystore.location",
    value_type=STRING,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="A PEM file with a private key and its certificate chain, or a directory with tls.crt and "
    "tls.key, as a Secret of type kubernetes.io/tls is mounted. Changed files are used for new "
    "connections within a second, without a restart.",
)
SSL_TRUSTSTORE_LOCATION: Final[ConfigKey[str]] = ConfigKey(
    name="ssl.truststore.location",
    value_type=STRING,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="A PEM file with the certificates of the CAs that clients' certificates must be issued by, "
    "or a directory with such a file ca.crt. Changed files are used for new connections within a "
    "second, without a restart.",
)
SASL_ENABLED_MECHANISMS = ConfigKey(
    name="sasl.enabled.mechanisms",
    value_type=LIST,
    default=("SCRAM-SHA-256", "SCRAM-SHA-512"),
    choices=("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER"),
    needs_restart=True,
    set_by="spec.listeners",
    doc="How clients may log in on listeners with SASL. PLAIN and OAUTHBEARER need SASL_SSL, "
    "because the client sends its password or token; a password is compared with the user's SCRAM "
    "credential.",
)
CONNECTIONS_MAX_REAUTH_MS = ConfigKey(
    name="connections.max.reauth.ms",
    value_type=LONG,
    default=0,
    minimum=0,
    needs_restart=True,
    doc="After this time a client that has logged in must log in again on its connection "
    "(KIP-368); otherwise the connection is closed with its next request. 0: never.",
)
OF_THE_API_SERVER: Final = "kubernetes:/openid/v1/jwks"
"""In place of a URL: the keys with which the API server signs tokens of ServiceAccounts."""
OAUTH_JWKS_ENDPOINT_URL: Final[ConfigKey[str]] = ConfigKey(
    name="sasl.oauthbearer.jwks.endpoint.url",
    value_type=STRING,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="The https URL of the public keys of the issuer of tokens (a JSON Web Key Set). "
    f"{OF_THE_API_SERVER}: those of the API server, for tokens of ServiceAccounts.",
)
OAUTH_EXPECTED_AUDIENCE: Final[ConfigKey[tuple[str, ...]]] = ConfigKey(
    name="sasl.oauthbearer.expected.audience",
    value_type=LIST,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="The audiences of which a token must have one. Required with OAUTHBEARER: otherwise tokens "
    "that were issued for other services could be used here.",
)
OAUTH_EXPECTED_ISSUER: Final[ConfigKey[str]] = ConfigKey(
    name="sasl.oauthbearer.expected.issuer",
    value_type=STRING,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="The issuer that a token must be from. Required with OAUTHBEARER, except for tokens of "
    "ServiceAccounts: the API server says what its issuer is.",
)
OAUTH_SUB_CLAIM_NAME = ConfigKey(
    name="sasl.oauthbearer.sub.claim.name",
    value_type=STRING,
    default="sub",
    needs_restart=True,
    set_by="spec.listeners",
    doc="The claim of a token with the name of its user. Choose one that users cannot change at "
    "the issuer.",
)
OAUTH_CLOCK_SKEW_SECONDS = ConfigKey(
    name="sasl.oauthbearer.clock.skew.seconds",
    value_type=INT,
    default=30,
    minimum=0,
    maximum=300,
    needs_restart=True,
    doc="How far the clocks of the issuer and of brokers may differ: a token is also "
    "accepted this long before its begin and after its end.",
)
OAUTH_TRUSTSTORE_LOCATION: Final[ConfigKey[str]] = ConfigKey(
    name="chiplog.oauthbearer.truststore.location",
    value_type=STRING,
    default=None,
    needs_restart=True,
    set_by="spec.listeners",
    doc="A PEM file with the CAs of the server with the keys of the issuer of tokens, or a "
    "directory of such files. Default: the CAs that the system trusts.",
)
SSL_CLIENT_AUTH = ConfigKey(
    name="ssl.client.auth",
    value_type=STRING,
    default="none",
    choices=("none", "requested", "required"),
    needs_restart=True,
    set_by="spec.listeners",
    doc="Whether clients authenticate with a certificate. With requested, a client without one is "
    "User:ANONYMOUS.",
)
SSL_KEYSTORE_TYPE = ConfigKey(
    name="ssl.keystore.type",
    value_type=STRING,
    default=PEM,
    choices=(PEM,),
    because="other formats are not supported",
    needs_restart=True,
    set_by="spec.listeners",
    doc="The format of ssl.keystore.location.",
)
SSL_TRUSTSTORE_TYPE = ConfigKey(
    name="ssl.truststore.type",
    value_type=STRING,
    default=PEM,
    choices=(PEM,),
    because="other formats are not supported",
    needs_restart=True,
    set_by="spec.listeners",
    doc="The format of ssl.truststore.location.",
)
SSL_ENABLED_PROTOCOLS = ConfigKey(
    name="ssl.enabled.protocols",
    value_type=LIST,
    default=("TLSv1.2", "TLSv1.3"),
    choices=("TLSv1.2", "TLSv1.3"),
    needs_restart=True,
    doc="The versions of TLS that clients may use.",
)
SSL_PRINCIPAL_MAPPING_RULES = ConfigKey(
    name="ssl.principal.mapping.rules",
    value_type=STRING,
    default="DEFAULT",
    choices=("DEFAULT",),
    because="rules are not supported",
    needs_restart=True,
    set_by="spec.listeners",
    doc="How the subject of a client's certificate becomes its principal. With DEFAULT it is User: "
    "and the distinguished name as in RFC 2253, like User:CN=orders,O=Example.",
)

SASL_KEYS: Final[tuple[ConfigKey[Any], ...]] = (
    SASL_ENABLED_MECHANISMS,
    CONNECTIONS_MAX_REAUTH_MS,
    OAUTH_JWKS_ENDPOINT_URL,
    OAUTH_EXPECTED_AUDIENCE,
    OAUTH_EXPECTED_ISSUER,
    OAUTH_SUB_CLAIM_NAME,
    OAUTH_CLOCK_SKEW_SECONDS,
    OAUTH_TRUSTSTORE_LOCATION,
)
"""The keys that only listeners with SASL use."""

LISTENER_KEYS: Final = KeyTable(
    "listener",
    (
        SSL_KEYSTORE_LOCATION,
        SSL_TRUSTSTORE_LOCATION,
        SSL_CLIENT_AUTH,
        SSL_KEYSTORE_TYPE,
        SSL_TRUSTSTORE_TYPE,
        SSL_ENABLED_PROTOCOLS,
        SSL_PRINCIPAL_MAPPING_RULES,
        *SASL_KEYS,
    ),
)
"""The keys that a single listener may have a value of its own for."""

_OF_ONE_LISTENER: Final = re.compile(r"listener\.name\.([a-z0-9_]+)\.(.+)")


def key_of_one_listener(name: str) -> tuple[str, ConfigKey[Any]] | None:
    """The listener and the key of a name like `listener.name.tls.ssl.client.auth`; None if it is
    not such a name."""
    match = _OF_ONE_LISTENER.fullmatch(name)
    if match is None or match[2] not in LISTENER_KEYS:
        return None
    return match[1], LISTENER_KEYS[match[2]]


def name_for_listener(listener: str, key: ConfigKey[Any]) -> str:
    """The name under which one listener has a value of its own."""
    return f"listener.name.{listener.lower()}.{key.name}"


def set_under(config: Mapping[str, str], listener: str, key: ConfigKey[Any]) -> str:
    """The name under which a listener's value is set: its own one, or the one for all listeners,
    also if neither is set."""
    own = name_for_listener(listener, key)
    return own if own in config else key.name


def listener_value(config: Mapping[str, str], listener: str, key: ConfigKey[V]) -> V | None:
    """The value in force for a listener; None if it is not set and has no default."""
    text = config.get(set_under(config, listener, key))
    return key.default if text is None else key.parse(text)
