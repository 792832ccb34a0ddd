"""The security of listeners in a broker's configuration, under Kafka's keys."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from chiplog_broker.errors import CannotStart
from chiplog_broker.security.oauth.settings import TokenSettings, token_settings
from chiplog_core.config.listener_keys import (
    CONNECTIONS_MAX_REAUTH_MS,
    LISTENER_SECURITY_PROTOCOL_MAP,
    SASL_ENABLED_MECHANISMS,
    SASL_KEYS,
    SSL_CLIENT_AUTH,
    SSL_ENABLED_PROTOCOLS,
    SSL_KEYSTORE_LOCATION,
    SSL_TRUSTSTORE_LOCATION,
    key_of_one_listener,
    listener_value,
    name_for_listener,
    set_under,
)
from chiplog_wire.security_protocol import SecurityProtocol

FILE: Final = "server.properties"


class ClientAuth(StrEnum):
    """Whether clients have certificates, in Kafka's words."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


OAUTHBEARER: Final = "OAUTHBEARER"
SENDS: Final = {"PLAIN": "passwords", OAUTHBEARER: "tokens"}
"""What mechanisms send that others who read it could use."""
PROTOCOLS: Final = "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
WITHOUT_MAP: Final = {
    "plaintext": SecurityProtocol.PLAINTEXT,
    "external": SecurityProtocol.PLAINTEXT,
    "internal": SecurityProtocol.PLAINTEXT,
    "ssl": SecurityProtocol.SSL,
    "sasl_plaintext": SecurityProtocol.SASL_PLAINTEXT,
    "sasl_ssl": SecurityProtocol.SASL_SSL,
}
"""The protocols of listeners of a standalone broker whose file has no map, by their names in lower
case."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How a listener uses TLS."""

    keystore: Path
    """A PEM file with a key and its certificate chain, or a directory with tls.crt and tls.key."""
    truststore: Path | None
    """A PEM file with the CAs of clients, or a directory with ca.crt; None if clients have no
    certificates."""
    client_auth: ClientAuth = ClientAuth.NONE
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    keystore_key: str = f"{FILE}[{SSL_KEYSTORE_LOCATION.name}]"
    """Where `keystore` is set, for messages."""
    truststore_key: str = SSL_TRUSTSTORE_LOCATION.name
    is_admitted: Callable[[Collection[str]], bool] | None = field(default=None, compare=False)
    """Whether a client is let in whose certificate, of a trusted CA, has these DNS names; None if
    every one is."""


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """How a listener is secured."""

    tls: TlsSettings | None = None
    """None for plain text."""
    mechanisms: tuple[str, ...] = ()
    """The mechanisms by which clients log in; empty without SASL."""
    session_s: float | None = None
    """The time after which clients must log in again; None if they need not."""
    tokens: TokenSettings | None = None
    """Which tokens clients log in with; None unless OAUTHBEARER is one of `mechanisms`."""


def security_of_listeners(
    config: Mapping[str, str],
    names: Iterable[str],
    without_map: Mapping[str, SecurityProtocol],
) -> dict[str, ListenerSecurity]:
    """How each listener is secured.

    `without_map` has the protocols that hold if the configuration has no map. Raises `CannotStart`.
    """
    in_map = protocol_map(config) if _has_map(config) else dict(without_map)
    protocols = {name: _protocol(in_map, name) for name in names}
    found = {name: _security(config, name, protocol) for name, protocol in protocols.items()}
    for key in config:
        _check_listener_of(key, {name.lower(): one for name, one in protocols.items()})
    return found


def _security(config: Mapping[str, str], name: str, protocol: SecurityProtocol) -> ListenerSecurity:
    """How one listener is secured. Raises `CannotStart`."""
    mechanisms = _mechanisms(config, name, protocol) if protocol.has_sasl else ()
    return ListenerSecurity(
        _tls_settings(config, name, protocol) if protocol.has_tls else None,
        mechanisms,
        _session_s(config, name),
        token_settings(config, name) if OAUTHBEARER in mechanisms else None,
    )


def protocol_map(config: Mapping[str, str]) -> dict[str, SecurityProtocol]:
    """Listener name in lower case -> its protocol, from the map in the configuration. Raises
    `CannotStart`."""
    key = LISTENER_SECURITY_PROTOCOL_MAP
    found: dict[str, SecurityProtocol] = {}
    for entry in key.parse(config[key.name]):
        name, _, protocol = entry.partition(":")
        protocol = protocol.strip().upper()
        if not name or protocol not in set(SecurityProtocol) or name.lower() in found:
            raise CannotStart(
                f"{FILE}[{key.name}] has {entry!r}: write name:protocol with {PROTOCOLS}, each "
                "name once"
            )
        found[name.lower()] = SecurityProtocol(protocol)
    return found


