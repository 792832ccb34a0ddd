"""A compacted topic, before and after: of each product only the last price stays.

What is read back by kafka-python is held against kcat, and what `kubectl exec` lists against what
clients can still read.
"""

import json
import time
import warnings
from collections.abc import Mapping

from rich.table import Table

from e2e.cluster.console import console
from e2e.cluster.kubectl import eventually
from e2e.cluster.shell import run
from e2e.kafka import debian
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.main.cluster_metadata import told
from e2e.main.replicas import leader_of, pod_of

with warnings.catch_warnings():
    # It reads its own files by a function that Python has since deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]

TOPIC = "prices"
PRODUCTS, ROUNDS = 20, 500
GONE = "product-0"
"""Its last record is a tombstone: it is not sold any more."""
SEGMENT_S = 1.0
CONFIG = {
    "cleanup.policy": "compact",
    # So that it is to be seen now, and not when a segment is a week old and half of it is dirty.
    "segment.ms": int(SEGMENT_S * 1000),
    "min.cleanable.dirty.ratio": "0.01",
}
NOT_YET = CONFIG | {"cleanup.policy": "delete"}
"""What is read before is whole, however quick compaction is: it is asked for after that."""
LIMIT_S = 120


def show(cluster: BrokerClusterUnderTest) -> None:
    """Write every price, wait until the old ones are gone, read what is left."""
    _apply(cluster, NOT_YET)
    bootstrap = cluster.bootstrap
    eventually("clients are told of it", lambda: told(bootstrap).is_whole(TOPIC, 1), 30)
    expected = produce(bootstrap)
    table = Table("", "records", "segment files", "bytes", title=TOPIC)
    before = kept(bootstrap)
    table.add_row("before", str(len(before)), *on_leader(cluster))
    sent = PRODUCTS * ROUNDS + 2
    assert len(before) == sent, f"{sent} records were sent to {TOPIC}, kcat reads {len(before)}"
    _apply(cluster, CONFIG)
    eventually("old prices are gone", lambda: len(kept(bootstrap)) <= 2 * PRODUCTS, LIMIT_S)
    after = kept(bootstrap)
    table.add_row("after", str(len(after)), *on_leader(cluster))
    console.print(table)
    # What is left is where it was: offsets never change.
    assert after.items() <= before.items(), "a record has another offset now"
    found = consume(bootstrap)
    assert found == expected, f"kafka-python reads {found}, sent were {expected}"
    assert GONE not in found, f"{GONE} has a tombstone, and kafka-python reads a price of it"
    console.print(f"kafka-python reads the last price of each of {len(found)} products")


def _apply(cluster: BrokerClusterUnderTest, config: Mapping[str, object]) -> None:
    manifest = topic_manifest(TOPIC, 1, cluster.name, replicas=3, config=config)
    cluster.kubectl.apply(json.dumps(manifest))
    cluster.wait_ready("ct", TOPIC)


def produce(bootstrap: str) -> dict[str, str]:
    """Product -> its last price. The last record ends a segment: an active one is not cleaned."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    last = {}
    for number in range(ROUNDS):
        for product in (f"product-{one}" for one in range(PRODUCTS)):
            last[product] = f"{number}.{product.partition('-')[2]}0"
            producer.send(TOPIC, key=product.encode(), value=last[product].encode())
    producer.flush()
    for product in (GONE, "product-1"):
        time.sleep(2 * SEGMENT_S)
        value = None if product == GONE else last[product].encode()
        producer.send(TOPIC, key=product.encode(), value=value).get(timeout=60)
    producer.close()
    console.print(f"{PRODUCTS * ROUNDS} prices of {PRODUCTS} products; {GONE} is sold no more")
    del last[GONE]
    return last


def kept(bootstrap: str) -> dict[int, str]:
    """Offset -> key, of everything that kcat reads."""
    printed = run(
        *(debian.program("kcat"), "-C", "-b", bootstrap, "-t", TOPIC, "-q", "-e"),
        *("-p", "0", "-o", "beginning", "-f", "%o %k\\n"),
        timeout_s=60,
    )
    pairs = (line.split() for line in printed.splitlines())
    return {int(offset): key for offset, key in pairs}


def on_leader(cluster: BrokerClusterUnderTest) -> tuple[str, str]:
    """How many segment files there are, and their bytes."""
    pod = pod_of(cluster, leader_of(cluster, TOPIC, 0))
    segments = cluster.segments(pod, TOPIC, 0)
    return str(len(segments)), str(sum(segments.values()))


def consume(bootstrap: str) -> dict[str, str]:
    """Product -> price, as a program that starts now builds its table."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    place = TopicPartition(TOPIC, 0)
    consumer.assign([place])
    consumer.seek_to_beginning(place)
    (end,) = consumer.end_offsets([place]).values()
    found: dict[str, str] = {}
    until_s = time.monotonic() + LIMIT_S
    while consumer.position(place) < end and time.monotonic() < until_s:
        for one in consumer.poll(timeout_ms=500).get(place, ()):
            if one.value is None:
                found.pop(one.key.decode(), None)
            else:
                found[one.key.decode()] = one.value.decode()
    consumer.close()
    return found
