"""A step of the demo: a first program with kafka-python, which sends orders and reads them back.

Each customer's orders are numbered. They have one key and so are in one partition: they must be
read in the order in which they were sent.
"""

import json
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from e2e.clients.by_kafka_python import KafkaConsumer, KafkaProducer, TopicPartition
from e2e.cluster.console import console
from e2e.demo.checking import check

TOPIC = "orders"
CUSTOMERS, ORDERS_EACH = 50, 40
ITEMS = ("anchor", "compass", "lantern", "rope", "sextant")
LIMIT_S = 300
"""Far more than needed (a second on an idle machine): it only prevents waiting for ever."""


@dataclass(frozen=True, slots=True)
class Order:
    """One order of one customer."""

    customer: str
    number: int
    item: str

    @property
    def text(self) -> str:
        """The order as JSON, which is the value of its record."""
        return json.dumps({"customer": self.customer, "number": self.number, "item": self.item})


def progress() -> Progress:
    """Progress bars, which are shown only on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def produce(bootstrap: str) -> list[Order]:
    """Send the customers' orders round-robin; return once all are acknowledged."""
    orders = [
        Order(f"customer-{customer}", number, ITEMS[(customer + number) % len(ITEMS)])
        for number in range(ORDERS_EACH)
        for customer in range(CUSTOMERS)
    ]
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", linger_ms=5, delivery_timeout_ms=LIMIT_S * 1000
    )
    with progress() as bars:
        sent = [
            producer.send(TOPIC, key=one.customer.encode(), value=one.text.encode())
            for one in orders
        ]
        for future in bars.track(sent, description="producing"):
            future.get(timeout=LIMIT_S)
    producer.close()
    console.print(f"sent {len(orders)} orders of {CUSTOMERS} customers; all were acknowledged")
    return orders


def consume(bootstrap: str, begin: list[int], orders: list[Order]) -> None:
    """Read all records from the offsets `begin` (one per partition) on; check the order by key."""
    numbers: dict[str, list[int]] = defaultdict(list)
    partitions: dict[str, set[int]] = defaultdict(set)
    for record in records(bootstrap, begin, len(orders)):
        customer = record.key.decode()
        numbers[customer].append(json.loads(record.value)["number"])
        partitions[customer].add(record.partition)
    for customer in (f"customer-{number}" for number in range(CUSTOMERS)):
        check(
            numbers[customer] == [*range(ORDERS_EACH)],
            expected=f"kafka-python reads {customer}'s orders 0 to {ORDERS_EACH - 1} in this order",
            found=f"orders {numbers[customer]}",
        )
        check(
            len(partitions[customer]) == 1,
            expected=f"all orders of {customer} are in one partition, as they have one key",
            found=f"partitions {sorted(partitions[customer])}",
        )
    spread = len(set.union(*partitions.values()))
    console.print(
        f"read {len(orders)} orders from {spread} partitions, in order for each of {CUSTOMERS} keys"
    )


def records(bootstrap: str, begin: list[int], count: int) -> list[Any]:
    """`count` records, read with kafka-python from the offsets `begin` (one per partition) on.

    Raises `Broken` if there are fewer, or more, within `LIMIT_S`.
    """
    places = [TopicPartition(TOPIC, number) for number in range(len(begin))]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    consumer.assign(places)
    for place, offset in zip(places, begin, strict=True):
        consumer.seek(place, offset)
    found: list[Any] = []
    deadline_s = time.monotonic() + LIMIT_S
    with progress() as bars:
        bar = bars.add_task("consuming", total=count)
        while len(found) < count and time.monotonic() < deadline_s:
            found += chain.from_iterable(consumer.poll(timeout_ms=500).values())
            bars.update(bar, completed=len(found))
    consumer.close()
    check(
        len(found) == count,
        expected=f"kafka-python reads the {count} orders within {LIMIT_S} s",
        found=f"{len(found)} orders",
    )
    return found
