"""A verification of what a broker by itself has stored: clean data, and damage on its disk."""

import threading
import time
from collections.abc import Callable

import pytest

from chiplog_core.model.spark_result import Result
from chiplog_spark.verify.hashes import PARTITIONERS
from chiplog_spark.wire.access import Access, addresses_of
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.errors import UnknownTopic
from chiplog_spark.wire.facts import CLEAN_POINT
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.members import wait_for
from e2e.spark.planted import outdated, overwrite, records_in, restamp, segments

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

Verified = Callable[..., Result]
KEYS = [f"customer-{number:03}".encode() for number in range(300)]
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": str(2**20),
    "min.cleanable.dirty.ratio": "0.01",
}


def told(result: Result) -> list[tuple[str, int, int | None, int | None]]:
    return [(one.check.value, one.partition, one.offset, one.replica) for one in result.violations]


def records_of(keys: list[bytes], times: int, size_bytes: int = 100) -> list[Record]:
    """The keys in turns, each with values that count."""
    return [
        Record(b"%06d" % number + b"x" * size_bytes, key) for number, key in enumerate(keys * times)
    ]


def clean_point(bootstrap: str, topic: str, partition: int = 0, replica: int = 1) -> int:
    with Client(Access(addresses_of(bootstrap))) as client:
        facts = client.topic(topic)
        return client.offsets(facts, {partition: CLEAN_POINT}, replica)[partition]


def test_a_clean_topic(broker: StandaloneBroker, verified: Verified) -> None:
    create_topic(broker.bootstrap, "clean", 3)
    for codec in ("none", "lz4", "zstd"):
        Librdkafka().produce(broker.bootstrap, "clean", records_of(KEYS, 3), codec)
    result = verified(broker.bootstrap, "clean", records_per_split=70)
    assert told(result) == []
    assert result.summary["coverage"] == {
        "topics": 1,
        "partitions": 3,
        "replicas": 3,
        "records": sum(end_offsets(broker.bootstrap, "clean", range(3))),
        "bytes": sum(path.stat().st_size for path in broker.logs.glob("clean-*/*.log")),
    }
    (chosen,) = result.summary["partitioners"]
    assert chosen == {"topic": "clean", "partitioner": "crc32", "share": 100.0}
    assert result.summary["refused"] == result.summary["skipped"] == []
    assert not result.summary["figures"]["timeLimitReached"]


def test_an_empty_topic_and_one_that_is_not_there(
    broker: StandaloneBroker, verified: Verified
) -> None:
    create_topic(broker.bootstrap, "empty", 2)
    result = verified(broker.bootstrap, "empty")
    assert told(result) == []
    assert result.summary["coverage"]["records"] == 0
    with pytest.raises(UnknownTopic, match="no-such-topic"):
        verified(broker.bootstrap, "no-such-topic")


def test_under_load_and_retention_nothing_is_accused(
    broker: StandaloneBroker, verified: Verified
) -> None:
    """Segments roll and are deleted while they are read: ends are fixed at the beginning."""
    config = {"segment.bytes": str(2**20), "retention.bytes": str(3 * 2**20)}
    create_topic(broker.bootstrap, "busy", 2, config)
    ends, is_over = threading.Event(), []

    def load() -> None:
        while not ends.is_set():
            Librdkafka().produce(broker.bootstrap, "busy", records_of(KEYS, 4, 2_000))
        is_over.append(True)

    thread = threading.Thread(target=load)
    Librdkafka().produce(broker.bootstrap, "busy", records_of(KEYS, 10, 2_000))
    thread.start()
    try:
        for _ in range(4):
            result = verified(
                broker.bootstrap, "busy", records_per_split=300, bytes_per_second=4 * 2**20
            )
            assert told(result) == []
            assert result.summary["coverage"]["records"] > 0
    finally:
        ends.set()
        thread.join()
    assert is_over


