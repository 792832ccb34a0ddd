"""All attacks by name, and the port that each is made on."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from e2e.hostile import requests, resources

Address = tuple[str, int]
Attack = Callable[[Address, float], Awaitable[str]]
"""Attacks an address for so many seconds; returns what happened in a few words."""


class Port(Enum):
    """What the attacked port is for."""

    CLIENTS = "clients"
    METRICS = "metrics"
    PROBES = "probes"


OF_REQUESTS = {name.replace("_", " "): one for name, one in requests.ATTACKS.items()}
"""They need the leader of a topic that they make, so they are made on a broker by itself."""
BY_PORT: Mapping[Port, Mapping[str, Attack]] = {
    Port.CLIENTS: {**OF_REQUESTS, **resources.ATTACKS},
    Port.METRICS: {f"{name} on the metrics port": one for name, one in resources.HTTP.items()},
    Port.PROBES: {f"{name} on the probes' port": one for name, one in resources.HTTP.items()},
}


def every() -> dict[str, tuple[Port, Attack]]:
    """Name -> port and attack, in the order in which they are made."""
    return {name: (port, one) for port, table in BY_PORT.items() for name, one in table.items()}
