"""The brokers of one cluster, of Apache Kafka (`cluster.py`) or of Chiplog.

Tests and measurements work with either. Each broker is asked for its metadata directly
(`probe.py`), without a client library's caches and retries.
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
        """The addresses of all members: clients find the cluster while some of them are down."""

    def ports(self) -> dict[int, int]:
        """Broker id -> port on loopback, for the members that were started and not ended since."""

    def kill(self, broker_id: int) -> None:
        """kill -9; returns when the process has ended."""

    def start_again(self, broker_id: int) -> None:
        """Start a broker that was killed, without waiting until it is in the cluster."""

    def durability(self, wanted: str) -> Mapping[str, str]:
        """The topic configs for a value of `chiplog.durability`; empty for Apache Kafka."""


def ask(members: Members) -> Answer:
    """The metadata of the first member that answers. Raises `OSError` if none answers."""
    problem: OSError = OSError("no member runs")
    for port in members.ports().values():
        try:
            return metadata(LOOPBACK, port)
        except OSError as error:
            problem = error
    raise problem


def ask_all(members: Members) -> list[Answer]:
    """The metadata of each member that runs. Raises `OSError` if any does not answer."""
    return [metadata(LOOPBACK, port) for port in members.ports().values()]


def wait_whole(members: Members, size: int, replicas: int) -> float:
    """Wait until every member's metadata lists all members and all replicas as in sync.

    `size` is the number of members, `replicas` the number of replicas of each partition. Returns
    the seconds that it took. Raises `TimeoutError` with what is missing.
    """
    problems: list[str] = []

    def is_complete() -> bool:
        problems[:] = missing(members, size, replicas)
        return not problems

    try:
        return wait_for(f"{members.title}: {size} members and all replicas in sync", is_complete)
    except TimeoutError as late:
        raise TimeoutError(f"{late}; {'; '.join(problems)}") from late


def missing(members: Members, size: int, replicas: int) -> list[str]:
    """A text for each member that does not know all members or all in-sync replicas.

    Empty if the cluster is complete and in sync.
    """
    ports = members.ports()
    if len(ports) < size:
        return [f"only brokers {sorted(ports)} run, not {size}"]
    problems = (lacks(broker, ports[broker], size, replicas) for broker in sorted(ports))
    return [problem for problem in problems if problem]


def lacks(broker_id: int, port: int, size: int, replicas: int) -> str:
    """Which members or in-sync replicas are missing in this broker's metadata; empty if none."""
    try:
        answer = metadata(LOOPBACK, port)
    except OSError as problem:
        return f"broker {broker_id} does not answer: {problem}"
    if len(answer.brokers) < size:
        return f"broker {broker_id} knows only of brokers {answer.brokers}"
    out_of_sync = [
        f"{topic}-{number} {in_sync}"
        for topic, partitions in answer.in_sync.items()
        for number, in_sync in partitions.items()
        if len(in_sync) < replicas
    ]
    if not out_of_sync:
        return ""
    return (
        f"broker {broker_id} reports {len(out_of_sync)} partitions as out of sync; "
        f"the first, with their in-sync replicas: {out_of_sync[:3]}"
    )


def leader_of(members: Members, topic: str, partition: int) -> int:
    """Wait until the partition's leader is a member that runs; returns its broker id."""
    found: list[int] = []

    def led() -> bool:
        found.append(ask(members).leaders[topic][partition])
        return found[-1] in members.ports()

    wait_for(f"{topic}-{partition} has a leader that runs", led)
    return found[-1]


def stopwatch(what: str, begin: Callable[[], object], holds: Callable[[], bool]) -> float:
    """Call `begin` and wait until `holds()` is true; returns the seconds that both took."""
    began_s = time.monotonic()
    begin()
    wait_for(what, holds)
    return time.monotonic() - began_s


def wait_for(what: str, holds: Callable[[], bool], limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until `holds()` is true; returns the seconds that it took.

    `OSError` and `KeyError` count as false: a broker may still be starting, or not know a topic
    yet. Raises `TimeoutError` after `limit_s`.
    """
    began_s = time.monotonic()
    while time.monotonic() - began_s < limit_s:
        try:
            if holds():
                return time.monotonic() - began_s
        except (OSError, KeyError):
            pass
        time.sleep(POLL_S)
    raise TimeoutError(f"not within {limit_s:g} s: {what}")
