"""Several brokers that are one cluster, whichever software they run.

Tests and measurements take either (`cluster.py` for Apache Kafka), and cannot tell which they
have. What a member says of the cluster is asked of it directly (`probe.py`), without a client
library's caches and retries.
"""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import Answer, metadata

WHOLE_LIMIT_S = 300  # a hang guard: three JVMs on a busy machine
POLL_S = 0.05


class Members(Protocol):
    """Brokers under their ids, each of which can be killed and started again."""

    @property
    def title(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """The addresses of all members, so that any one may be away."""

    def ports(self) -> dict[int, int]:
        """Id -> port on loopback, of those whose process was started and not ended since."""

    def kill(self, broker_id: int) -> None:
        """kill -9; returns when the process has ended."""

    def start_again(self, broker_id: int) -> None:
        """Start a broker that was killed, without waiting until it is in the cluster."""

    def durability(self, wanted: str) -> Mapping[str, str]:
        """A topic's configuration for this `chiplog.durability`; none where there is no such."""


def ask(members: Members) -> Answer:
    """What the first member that answers knows. Raises `OSError` where none does."""
    problem: OSError = OSError("no member runs")
    for port in members.ports().values():
        try:
            return metadata(LOOPBACK, port)
        except OSError as error:
            problem = error
    raise problem


def ask_all(members: Members) -> list[Answer]:
    """What each member that runs knows. Raises `OSError` where one does not answer."""
    return [metadata(LOOPBACK, port) for port in members.ports().values()]


def wait_whole(members: Members, size: int, replicas: int) -> float:
    """Wait until every member knows all members, and all replicas in sync; returns seconds.

    `replicas` is how many each partition has. Raises `TimeoutError` with what is missing.
    """
    seen: list[str] = []

    def whole() -> bool:
        seen[:] = missing(members, size, replicas)
        return not seen

    try:
        return wait_for(f"{members.title}: {size} members and all replicas in sync", whole)
    except TimeoutError as late:
        raise TimeoutError(f"{late}; {'; '.join(seen)}") from late


def missing(members: Members, size: int, replicas: int) -> list[str]:
    """What each member lacks to be whole; nothing where all of them lack nothing."""
    ports = members.ports()
    if len(ports) < size:
        return [f"only {sorted(ports)} run"]
    return [why for one in sorted(ports) if (why := lacks(one, ports[one], size, replicas))]


def lacks(broker_id: int, port: int, size: int, replicas: int) -> str:
    """What this member reports as missing; empty where nothing is."""
    try:
        answer = metadata(LOOPBACK, port)
    except OSError as problem:
        return f"{broker_id} does not answer: {problem}"
    if len(answer.brokers) < size:
        return f"{broker_id} knows only of {answer.brokers}"
    late = [
        f"{topic}-{number} {in_sync}"
        for topic, partitions in answer.in_sync.items()
        for number, in_sync in partitions.items()
        if len(in_sync) < replicas
    ]
    return f"{broker_id} knows of {len(late)} partitions out of sync: {late[:3]}" if late else ""


def leader_of(members: Members, topic: str, partition: int) -> int:
    """The leader, once there is one."""
    found: list[int] = []

    def led() -> bool:
        found.append(ask(members).leaders[topic][partition])
        return found[-1] in members.ports()

    wait_for(f"{topic}-{partition} has a leader that runs", led)
    return found[-1]


def stopwatch(what: str, begin: Callable[[], object], holds: Callable[[], bool]) -> float:
    """Seconds from just before `begin` until `holds` says so."""
    began_s = time.monotonic()
    begin()
    wait_for(what, holds)
    return time.monotonic() - began_s


def wait_for(what: str, holds: Callable[[], bool], limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until `holds` says so; seconds. An `OSError` is a no: a broker may still be starting."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < limit_s:
        try:
            if holds():
                return time.monotonic() - began_s
        except (OSError, KeyError):
            pass
        time.sleep(POLL_S)
    raise TimeoutError(f"not within {limit_s:g} s: {what}")
