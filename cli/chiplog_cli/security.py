"""How a client connects to a listener: whom it trusts, and how it authenticates. Values only.

No secret is part of a `repr`, so none gets into a traceback or an error.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from chiplog_wire.security_protocol import SecurityProtocol

CHECKED_HOST = "https"
"""Kafka's name of the only way to check the host name in a certificate."""


class SaslMechanism(StrEnum):
    """The values of `sasl.mechanism` that this program has."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """A name and a password."""

    mechanism: SaslMechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """The client's certificate with those of its issuers, and its key. Both are in PEM format."""

    chain: str = field(repr=False)
    key: str = field(repr=False)
    key_password: str | None = field(default=None, repr=False)
    """None if the key is not encrypted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """What a client checks, and shows, when it connects with TLS."""

    authorities: str | None = field(default=None, repr=False)
    """The certificates of the CAs to trust, in PEM format; None for those of the operating
    system."""
    certificate: ClientCertificate | None = None
    checks_host: bool = True
    """Whether the broker's certificate must be for the host that the client connects to."""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A token is in a file, which somebody replaces before the token expires."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """An issuer gives tokens for a client id and a secret (RFC 6749, section 4.4)."""

    url: str = field(repr=False)
    """An https URL, or an http URL of this machine. Its query may have a secret."""
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    """What to request; empty for the issuer's default."""
    encodes_header: bool = False
    """Whether id and secret are percent-encoded in the header, as the RFC says and few issuers
    expect."""
    tls: Tls = Tls()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogin:
    """A signed token (RFC 7628). It is read or requested at each login, as it expires."""

    source: TokenFile | TokenEndpoint
    extensions: tuple[tuple[str, str], ...] = ()
    """Names and values that are sent with the token (KIP-342)."""

    @property
    def mechanism(self) -> SaslMechanism:
        return SaslMechanism.OAUTHBEARER


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """How to connect; without anything, in plain text and as nobody."""

    tls: Tls | None = None
    login: Login | TokenLogin | None = None

    @property
    def protocol(self) -> SecurityProtocol:
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return SecurityProtocol(transport if self.login is None else f"SASL_{transport}")


PLAINTEXT = Security()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Where to connect, and how."""

    bootstrap_servers: str
    security: Security