def test_a_time_limit_says_what_was_covered(broker: StandaloneBroker, verified: Verified) -> None:
    create_topic(broker.bootstrap, "long", 1)
    Librdkafka().produce(broker.bootstrap, "long", records_of(KEYS, 10, 2_000))
    began_s = time.monotonic()
    result = verified(
        broker.bootstrap,
        "long",
        records_per_split=200,
        bytes_per_second=50_000,
        time_limit_ms=15_000,
    )
    assert told(result) == []
    figures, covered = result.summary["figures"], result.summary["coverage"]["bytes"]
    stored = sum(path.stat().st_size for path in broker.logs.glob("long-*/*.log"))
    assert figures["timeLimitReached"]
    assert 0 < covered < stored
    # The limits are kept: so much was due by then, and one batch.
    assert covered <= 50_000 * (time.monotonic() - began_s) + 2**20
    assert "until the time limit" in result.message


def test_a_compacted_topic(broker: StandaloneBroker, verified: Verified) -> None:
    create_topic(broker.bootstrap, "latest", 1, COMPACTED)
    for _ in range(3):
        Librdkafka().produce(broker.bootstrap, "latest", records_of(KEYS, 5, 1_000))
    wait_for("compaction", lambda: clean_point(broker.bootstrap, "latest") > 0)
    result = verified(broker.bootstrap, "latest", records_per_split=500)
    assert told(result) == []
    assert result.summary["skipped"] == []


def test_damage_on_the_disk_is_named(own_broker: StandaloneBroker, verified: Verified) -> None:
    broker, topics = own_broker, ("orders", "dated", "latest")
    create_topic(broker.bootstrap, "orders", 3)
    create_topic(broker.bootstrap, "dated", 1)
    create_topic(broker.bootstrap, "latest", 1, COMPACTED)
    Librdkafka().produce(broker.bootstrap, "orders", records_of(KEYS, 4))
    Librdkafka().produce(broker.bootstrap, "dated", records_of(KEYS, 1))
    once = [b"retained-%03d" % number for number in range(20)]
    Librdkafka().produce(broker.bootstrap, "latest", records_of(once, 1))
    for _ in range(3):
        Librdkafka().produce(broker.bootstrap, "latest", records_of(KEYS, 5, 1_000))
    # To its end: what is left would be compacted after the restart, and take the damage along.
    newest = int(segments(broker.logs / "latest-0")[-1].stem)
    assert newest > 0
    wait_for("compaction", lambda: clean_point(broker.bootstrap, "latest") == newest)
    point = newest
    assert told(verified(broker.bootstrap, *topics)) == []
    broker.stop()

    # A record in the wrong partition: its key is one that belongs elsewhere.
    stranger = next(key for key in KEYS if all(of(key, 3) != 1 for of in PARTITIONERS.values()))
    (orders,) = segments(broker.logs / "orders-1")
    key = next(one.key for one in records_in(orders) if one.offset == 5)
    overwrite(orders, 5, key or b"", stranger)
    # A batch that says of its newest record that it is newer.
    (dated,) = segments(broker.logs / "dated-0")
    restamp(dated)
    # Compaction left an older value: a survivor has the key of a later one.
    older = outdated(broker.logs / "latest-0", point)

    broker.start()
    found = told(verified(broker.bootstrap, *topics))
    assert sorted(found) == [
        ("CompactionOrder", 0, older, 1),
        ("KeyPlacement", 1, 5, 1),
        ("Timestamp", 0, 0, 1),
    ]


def test_a_flipped_bit_is_reported_and_no_crash(
    own_broker: StandaloneBroker, verified: Verified
) -> None:
    """The broker compares what it reads with what was written, and refuses: that is told."""
    broker = own_broker
    create_topic(broker.bootstrap, "orders", 2)
    Librdkafka().produce(broker.bootstrap, "orders", records_of(KEYS, 4))
    broker.stop()
    (path,) = segments(broker.logs / "orders-1")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    broker.start()
    result = verified(broker.bootstrap, "orders")
    ((check, partition, _, replica),) = told(result)
    assert (check, partition, replica) == ("Crc", 1, 1)
    (refused,) = result.summary["refused"]
    assert (refused["topic"], refused["partition"], refused["replica"]) == ("orders", 1, 1)
    assert "refuses to serve" in result.violations[0].message
    assert result.summary["coverage"]["partitions"] >= 1
