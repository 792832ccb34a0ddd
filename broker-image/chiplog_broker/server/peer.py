"""Who is at the other end of a connection."""

from collections.abc import Callable
from dataclasses import dataclass

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security.sasl import ANONYMOUS, SaslSession
from chiplog_broker.server.memory import UNBOUNDED, Account


@dataclass(slots=True)
class Peer:
    """A client as far as it is known; `listener` decides which addresses it is told."""

    host: str
    port: int
    listener: Listener
    software: str = ""
    principal: str = ANONYMOUS
    """Kafka's name of who asks, for whoever acts on its behalf."""
    is_internal: bool = False
    """Whether it has proved to be one of this cluster's own processes."""
    sasl: SaslSession | None = None
    """Its login, while that is not over; None also where none is asked for."""
    fetch_session: int = 0
    """The fetch session that it uses (KIP-227): one at a time, which ends with its connection."""
    memory: Account | None = None
    """What its connection holds; None where nobody counts."""
    descriptors_below: int = UNBOUNDED
    """Which descriptors its connection may use."""
    on_left: "Callable[[Peer], None] | None" = None
    """Called when its connection is gone."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
