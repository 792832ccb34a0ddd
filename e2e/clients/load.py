"""A producer that sends while its broker crashes, and the ledger of its acknowledgements.

Only librdkafka's delivery reports write to the ledger: a record counts as acknowledged once its
producer got the report. Values are unique, so that every record that is read later can be
identified.
"""

from dataclasses import dataclass, field
from types import TracebackType

from confluent_kafka import KafkaError, Message, Producer

from e2e.clients.background import Background
from e2e.clients.by_librdkafka import QUIET, partition_of

PADDING = b"." * 200
FLUSH_LIMIT_S = 60
IN_FLIGHT_RECORDS = 2000


@dataclass(slots=True)
class Ledger:
    """The answers that a producer got."""

    acknowledged: dict[bytes, tuple[int, int | None]] = field(default_factory=dict)
    """Value -> partition and offset of each acknowledged record; the offset may be unknown."""
    refused: list[str] = field(default_factory=list)
    """Errors of the records that were not acknowledged."""


class Load(Background):
    """Produces to all partitions of a topic in turn while the `with` block runs.

    The block's end waits until every record is either acknowledged or refused.
    """

    ends_within_s = FLUSH_LIMIT_S

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        super().__init__()
        self.topic, self.partitions = topic, partitions
        self.ledger = Ledger()
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "queue.buffering.max.messages": IN_FLIGHT_RECORDS,
                "reconnect.backoff.max.ms": 200,
                "retry.backoff.max.ms": 200,
                **QUIET,
            }
        )
        self.sent = 0

    def run(self) -> None:
        """Send records as fast as the producer's queue allows, until asked to end."""
        while not self.ending.is_set():
            try:
                self.producer.produce(
                    self.topic,
                    b"%010d" % self.sent + PADDING,
                    partition=self.sent % self.partitions,
                    on_delivery=self.report,
                )
                self.sent += 1
                self.producer.poll(0)
            except BufferError:  # the producer's queue is full, since the broker is unavailable
                self.producer.poll(0.01)

    def report(self, error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
        """The delivery callback: note the answer in the ledger."""
        if error is None:
            where = partition_of(message), message.offset()
            self.ledger.acknowledged[message.value() or b""] = where
        else:
            self.ledger.refused.append(str(error))

    def acknowledged(self) -> int:
        """How many records are acknowledged by now."""
        return len(self.ledger.acknowledged)

    def has_acknowledged(self, count: int) -> bool:
        return self.acknowledged() >= count

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        if kind is None and (left := self.producer.flush(FLUSH_LIMIT_S)):
            raise TimeoutError(f"{left} records were neither acknowledged nor refused in time")
