"""A producer that sends orders from a thread while something happens to the cluster.

It is librdkafka with acks=all and idempotence: each acknowledged order must be stored exactly once.
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
"""For the last answers; less than the 120 s that `Background` waits for the thread."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One acknowledged order: its record's value, its partition, and when it was acknowledged."""

    text: str
    partition: int
    at_s: float


@dataclass
class Load(Background):
    """Sends an order every `EVERY_S` while the `with` block runs.

    The block's end waits until every order is acknowledged or refused.
    """

    bootstrap: str
    first_number: int
    """The number of each customer's first order: earlier ones were sent before."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Errors of the orders that were not acknowledged."""

    def gap_s(self, partition: int, since_s: float) -> float:
        """The longest time without an acknowledged order of the partition, from `since_s` on.

        It ends with the last acknowledgement. Raises `Broken` if there is none after `since_s`.
        """
        later = [
            one.at_s
            for one in self.acknowledged
            if one.partition == partition and one.at_s > since_s
        ]
        check(
            bool(later),
            expected=f"orders in {TOPIC}-{partition} are acknowledged after the kill",
            found=f"of {len(self.acknowledged)} acknowledged orders none is after the kill",
        )
        return max(after - before for before, after in pairwise([since_s, *later]))

    def run(self) -> None:
        """Send an order every `EVERY_S`, to the customers in turn; its report notes the answer."""
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
            self.refused.append(
                f"{left} orders were neither acknowledged nor refused within {LIMIT_S} s"
            )

    def _reporter(self, text: str) -> Callable[[KafkaError | None, "Message[bytes, bytes]"], None]:
        """The delivery callback of the order with this text."""

        def report(error: KafkaError | None, message: "Message[bytes, bytes]") -> None:
            if error is not None:
                self.refused.append(str(error))
            else:
                self.acknowledged.append(
                    Acknowledged(text, partition_of(message), time.monotonic())
                )

        return report
