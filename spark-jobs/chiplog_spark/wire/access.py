"""How brokers are accessed: addresses, TLS, user and timeouts. Values only."""

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from chiplog_wire.scram import Mechanism

Address: TypeAlias = tuple[str, int]
MECHANISMS: Final = tuple(mechanism.value for mechanism in Mechanism)
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<name>[^\s:\[\]/]+)):(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True)
class Login:
    """A user. The password is in a file, which may change and is read for each connection."""

    username: str
    password_file: str
    mechanism: Mechanism = Mechanism.SCRAM_SHA_512


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust, and the client's own certificate. All are paths of PEM files, which may change
    and are read for each connection."""

    ca_file: str | None = None
    """The certificates of CAs; None for those of the operating system."""
    certificate_file: str | None = None
    key_file: str | None = None
    """None if the file of the certificate also has the key."""


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that is needed to access a cluster. It contains no secret, so it may be sent to
    executors."""

    bootstrap: tuple[Address, ...]
    login: Login | None = None
    request_timeout_ms: int = 30_000
    """The timeout of one request."""
    patience_ms: int = 60_000
    """The time for which a request is retried before an error is final (Kafka's
    `default.api.timeout.ms`)."""
    client_id: str = "chiplog-spark"
    tls: Tls | None = None
    """None for plain text."""


def addresses_of(servers: str) -> tuple[Address, ...]:
    """Parses `host:port,host:port` like Kafka's clients. Raises `ValueError` with the invalid
    address."""
    found = []
    for part in filter(None, (server.strip() for server in servers.split(","))):
        match = _ADDRESS.fullmatch(part)
        if match is None or not 0 < int(match["port"]) <= 65535:
            raise ValueError(f"{part!r} is not an address like host:port")
        found.append((match["v6"] or match["name"], int(match["port"])))
    if not found:
        raise ValueError("it names no broker")
    return tuple(found)
