"""kafka-get-offsets.sh prints `orders:0:5`, for every kind of offset it can ask for."""

from collections.abc import Callable

import pytest

from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic
from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

YEAR_2100_MS = "4102444800000"


@pytest.fixture(scope="module")
def orders(broker: BrokerProcess) -> str:
    """Three partitions, of which only the first has records: five."""
    create_topic(broker.bootstrap, "orders", 3)
    records = [Record(f"order {n}".encode()) for n in range(5)]
    Librdkafka().produce(broker.bootstrap, "orders", records, partition=0)
    return "orders"


def offsets(broker: BrokerProcess, topic: str, *arguments: str) -> list[str]:
    command = ("kafka-get-offsets.sh", "--bootstrap-server", broker.bootstrap, "--topic", topic)
    return run_tool(*command, *arguments).split()


def test_the_end_is_the_default(broker: BrokerProcess, orders: str) -> None:
    assert offsets(broker, orders) == ["orders:0:5", "orders:1:0", "orders:2:0"]


def test_the_beginning(broker: BrokerProcess, orders: str) -> None:
    expected = ["orders:0:0", "orders:1:0", "orders:2:0"]
    assert offsets(broker, orders, "--time", "earliest") == expected


def test_the_record_of_the_highest_timestamp(broker: BrokerProcess, orders: str) -> None:
    """An empty partition has none, and gets no line."""
    (line,) = offsets(broker, orders, "--time", "max-timestamp")
    topic, partition, offset = line.split(":")
    assert (topic, partition) == ("orders", "0")
    assert 0 <= int(offset) < 5


def test_the_first_record_from_a_time_on(broker: BrokerProcess, orders: str) -> None:
    """Partitions without one get no line."""
    assert offsets(broker, orders, "--time", "0") == ["orders:0:0"]
    assert offsets(broker, orders, "--time", YEAR_2100_MS) == []


def test_one_partition(broker: BrokerProcess, orders: str) -> None:
    assert offsets(broker, orders, "--partitions", "0") == ["orders:0:5"]


def test_offsets_follow_each_append(broker: BrokerProcess, new_topic: Callable[[int], str]) -> None:
    topic = new_topic(1)
    for expected in (1, 2, 3):
        Librdkafka().produce(broker.bootstrap, topic, [Record(b"one more")])
        assert offsets(broker, topic) == [f"{topic}:0:{expected}"]
