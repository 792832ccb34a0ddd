"""The client of a connection."""

from collections.abc import Callable
from dataclasses import dataclass

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security.sasl import ANONYMOUS, SaslSession
from chiplog_broker.server.memory import UNBOUNDED, Account


@dataclass(slots=True)
class Peer:
    """A client as far as it is known; `listener` determines the addresses that it gets."""

    host: str
    port: int
    listener: Listener
    software: str = ""
    principal: str = ANONYMOUS
    """Kafka's name of the user, for operations on its behalf."""
    is_internal: bool = False
    """Whether it has authenticated as a process of this cluster."""
    sasl: SaslSession | None = None
    """Its login while it is incomplete; None after that, and on listeners without
    authentication."""
    fetch_session: int = 0
    """The fetch session that it uses (KIP-227): one at a time, which ends with its connection."""
    memory: Account | None = None
    """The memory account of its connection; None if memory is not counted."""
    descriptors_below: int = UNBOUNDED
    """Its connection may use descriptors below this number."""
    on_left: "Callable[[Peer], None] | None" = None
    """Called when its connection is closed."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
