"""A connection to one broker that stays as it was opened, whichever broker leads in the meantime.

Client libraries find the new leader; this one goes on asking the old one, as a client does that
was cut off together with it. What it is answered there is what counts.
"""

import socket
import struct
from types import TracebackType
from typing import Self

from chiplog_wire.records.writer import NewRecord, build_batch
from e2e.kafka.probe import Reader, exactly

PRODUCE, VERSION = 0, 7
ALL_IN_SYNC = -1
TIMEOUT_MS = 5_000
NO_ERROR = 0


class OpenConnection:
    """Sends records with acks=all to one partition, and says what became of each."""

    def __init__(self, address: tuple[str, int], topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self.socket = socket.create_connection(address, 5)
        self.correlation_id = 0

    def send(self, value: bytes) -> None:
        """Send one record without waiting for the answer; requests are answered in order."""
        self.correlation_id += 1
        name = self.topic.encode()
        batch = bytes(build_batch([NewRecord(value=value)]))
        request = b"".join(
            (
                struct.pack(">hhih", PRODUCE, VERSION, self.correlation_id, -1),
                struct.pack(">hhi", -1, ALL_IN_SYNC, TIMEOUT_MS),
                struct.pack(">ih", 1, len(name)) + name,
                struct.pack(">iii", 1, self.partition, len(batch)) + batch,
            )
        )
        self.socket.sendall(struct.pack(">i", len(request)) + request)

    def error(self, limit_s: float) -> int | None:
        """The error code of the next answer; None where the connection ends or stays silent."""
        self.socket.settimeout(limit_s)
        try:
            (size,) = struct.unpack(">i", exactly(self.socket, 4))
            answer = Reader(exactly(self.socket, size))
        except OSError:
            return None
        answer.take("i")  # the correlation id
        assert answer.take("i") == 1, "one topic was asked for"
        answer.text()
        assert answer.take("i") == 1, "one partition was asked for"
        answer.take("i")
        return answer.take("h")

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
        self.socket.close()
