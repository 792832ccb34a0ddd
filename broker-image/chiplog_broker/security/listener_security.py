"""The security of listeners in a broker's configuration, under Kafka's keys."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from chiplog_broker.errors import CannotStart
from chiplog_core.config.listener_keys import (
    LISTENER_SECURITY_PROTOCOL_MAP,
    SSL_CLIENT_AUTH,
    SSL_ENABLED_PROTOCOLS,
    SSL_KEYSTORE_LOCATION,
    SSL_TRUSTSTORE_LOCATION,
    key_of_one_listener,
    listener_value,
    set_under,
)

FILE: Final = "server.properties"


class SecurityProtocol(StrEnum):
    """What a connection is secured with, in Kafka's words."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"


class ClientAuth(StrEnum):
    """Whether clients have certificates, in Kafka's words."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


NOT_BUILT: Final = ("SASL_PLAINTEXT", "SASL_SSL")
WITHOUT_MAP: Final = {
    "plaintext": SecurityProtocol.PLAINTEXT,
    "external": SecurityProtocol.PLAINTEXT,
    "internal": SecurityProtocol.PLAINTEXT,
    "ssl": SecurityProtocol.SSL,
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
    keystore_key: str = SSL_KEYSTORE_LOCATION.name
    """The key in the file that names `keystore`, for messages."""
    truststore_key: str = SSL_TRUSTSTORE_LOCATION.name


def security_of_listeners(
    config: Mapping[str, str],
    names: Iterable[str],
    without_map: Mapping[str, SecurityProtocol],
) -> dict[str, TlsSettings | None]:
    """The TLS settings of each listener; None for one in plain text.

    `without_map` has the protocols that hold if the configuration has no map. Raises `CannotStart`.
    """
    protocols = protocol_map(config) if _has_map(config) else dict(without_map)
    found = {name: _settings(config, name, protocols.get(name.lower())) for name in names}
    secured = {name.lower() for name, settings in found.items() if settings is not None}
    for key in config:
        # A misspelled listener would be open to clients that it should refuse.
        of_listener = key_of_one_listener(key)
        if of_listener is not None and of_listener[0] not in secured:
            raise CannotStart(
                f"{FILE}[{key}] is for a listener {of_listener[0]}, but there is none with that "
                "name and TLS: remove it, or correct the name"
            )
    return found


def protocol_map(config: Mapping[str, str]) -> dict[str, SecurityProtocol]:
    """Listener name in lower case -> its protocol, from the map in the configuration. Raises
    `CannotStart`."""
    key = LISTENER_SECURITY_PROTOCOL_MAP
    found: dict[str, SecurityProtocol] = {}
    for entry in key.parse(config[key.name]):
        name, _, protocol = entry.partition(":")
        protocol = protocol.strip().upper()
        if protocol in NOT_BUILT:
            raise CannotStart(
                f"{FILE}[{key.name}] has {entry}: SASL is not built yet, use PLAINTEXT or SSL"
            )
        if not name or protocol not in set(SecurityProtocol) or name.lower() in found:
            raise CannotStart(
                f"{FILE}[{key.name}] has {entry!r}: write name:PLAINTEXT or name:SSL, each name "
                "once"
            )
        found[name.lower()] = SecurityProtocol(protocol)
    return found


def _has_map(config: Mapping[str, str]) -> bool:
    return LISTENER_SECURITY_PROTOCOL_MAP.name in config


def _settings(
    config: Mapping[str, str], name: str, protocol: SecurityProtocol | None
) -> TlsSettings | None:
    """The settings of one listener; None for plain text. Raises `CannotStart`."""
    if protocol is None and name.upper() in NOT_BUILT:
        raise CannotStart(
            f"{FILE}[listeners] uses {name}: SASL is not built yet, use PLAINTEXT or SSL"
        )
    if protocol is None:
        raise CannotStart(
            f"{FILE}[listeners] has {name}, for which {LISTENER_SECURITY_PROTOCOL_MAP.name} has no "
            f"protocol: add {name}:PLAINTEXT or {name}:SSL there"
        )
    if protocol is SecurityProtocol.PLAINTEXT:
        return None
    keystore = listener_value(config, name, SSL_KEYSTORE_LOCATION)
    truststore = listener_value(config, name, SSL_TRUSTSTORE_LOCATION)
    client_auth = ClientAuth(listener_value(config, name, SSL_CLIENT_AUTH) or ClientAuth.NONE)
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
        keystore_key,
        truststore_key,
    )
