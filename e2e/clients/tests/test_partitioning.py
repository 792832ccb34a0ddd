"""Where records land: by the hash of their key where they have one, spread where not.

Which partition a key belongs to is each client's own decision, from the number of
partitions that the broker tells it. So a wrong count, or one that differs between
answers, shows here.
"""

import zlib
from collections import defaultdict
from collections.abc import Callable

import pytest

from e2e.clients.by_aiokafka import Aiokafka
from e2e.clients.by_java import JavaConsole
from e2e.clients.by_kafka_python import KafkaPython
from e2e.clients.by_kcat import Kcat
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Client, Landed, Record
from e2e.clients.clients import CLIENTS
from e2e.clients.hashes import murmur2
from e2e.clients.topics import end_offsets
from e2e.kafka.process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

PARTITIONS = 6
TIMES = 5
KEYS = [f"customer-{n}".encode() for n in range(40)]
# Each key four times, round-robin; the values count.
KEYED = [Record(f"{n}".encode(), KEYS[n % len(KEYS)]) for n in range(4 * len(KEYS))]


def by_murmur2(key: bytes) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % PARTITIONS


def by_crc32(key: bytes) -> int:
    return zlib.crc32(key) % PARTITIONS


HASHES: list[tuple[Client, Callable[[bytes], int]]] = [
    (KafkaPython(), by_murmur2),
    (Aiokafka(), by_murmur2),
    (JavaConsole(), by_murmur2),
    (Librdkafka(), by_crc32),
    (Kcat(), by_crc32),
]


@pytest.mark.parametrize(
    ("client", "partition_of"), [pytest.param(*pair, id=pair[0].name) for pair in HASHES]
)
def test_a_key_decides_the_partition_and_keeps_its_order(
    broker: BrokerProcess,
    new_topic: Callable[[int], str],
    client: Client,
    partition_of: Callable[[bytes], int],
) -> None:
    topic = new_topic(PARTITIONS)
    client.produce(broker.bootstrap, topic, KEYED)

    found = read_all(broker, topic)
    assert {key: {one.partition for one in found[key]} for key in KEYS} == {
        key: {partition_of(key)} for key in KEYS
    }
    for key in KEYS:
        in_order = sorted(found[key], key=lambda one: one.offset)
        assert [one.record for one in in_order] == [one for one in KEYED if one.key == key]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda one: one.name)
def test_records_without_a_key_spread(
    broker: BrokerProcess, new_topic: Callable[[int], str], client: Client
) -> None:
    """Clients fill a batch for one partition before they go to the next, which they draw: on a slow
    machine Java's may send 600 records to two of three."""
    topic = new_topic(3)
    records = [Record(b"x" * 1000) for _ in range(600)]
    spread, sent = [0], 0
    while min(spread) == 0 and sent < TIMES * len(records):
        client.produce(broker.bootstrap, topic, records)
        sent += len(records)
        spread = end_offsets(broker.bootstrap, topic, range(3))
    assert sum(spread) == sent
    assert min(spread) > 0, spread


def read_all(broker: BrokerProcess, topic: str) -> dict[bytes | None, list[Landed]]:
    """Every record of the topic by its key."""
    found: dict[bytes | None, list[Landed]] = defaultdict(list)
    for number, end in enumerate(end_offsets(broker.bootstrap, topic, range(PARTITIONS))):
        for one in Librdkafka().consume(broker.bootstrap, topic, number, end):
            found[one.record.key].append(one)
    return found
