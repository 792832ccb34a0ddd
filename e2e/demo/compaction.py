"""A step of the demo: a topic before and after compaction, which keeps each product's last price.

The records are read with both kafka-python and kcat, and `kubectl exec` lists the segment files.
"""

import json
import time
from collections.abc import Mapping

from rich.table import Table

from e2e.clients.by_kafka_python import KafkaConsumer, KafkaProducer, TopicPartition
from e2e.cluster.console import console, step
from e2e.cluster.shell import run
from e2e.demo.checking import LIMIT_S, check, until
from e2e.kafka import debian
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import client_metadata
from e2e.main.replicas import leader_of, pod_of

TOPIC = "prices"
PRODUCTS, ROUNDS = 20, 500
GONE = "product-0"
"""A product whose last record is a tombstone: it is not sold any more."""
SEGMENT_S = 1.0
CONFIG = {
    "cleanup.policy": "compact",
    # Compact at once. By default a segment is compacted after a week, and if half of it is dirty.
    "segment.ms": int(SEGMENT_S * 1000),
    "min.cleanable.dirty.ratio": "0.01",
}
BEFORE_CONFIG = CONFIG | {"cleanup.policy": "delete"}
"""The configuration until all records have been read once: nothing is compacted before that."""
READ_LIMIT_S = 60
SEND_LIMIT_S = 300


def show(cluster: BrokerClusterUnderTest) -> None:
    """Write all prices, wait until the old ones are compacted away, and read what is left.

    The topic of an earlier demo is deleted first, so that offsets and counts are of this run.
    """
    with step(f"creating the topic {TOPIC}"):
        cluster.kubectl("delete", "topics.chiplog.dev", TOPIC, "--ignore-not-found")
        cluster.wait_gone("topics.chiplog.dev", TOPIC, LIMIT_S)
        apply(cluster, BEFORE_CONFIG)
    bootstrap = cluster.bootstrap
    expected = produce(bootstrap)
    sent = PRODUCTS * ROUNDS + 2  # and the tombstone, and the record that ends its segment
    before = until(f"kcat reads the {sent} prices that were sent", lambda: all_of(bootstrap, sent))
    table = Table("", "records", "segment files", "bytes", title=TOPIC)
    table.add_row("before", str(len(before)), *on_leader(cluster))
    with step("cleanup.policy=compact, and waiting until the old prices are gone"):
        apply(cluster, CONFIG)
        after = until(
            f"at most {2 * PRODUCTS} of {sent} records left: the last of each product, "
            "and those of the active segment",
            lambda: cleaned(bootstrap),
        )
    table.add_row("after", str(len(after)), *on_leader(cluster))
    console.print(table)
    moved = {offset: key for offset, key in after.items() if before.get(offset) != key}
    check(
        not moved,
        expected="compaction keeps the offset of each record",
        found=f"records at another offset (offset: key): {moved}",
    )
    last_prices(bootstrap, expected)


def last_prices(bootstrap: str, expected: dict[str, str]) -> None:
    """Check that a program that starts now reads the last price of each product still sold.

    `expected` is product -> last price.
    """
    found = consume(bootstrap)
    for product in sorted(found.keys() | expected.keys()):
        check(
            found.get(product) == expected.get(product),
            expected=f"kafka-python reads {expected.get(product, 'no price')} as the last price of "
            f"{product}",
            found=found.get(product, "no price"),
        )
    console.print(f"kafka-python reads the last price of each of {len(found)} products")


def apply(cluster: BrokerClusterUnderTest, config: Mapping[str, object]) -> None:
    """Apply the topic with this configuration; returns when clients can write to it."""
    manifest = topic_manifest(TOPIC, 1, cluster.name, replicas=3, config=config)
    cluster.kubectl.apply(json.dumps(manifest))
    cluster.wait_ready("topics.chiplog.dev", TOPIC, LIMIT_S)

    def has_leader() -> None:
        answer = client_metadata(cluster.bootstrap)
        assert answer.is_whole(TOPIC, 1), f"kcat gets the leaders {answer.leaders.get(TOPIC)}"

    until(f"clients get the leader of {TOPIC}-0", has_leader)


def all_of(bootstrap: str, count: int) -> dict[int, str]:
    """Offset -> key of all records; raises `AssertionError` unless there are `count`."""
    found = kept(bootstrap)
    assert len(found) == count, f"{len(found)} records"
    return found


def cleaned(bootstrap: str) -> dict[int, str]:
    """Offset -> key of all records; raises `AssertionError` while many old prices are left."""
    found = kept(bootstrap)
    assert len(found) <= 2 * PRODUCTS, f"{len(found)} records"
    return found


def produce(bootstrap: str) -> dict[str, str]:
    """Send all prices; returns product -> last price of the products still sold.

    The tombstone and one more record are sent later, each into a new segment: the active segment is
    never compacted, so the record after the tombstone makes the tombstone's segment inactive.
    """
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks="all",
        linger_ms=5,
        delivery_timeout_ms=SEND_LIMIT_S * 1000,
    )
    last, sent = {}, []
    for number in range(ROUNDS):
        for product in (f"product-{one}" for one in range(PRODUCTS)):
            last[product] = f"{number}.{product.partition('-')[2]}0"
            value = last[product].encode()
            sent.append(producer.send(TOPIC, key=product.encode(), value=value))
    for future in sent:
        future.get(timeout=SEND_LIMIT_S)
    for product in (GONE, "product-1"):
        time.sleep(2 * SEGMENT_S)
        price = None if product == GONE else last[product].encode()
        producer.send(TOPIC, key=product.encode(), value=price).get(timeout=SEND_LIMIT_S)
    producer.close()
    console.print(
        f"sent {PRODUCTS * ROUNDS} prices of {PRODUCTS} products, and a tombstone for {GONE}"
    )
    del last[GONE]
    return last


def kept(bootstrap: str) -> dict[int, str]:
    """Offset -> key of every record of the topic, read with kcat."""
    printed = run(
        *(debian.program("kcat"), "-C", "-b", bootstrap, "-t", TOPIC, "-q", "-e"),
        *("-p", "0", "-o", "beginning", "-f", "%o %k\\n"),
        timeout_s=READ_LIMIT_S,
    )
    pairs = (line.split() for line in printed.splitlines())
    return {int(offset): key for offset, key in pairs}


def on_leader(cluster: BrokerClusterUnderTest) -> tuple[str, str]:
    """How many segment files the leader has, and their total bytes, as text for the table."""

    def listed() -> dict[str, int]:
        return cluster.segments(pod_of(cluster, leader_of(cluster, TOPIC, 0)), TOPIC, 0)

    segments = until(f"the leader of {TOPIC}-0 lists its segment files", listed)
    return str(len(segments)), str(sum(segments.values()))


def consume(bootstrap: str) -> dict[str, str]:
    """Product -> price, as a program that starts now reads them from the whole topic."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    place = TopicPartition(TOPIC, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    (end,) = until(f"the end offset of {TOPIC}-0", lambda: consumer.end_offsets([place]).values())
    found: dict[str, str] = {}
    deadline_s = time.monotonic() + LIMIT_S
    while consumer.position(place) < end and time.monotonic() < deadline_s:
        for one in consumer.poll(timeout_ms=500).get(place, ()):
            if one.value is None:
                found.pop(one.key.decode(), None)
            else:
                found[one.key.decode()] = one.value.decode()
    position = consumer.position(place)
    consumer.close()
    check(
        position >= end,
        expected=f"kafka-python reads {TOPIC}-0 to offset {end} within {LIMIT_S:.0f} s",
        found=f"offset {position}",
    )
    return found
