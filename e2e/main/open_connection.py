"""A client that stays connected to one broker, even after another broker became the leader.

Client libraries change to the new leader. This client continues to ask the old one, like a client
that was cut off from the network together with it: tests check what the old leader answers.
"""

from types import TracebackType
from typing import Self

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.records.writer import NewRecord, build_batch
from e2e.kafka.connection import Connection

VERSION = 7
"""Of the Produce request."""
ALL_IN_SYNC = -1
TIMEOUT_MS = 5_000
NO_ERROR = 0


class OpenConnection:
    """Sends records with acks=all to one partition through one connection."""

    def __init__(self, address: tuple[str, int], topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.connection = Connection(address, 5)

    def send(self, value: bytes) -> None:
        """Send one record without waiting for the answer; requests are answered in order."""
        batch = bytes(build_batch([NewRecord(value=value)]))
        one = {"index": self.partition, "records": batch}
        topic = {"name": self.topic, "partition_data": [one]}
        values = {"acks": ALL_IN_SYNC, "timeout": TIMEOUT_MS, "topic_data": [topic]}
        self.connection.send(ApiKey.PRODUCE, VERSION, values)

    def error(self, limit_s: float) -> int | None:
        """The error code of the next answer.

        None if the connection ends, or no answer comes within `limit_s`.
        """
        try:
            answer = self.connection.receive(limit_s)
        except OSError:
            return None
        (topic,) = answer.responses
        (one,) = topic.partition_responses
        return int(one.error_code)

    def is_acknowledged(self, value: bytes, limit_s: float = 10) -> bool:
        """Send a record; returns whether the broker acknowledges it within `limit_s`."""
        try:
            self.send(value)
        except OSError:
            return False
        return self.error(limit_s) == NO_ERROR

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.connection.close()
