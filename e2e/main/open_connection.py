"""A connection to one broker that stays as it was opened, whichever broker leads in the meantime.

Client libraries find the new leader; this one goes on asking the old one, as a client does that
was cut off together with it. What it is answered there is what counts.
"""

from types import TracebackType
from typing import Self

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.records.writer import NewRecord, build_batch
from e2e.kafka.connection import Connection

VERSION = 7
ALL_IN_SYNC = -1
TIMEOUT_MS = 5_000
NO_ERROR = 0


class OpenConnection:
    """Sends records with acks=all to one partition, and says what became of each."""

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
        """The error code of the next answer; None where the connection ends or stays silent."""
        try:
            answer = self.connection.receive(limit_s)
        except OSError:
            return None
        (topic,) = answer.responses
        (one,) = topic.partition_responses
        return int(one.error_code)

    def is_acknowledged(self, value: bytes, limit_s: float = 10) -> bool:
        """Send a record; whether the broker says that all in-sync replicas have it."""
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
