"""What a user's first program does, with kafka-python: send orders, read them back.

Each customer's orders are numbered. They share a key, so they share a partition, so they come
out in the order in which they went in: that is what is checked.
"""

import json
import warnings
from collections import defaultdict
from dataclasses import dataclass

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from e2e.cluster.console import console

with warnings.catch_warnings():
    # It reads its own files by a function that Python has since deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]

TOPIC = "orders"
CUSTOMERS, ORDERS_EACH = 50, 40
ITEMS = ("anchor", "compass", "lantern", "rope", "sextant")
LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Order:
    """One order of one customer."""

    customer: str
    number: int
    item: str

    @property
    def text(self) -> str:
        """As it is sent."""
        return json.dumps({"customer": self.customer, "number": self.number, "item": self.item})


def progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal)


def produce(bootstrap: str) -> list[Order]:
    """Send every customer's orders in turns; return once all are acknowledged."""
    orders = [
        Order(f"customer-{customer}", number, ITEMS[(customer + number) % len(ITEMS)])
        for number in range(ORDERS_EACH)
        for customer in range(CUSTOMERS)
    ]
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    with progress() as bars:
        sent = [
            producer.send(TOPIC, key=one.customer.encode(), value=one.text.encode())
            for one in orders
        ]
        for future in bars.track(sent, description="producing"):
            future.get(timeout=LIMIT_S)
    producer.close()
    console.print(f"{len(orders)} orders of {CUSTOMERS} customers, every one acknowledged")
    return orders


def consume(bootstrap: str, begin: list[int], orders: list[Order]) -> None:
    """Read everything after `begin` and check the order within each key."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=LIMIT_S * 1000)
    places = [TopicPartition(TOPIC, number) for number in range(len(begin))]
    consumer.assign(places)
    for place, offset in zip(places, begin, strict=True):
        consumer.seek(place, offset)
    numbers: dict[str, list[int]] = defaultdict(list)
    partitions: dict[str, set[int]] = defaultdict(set)
    with progress() as bars:
        for _ in bars.track(orders, description="consuming"):
            record = next(consumer)
            order = json.loads(record.value)
            assert record.key.decode() == order["customer"]
            numbers[order["customer"]].append(order["number"])
            partitions[order["customer"]].add(record.partition)
    consumer.close()
    assert len(numbers) == CUSTOMERS
    assert all(found == [*range(ORDERS_EACH)] for found in numbers.values()), dict(numbers)
    assert all(len(found) == 1 for found in partitions.values()), dict(partitions)
    spread = len(set.union(*partitions.values()))
    console.print(
        f"{len(orders)} orders read from {spread} partitions, in order for each of {CUSTOMERS} keys"
    )
