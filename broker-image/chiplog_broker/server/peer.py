"""Who is at the other end of a connection."""

from dataclasses import dataclass

from chiplog_broker.metadata.listeners import Listener


@dataclass(slots=True)
class Peer:
    """A client as far as it is known; `listener` decides which addresses it is told."""

    host: str
    port: int
    listener: Listener
    software: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
