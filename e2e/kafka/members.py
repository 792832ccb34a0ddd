"""Several brokers that are one cluster, whichever software they run.

Tests and measurements take either (`cluster.py` for Apache Kafka), and cannot tell which they
have. What a member says of the cluster is asked of it directly (`probe.py`), without a client
library's caches and retries.
"""

import time
from collections.abc import Callable
from typing import Protocol

from e2e.kafka.ports import LOOPBACK
from e2e.kafka.probe import Answer, metadata

WHOLE_LIMIT_S = 90
LOOK_S = 0.05


class Members(Protocol):
    """Brokers under their ids, each of which can be killed and started again."""

    @property
    def title(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """All of them, so that any one may be away."""

    def ports(self) -> dict[int, int]:
        """Id -> port on loopback, of those whose process was started and not ended since."""

    def kill(self, broker_id: int) -> None:
        """kill -9; returns when the process has ended."""

    def start_again(self, broker_id: int) -> None:
        """Start a broker that was killed, without waiting until it is in the cluster."""


def ask(members: Members) -> Answer:
    """What the first member that answers knows. Raises `OSError` where none does."""
    problem: OSError = OSError("no member runs")
    for port in members.ports().values():
        try:
            return metadata(LOOPBACK, port)
        except OSError as error:
            problem = error
    raise problem


def wait_whole(members: Members, size: int, replicas: int) -> float:
    """Wait until every member knows all members, and all replicas in sync; returns seconds.

    `replicas` is how many each partition has.
    """

    def whole() -> bool:
        answers = [metadata(LOOPBACK, port) for port in members.ports().values()]
        return len(answers) == size and all(is_whole(one, size, replicas) for one in answers)

    return wait_for(f"{members.title}: {size} members and all replicas in sync", whole)


def is_whole(answer: Answer, size: int, replicas: int) -> bool:
    partitions = [len(one) for topic in answer.in_sync.values() for one in topic.values()]
    return len(answer.brokers) == size and all(count >= replicas for count in partitions)


def leader_of(members: Members, topic: str, partition: int) -> int:
    """The leader, once there is one."""
    found: list[int] = []

    def led() -> bool:
        found.append(ask(members).leaders[topic][partition])
        return found[-1] in members.ports()

    wait_for(f"{topic}-{partition} has a leader that runs", led)
    return found[-1]


def wait_for(what: str, holds: Callable[[], bool], limit_s: float = WHOLE_LIMIT_S) -> float:
    """Wait until `holds` says so; seconds. An `OSError` is a no: a broker may still be starting."""
    began_s = time.monotonic()
    while time.monotonic() - began_s < limit_s:
        try:
            if holds():
                return time.monotonic() - began_s
        except (OSError, KeyError):
            pass
        time.sleep(LOOK_S)
    raise TimeoutError(f"not within {limit_s:g} s: {what}")
