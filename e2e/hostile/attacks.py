"""All attacks by name, and the port that each is made on."""

from collections.abc import Awaitable, Callable, Mapping
from enum import Enum

from e2e.hostile import requests, resources

Address = tuple[str, int]
Attack = Callable[[Address, float], Awaitable[str]]
"""Attacks an address for a duration in seconds; returns what happened in a few words."""


class Port(Enum):
    """Which of a broker's ports is attacked, named by its users."""

    CLIENTS = "clients"
    METRICS = "metrics"
    PROBES = "probes"


OF_REQUESTS = {name.replace("_", " "): one for name, one in requests.ATTACKS.items()}
"""Attacks by single requests, by name. They create topics and need the attacked broker to be the
leader, so they are made on a standalone broker."""
BY_PORT: Mapping[Port, Mapping[str, Attack]] = {
    Port.CLIENTS: {**OF_REQUESTS, **resources.ATTACKS},
    Port.METRICS: {f"{name} on the metrics port": one for name, one in resources.HTTP.items()},
    Port.PROBES: {f"{name} on the probes' port": one for name, one in resources.HTTP.items()},
}


def every() -> dict[str, tuple[Port, Attack]]:
    """All attacks: name -> port and attack, in the order in which they are run."""
    return {name: (port, one) for port, table in BY_PORT.items() for name, one in table.items()}
