"""The client of a connection."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security.sasl import ANONYMOUS, Login, SaslSession
from chiplog_broker.server.memory import UNBOUNDED, Account
from chiplog_core.client_quotas.accounting import Limits


@dataclass(slots=True)
class Peer:
    """What is known of a client. `listener` is the one that it is connected to: it gets the
    addresses of brokers on this listener."""

    host: str
    port: int
    listener: Listener
    software: str = ""
    principal: str = ANONYMOUS
    """The authenticated user in Kafka's form `User:name`; `ANONYMOUS` without authentication."""
    is_internal: bool = False
    """Whether it has authenticated as a process of this cluster."""
    sasl: SaslSession | None = None
    """Its login while it is incomplete; None after that, and on listeners without
    authentication."""
    login: Login | None = None
    """How its user has logged in; None without SASL, and for processes of this cluster."""
    fetch_session: int = 0
    """The fetch session that it uses (KIP-227): one at a time, which ends with its connection."""
    memory: Account | None = None
    """The memory account of its connection; None if memory is not counted."""
    descriptors_below: int = UNBOUNDED
    """Its connection may use only descriptors below this number; others are reserved for files."""
    end_wait: Callable[[], None] | None = None
    """Has its Fetch that waits for records answered at once; None if none waits, or if the client
    is not a broker of this cluster."""
    holds_from_s: float = -math.inf
    """No batch of it is held for a map before this time, by the monotonic clock: none came the last
    time, so the client has old metadata."""
    limits: Limits | None = None
    """How much it may use, as `Throttling` knows it; None without a limit."""
    limits_of: tuple[int, str, str] | None = None
    """What `limits` depends on: the version of the quotas, the principal and the client id."""
    muted_until_s: float = 0.0
    """Its connection is not read before this time, by the event loop's clock; 0 if it is."""
    on_left: "Callable[[Peer], None] | None" = None
    """Called when its connection is closed."""

    @property
    def logins(self) -> tuple[Login | None, ...]:
        """The logins that it depends on: `login`, and one that is complete but whose answer was not
        sent yet."""
        return (self.login,) if self.sasl is None else (self.login, self.sasl.login)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
