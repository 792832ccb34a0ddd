"""Records into a topic, by librdkafka's idempotent producer."""

from collections import Counter
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.librdkafka.connecting import Connection
from chiplog_cli.librdkafka.failures import refused
from chiplog_cli.librdkafka.renewing import TokenRenewal

ANY_PARTITION = -1
POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """The topic and partition of all records. If `partition` is None, the key decides."""

    topic: str
    partition: int | None = None
    compression: str = "none"


class RecordProducer:
    """Sends records of one topic and counts those that were acknowledged by all replicas.

    A key goes to the partition that Java's producer would choose for it (murmur2): a record
    written by hand lies with the others of its key.
    """

    def __init__(self, connection: Connection, to: Destination) -> None:
        self._to = to
        settings = connection.settings()
        self._tokens: TokenRenewal | None = settings.get("oauth_cb")
        self._producer = Producer(
            {
                **settings,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "compression.codec": to.compression,
                "linger.ms": 5,
                "delivery.timeout.ms": max(1_000, int(connection.timeout_s * 1000)),
            }
        )
        self.acknowledged: Counter[int] = Counter()
        """Number of acknowledged records by partition."""
        self._failed: KafkaError | None = None
        self._failures = 0

    def send(self, key: bytes | None, value: bytes | None) -> None:
        """Send a record. Waits while too many are in transit. Raises as `finish`."""
        partition = ANY_PARTITION if self._to.partition is None else self._to.partition
        while True:
            try:
                self._producer.produce(
                    self._to.topic,
                    value=value,
                    key=key,
                    partition=partition,
                    on_delivery=self._on_delivery,
                )
                break
            except BufferError:
                self._producer.poll(POLL_S)
            except KafkaException as error:
                raise refused(error, f"topic '{self._to.topic}'") from error
        self._producer.poll(0)
        self._check()

    def finish(self) -> None:
        """Wait until every record is acknowledged or refused. Raises `BrokerRefused`, and
        `CannotDo` if the token of the login has expired and there is no other."""
        while self._producer.flush(POLL_S):
            pass
        self._check()

    def _on_delivery(self, error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
        """Callback of `poll` and `flush` with the result of one record."""
        if error is not None:
            self._failed = self._failed or error
            self._failures += 1
        else:
            self.acknowledged[message.partition() or 0] += 1

    def _check(self) -> None:
        """Raises as `finish`, with the numbers of acknowledged and of other records."""
        if self._tokens is not None:
            try:
                self._tokens.check()
            except CannotDo as error:
                raise CannotDo(f"{error.message}; {self._counts()}", error.remedy) from None
        if self._failed is not None:
            why = refused(self._failed, f"topic '{self._to.topic}'")
            raise BrokerRefused(why.code, f"{why.message}; {self._counts()}", why.remedy)

    def _counts(self) -> str:
        return (
            f"{self.acknowledged.total()} records were acknowledged, "
            f"{self._failures + len(self._producer)} were not"
        )
