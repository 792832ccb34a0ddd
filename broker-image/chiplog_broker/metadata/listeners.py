"""Where a broker listens, and the address clients are told to use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Listener:
    """One listening socket of this broker, by the name Kafka's configuration gives it."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