def _has_map(config: Mapping[str, str]) -> bool:
    return LISTENER_SECURITY_PROTOCOL_MAP.name in config


def _protocol(in_map: Mapping[str, SecurityProtocol], name: str) -> SecurityProtocol:
    """The protocol of one listener. Raises `CannotStart` if the map has none."""
    protocol = in_map.get(name.lower())
    if protocol is None:
        raise CannotStart(
            f"{FILE}[listeners] has {name}, for which {LISTENER_SECURITY_PROTOCOL_MAP.name} has no "
            f"protocol: add {name}:PLAINTEXT or another one of {PROTOCOLS} there"
        )
    return protocol


def _check_listener_of(key: str, protocols: Mapping[str, SecurityProtocol]) -> None:
    """Raise `CannotStart` if a key is for a listener that does not use it. A misspelled listener
    would be open to clients that it should refuse."""
    of_listener = key_of_one_listener(key)
    if of_listener is None:
        return
    name, listener_key = of_listener
    protocol = protocols.get(name)
    is_of_sasl = listener_key in SASL_KEYS
    if protocol is None or not (protocol.has_sasl if is_of_sasl else protocol.has_tls):
        raise CannotStart(
            f"{FILE}[{key}] is for a listener {name}, but there is none with that name and "
            f"{'SASL' if is_of_sasl else 'TLS'}: remove it, or correct the name"
        )


def _mechanisms(
    config: Mapping[str, str], name: str, protocol: SecurityProtocol
) -> tuple[str, ...]:
    """The mechanisms of a listener with SASL. Raises `CannotStart`."""
    key = SASL_ENABLED_MECHANISMS
    enabled: tuple[str, ...] = listener_value(config, name, key) or ()
    found = tuple(dict.fromkeys(enabled))
    under = set_under(config, name, key)
    for one in found:
        if one in SENDS and not protocol.has_tls:
            raise CannotStart(
                f"{FILE}[{under}] has {one}, which sends {SENDS[one]}, but the listener {name} has "
                f"no TLS: use {name}:SASL_SSL, or SCRAM-SHA-512"
            )
    return found


def _session_s(config: Mapping[str, str], name: str) -> float | None:
    """The time after which the clients of a listener must log in again."""
    limit_ms = listener_value(config, name, CONNECTIONS_MAX_REAUTH_MS)
    return limit_ms / 1000 if limit_ms else None


def _client_auth(config: Mapping[str, str], name: str, protocol: SecurityProtocol) -> ClientAuth:
    """Whether clients have certificates. With SASL, only a listener's own value counts, as in Kafka
    (KIP-684)."""
    if protocol.has_sasl and name_for_listener(name, SSL_CLIENT_AUTH) not in config:
        return ClientAuth.NONE
    return ClientAuth(listener_value(config, name, SSL_CLIENT_AUTH) or ClientAuth.NONE)


def _tls_settings(config: Mapping[str, str], name: str, protocol: SecurityProtocol) -> TlsSettings:
    """The TLS settings of one listener. Raises `CannotStart`."""
    keystore = listener_value(config, name, SSL_KEYSTORE_LOCATION)
    truststore = listener_value(config, name, SSL_TRUSTSTORE_LOCATION)
    client_auth = _client_auth(config, name, protocol)
    keystore_key = set_under(config, name, SSL_KEYSTORE_LOCATION)
    truststore_key = set_under(config, name, SSL_TRUSTSTORE_LOCATION)
    if not keystore:
        raise CannotStart(
            f"{FILE}[{keystore_key}] is not set, but the listener {name} uses TLS: set it to a PEM "
            "file with a key and its certificate chain, or a directory with tls.crt and tls.key"
        )
    if client_auth is not ClientAuth.NONE and not truststore:
        raise CannotStart(
            f"{FILE}[{truststore_key}] is not set, but {set_under(config, name, SSL_CLIENT_AUTH)} "
            f"is {client_auth}: set it to a PEM file with the CAs of clients, or a directory with "
            "ca.crt"
        )
    return TlsSettings(
        Path(keystore),
        Path(truststore) if truststore and client_auth is not ClientAuth.NONE else None,
        client_auth,
        listener_value(config, name, SSL_ENABLED_PROTOCOLS) or (),
        f"{FILE}[{keystore_key}]",
        truststore_key,
    )
