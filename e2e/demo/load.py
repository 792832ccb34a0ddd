"""Orders sent one after another, from a thread, while something happens to the cluster.

librdkafka with acks=all and idempotence: what was acknowledged must be there afterwards, once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from confluent_kafka import KafkaError, Message, Producer

from e2e.clients.background import Background
from e2e.clients.by_librdkafka import QUIET, partition_of
from e2e.demo.checking import check
from e2e.demo.first_program import CUSTOMERS, ITEMS, TOPIC, Order

EVERY_S = 0.005
LIMIT_S = 110
"""Less than `Background` waits for the thread."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One order that all in-sync replicas have, and when it was acknowledged."""

    text: str
    partition: int
    at_s: float


@dataclass
class Load(Background):
    """Sends until it is left; leaving waits until every order is acknowledged or refused."""

    bootstrap: str
    first_number: int
    """The orders of each customer are numbered from here on."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def gap_s(self, partition: int, since_s: float) -> float:
        """The longest time after `since_s` in which no record of the partition was acknowledged."""
        later = [
            one.at_s
            for one in self.acknowledged
            if one.partition == partition and one.at_s > since_s
        ]
        check(
            bool(later),
            expected=f"orders in {TOPIC}-{partition} are acknowledged after the kill",
            found=f"none of {len(self.acknowledged)} was",
        )
        return max(after - before for before, after in pairwise([since_s, *later]))

    def run(self) -> None:
        settings = {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True}
        producer = Producer({**settings, **QUIET})
        number = 0
        while not self.ending.wait(EVERY_S):
            customer, round_number = number % CUSTOMERS, number // CUSTOMERS
            order = Order(
                f"customer-{customer}",
                self.first_number + round_number,
                ITEMS[number % len(ITEMS)],
            )
            producer.produce(
                TOPIC, order.text, key=order.customer, on_delivery=self._reporter(order.text)
            )
            number += 1
            producer.poll(0)
        if left := producer.flush(LIMIT_S):
            self.refused.append(f"{left} orders neither acknowledged nor refused")

    def _reporter(self, text: str) -> Callable[[KafkaError | None, "Message[bytes, bytes]"], None]:
        def report(error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
            if error is not None:
                self.refused.append(str(error))
            else:
                self.acknowledged.append(
                    Acknowledged(text, partition_of(message), time.monotonic())
                )

        return report
