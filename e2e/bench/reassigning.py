"""Reassigns the partitions of a topic with the requests of kafka-reassign-partitions.sh.

The requests are the tool's own (KIP-455, KIP-113): AlterPartitionReassignments to begin,
ListPartitionReassignments to see when all is done, DescribeLogDirs for the bytes on a broker. Any
broker accepts the first two.
"""

from typing import Any, Final

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from e2e.kafka.connection import Connection
from e2e.kafka.ports import LOOPBACK

ANSWER_LIMIT_S: Final = 60
VERSION: Final = 0
"""Of AlterPartitionReassignments and ListPartitionReassignments."""
LOG_DIRS_VERSION: Final = 4
"""From version 3 on there is an error code for the whole answer."""


class Refused(RuntimeError):  # noqa: N818 - says what became of a request
    """The cluster refused a request."""


class Reassigning:
    """Reassignments of one topic, through one broker; closes its connection with the `with` block.

    Each method raises `Refused` where the broker answers with an error, and `OSError` where it does
    not answer.
    """

    def __init__(self, port: int, topic: str, partitions: int) -> None:
        """`port` is the broker's on loopback; the topic has the partitions 0 to `partitions`-1."""
        self.topic, self.partitions = topic, partitions
        self._connection = Connection((LOOPBACK, port), ANSWER_LIMIT_S)

    def __enter__(self) -> "Reassigning":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def order(self, broker_id: int) -> None:
        """Order that every partition gets this broker as its only replica."""
        wanted = [
            {"partition_index": number, "replicas": [broker_id]}
            for number in range(self.partitions)
        ]
        topics = [{"name": self.topic, "partitions": wanted}]
        key = ApiKey.ALTER_PARTITION_REASSIGNMENTS
        answer = self._connection.ask(key, VERSION, {"topics": topics})
        check(answer)
        for topic in answer.responses:
            for partition in topic.partitions:
                check(partition)

    def is_done(self) -> bool:
        """Whether no partition of the topic is being reassigned."""
        listed = {"name": self.topic, "partition_indexes": list(range(self.partitions))}
        key = ApiKey.LIST_PARTITION_REASSIGNMENTS
        answer = self._connection.ask(key, VERSION, {"topics": [listed]})
        check(answer)
        return not any(topic.partitions for topic in answer.topics)


def bytes_on(port: int, topic: str) -> int:
    """The size of all replicas of a topic on the broker with this port; 0 if it has none."""
    with Connection((LOOPBACK, port), ANSWER_LIMIT_S) as connection:
        answer = connection.ask(ApiKey.DESCRIBE_LOG_DIRS, LOG_DIRS_VERSION, {"topics": None})
    return bytes_of(topic, answer)


def bytes_of(topic: str, answer: Any) -> int:
    """The size of all replicas of a topic in a DescribeLogDirs answer."""
    for part in (answer, *answer.results):
        check(part)
    return sum(
        partition.partition_size
        for directory in answer.results
        for found in directory.topics
        if found.name == topic
        for partition in found.partitions
    )


def check(answer: Any) -> None:
    """Raise `Refused` where an answer, or a part of one, has an error code."""
    if answer.error_code != ErrorCode.none:
        name = ErrorCode(answer.error_code).name.upper()
        raise Refused(": ".join(filter(None, (name, getattr(answer, "error_message", None)))))
