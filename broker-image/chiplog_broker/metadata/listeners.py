"""The listeners of a broker, with the addresses that they advertise."""

from collections.abc import Callable
from dataclasses import dataclass, field

from chiplog_broker.security.credentials import Keyring
from chiplog_broker.security.listener_security import TlsSettings
from chiplog_broker.security.oauth.settings import TokenSettings
from chiplog_broker.security.sasl import Logins

INTERNAL_NAME = "internal"
INTERNAL_PORT = 9091


def never() -> bool:
    """No client may do without TLS."""
    return False


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening socket of this broker, under its name in Kafka's configuration."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    logins: Logins | None = field(default=None, compare=False, repr=False)
    """How its clients must log in; without it they need not."""
    tls: TlsSettings | None = None
    """How it uses TLS; None for plain text."""
    accepts_plain_text: Callable[[], bool] = field(default=never, compare=False, repr=False)
    """Whether clients of a listener with TLS may do without it at present."""
    is_internal: bool = False
    """Whether its clients are processes of this cluster, with the permissions of brokers."""
    mechanisms: tuple[str, ...] = ()
    """The SASL mechanisms for users, from which the broker makes `logins`; empty without SASL."""
    session_s: float | None = None
    """The time after which users must log in again (KIP-368); None if they need not."""
    tokens: TokenSettings | None = None
    """Which tokens users log in with; None if that is not one of `mechanisms`."""

    def __post_init__(self) -> None:
        assert self.logins or not self.is_internal, "an internal listener needs a keyring"


def internal_listener(
    advertised_host: str,
    keyring: Keyring,
    *,
    tls: TlsSettings | None = None,
    host: str = "0.0.0.0",  # noqa: S104 - all clients of this listener must log in
    port: int = INTERNAL_PORT,
) -> Listener:
    """The listener of the cluster's own processes.

    Give its `Acceptor` a `ConnectionQuota` of its own: clients that use up all connections
    must not keep brokers from each other.
    """
    return Listener(
        INTERNAL_NAME, host, port, advertised_host, port, logins=keyring, tls=tls, is_internal=True
    )
