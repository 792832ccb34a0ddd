"""One Metadata request: is a broker up, and what does it serve?

It asks no client library, so that it costs a millisecond, says exactly when the
first answer came, and cannot be fooled by a client's own retries.
"""

from dataclasses import dataclass
from typing import Any

from chiplog_wire.protocol.apis import ApiKey
from e2e.kafka.connection import Connection

VERSION = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """A broker's metadata: ids of brokers; topic -> partition -> leader (-1: none), and ISR."""

    brokers: tuple[int, ...]
    leaders: dict[str, dict[int, int]]
    in_sync: dict[str, dict[int, tuple[int, ...]]]
    internal: frozenset[str] = frozenset()
    """Names of the internal topics."""

    def led(self) -> int:
        """How many partitions of users' topics have a leader."""
        return sum(
            leader >= 0
            for name, topic in self.leaders.items()
            if name not in self.internal
            for leader in topic.values()
        )


def metadata(host: str, port: int, timeout_s: float = 5) -> Answer:
    """The answer of one broker about all topics.

    Raises `OSError` where it does not answer, also when it closes half-way.
    """
    with Connection((host, port), timeout_s) as connection:
        return of(connection.ask(ApiKey.METADATA, VERSION, {"topics": None}))


def of(answer: Any) -> Answer:
    """The `Answer` from a Metadata response of kio."""
    return Answer(
        brokers=tuple(one.node_id for one in answer.brokers),
        leaders={
            topic.name: {one.partition_index: one.leader_id for one in topic.partitions}
            for topic in answer.topics
        },
        in_sync={
            topic.name: {one.partition_index: tuple(one.isr_nodes) for one in topic.partitions}
            for topic in answer.topics
        },
        internal=frozenset(topic.name for topic in answer.topics if topic.is_internal),
    )
