"""A verification of three replicas, of which one has something else on its disk than the others.

What no broker can know is named exactly. What a broker notices when it reads it refuses, and tells
in its status what it was, from which the operator names it; what it notices when it starts it
fetches anew, and then nothing is wrong any more.
"""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest

from chiplog_core.model.broker import Broker
from chiplog_core.model.spark_result import Result
from chiplog_core.naming import api
from chiplog_core.spark.refused_reads import DamageReports
from chiplog_core.spark.verification_report import finding_of
from chiplog_spark.verify.hashes import PARTITIONERS
from chiplog_spark.wire.access import Access, addresses_of
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import CLEAN_POINT
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import create_topic, end_offsets
from e2e.kafka.members import wait_for, wait_whole
from e2e.loopback.cluster import NAME, SIZE, LoopbackCluster, own_path
from e2e.loopback.damage import Replica, replicas
from e2e.spark.planted import cut, flip, lose_front, outdated, overwrite, records_in, remove

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Verified = Callable[..., Result]
KEYS = [f"customer-{number:03}".encode() for number in range(300)]
# Damage is found by whom the test says, not by chance before.
SETTINGS = {"log.cleaner.backoff.ms": "500", "chiplog.scrub.interval.ms": "-1"}
SMALL_SEGMENTS = {"segment.bytes": str(2**20)}
COMPACTED = {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackCluster]:
    """Three brokers. Every test leaves them whole, and has topics of its own."""
    with LoopbackCluster(tmp_path_factory.mktemp("three") / "cluster", SETTINGS) as one:
        yield one


def whole(cluster: LoopbackCluster) -> None:
    wait_whole(cluster, SIZE, replicas=SIZE)


def produce(cluster: LoopbackCluster, topic: str, count: int, size_bytes: int = 100) -> None:
    """The keys in turns, in several batches."""
    records = [
        Record(b"%06d" % at + b"x" * size_bytes, KEYS[at % len(KEYS)]) for at in range(count)
    ]
    for start in range(0, count, 250):
        Librdkafka().produce(cluster.bootstrap, topic, records[start : start + 250])


def follower(cluster: LoopbackCluster, topic: str) -> Replica:
    """Of partition 0."""
    return replicas(cluster, topic, 0)[1][0]


def told(result: Result) -> set[tuple[str, str, int, int | None, int | None]]:
    """Every violation: check, topic, partition, offset, replica."""
    assert result.violations_total == len(result.violations)
    return {
        (one.check.value, one.topic, one.partition, one.offset, one.replica)
        for one in result.violations
    }


def refused(result: Result) -> set[tuple[str, int, int, int]]:
    return {
        (one["topic"], one["partition"], one["offset"], one["replica"])
        for one in result.summary["refused"]
    }


def named(cluster: LoopbackCluster, result: Result, began: datetime) -> Result:
    """As the operator tells it, which asks the brokers about what they refused."""
    manifests = (
        cluster.server.ask("GET", f"{own_path(api.BROKER)}/{NAME}-{one}") for one in cluster.brokers
    )
    brokers = {one.spec.broker_id: one for one in map(Broker.from_manifest, manifests)}
    found = finding_of(result, DamageReports(brokers=brokers, began=began, ended=datetime.now(UTC)))
    assert found.result is not None
    return found.result


def stored(replica: Replica) -> bytes:
    return b"".join(path.read_bytes() for path in replica.segments())


def clean_offset(replica: Replica) -> int:
    """Up to where it is compacted."""
    with Client(Access(addresses_of(replica.cluster.bootstrap))) as client:
        facts = client.topic(replica.topic)
        return client.offsets(facts, {replica.partition: CLEAN_POINT}, replica.broker_id)[
            replica.partition
        ]


def is_compacted(replica: Replica) -> bool:
    """To its end: what is left would be compacted later, and take damage along."""
    newest = int(replica.segments()[-1].stem)
    return 0 < newest == clean_offset(replica)


def test_bytes_that_no_broker_can_know_to_be_wrong(
    cluster: LoopbackCluster, verified: Verified
) -> None:
    """Others under a right checksum, and a replica that begins too late by its own notes."""
    topics = ("placed", "compacted", "fronts")
    create_topic(cluster.bootstrap, "placed", 2, replicas=SIZE)
    create_topic(cluster.bootstrap, "compacted", 1, COMPACTED, replicas=SIZE)
    create_topic(cluster.bootstrap, "fronts", 1, SMALL_SEGMENTS, replicas=SIZE)
    produce(cluster, "placed", 1_000)
    for _ in range(3):
        produce(cluster, "compacted", 1_500, 1_000)
    produce(cluster, "fronts", 2_000, 1_000)
    whole(cluster)
    old = follower(cluster, "compacted")
    wait_for("compaction", lambda: is_compacted(old))
    result = verified(cluster.bootstrap, *topics, records_per_split=200)
    assert (told(result), refused(result)) == (set(), set())
    assert result.summary["skipped"] == []
    assert result.summary["coverage"]["replicas"] == 4 * SIZE

    placed = follower(cluster, "placed")
    (path,) = placed.segments()
    records = {one.offset: one for one in records_in(path)}
    stranger = next(key for key in KEYS if all(of(key, 2) != 0 for of in PARTITIONERS.values()))
    first = overwrite(path, 3, (records[3].value or b"")[:6], b"999999")
    last = max(records)
    second = overwrite(path, last, records[last].key or b"", stranger)
    assert first < second, "two batches, so two of them differ"
    older = outdated(old.directory, clean_offset(old))
    late = follower(cluster, "fronts")
    cluster.kill(late.broker_id)
    lose_front(cluster.volume(late.broker_id) / "data", "fronts", 0)
    cluster.start_again(late.broker_id)
    whole(cluster)

    result = verified(cluster.bootstrap, *topics, records_per_split=200)
    assert told(result) == {
        ("ReplicaMismatch", "placed", 0, first, placed.broker_id),
        ("ReplicaMismatch", "placed", 0, second, placed.broker_id),
        ("KeyPlacement", "placed", 0, last, placed.broker_id),
        ("CompactionOrder", "compacted", 0, older, old.broker_id),
        ("MissingSegment", "fronts", 0, 0, late.broker_id),
    }
    assert refused(result) == set()


def test_what_a_broker_notices_when_it_is_read_it_refuses(
    cluster: LoopbackCluster, verified: Verified
) -> None:
    """A flipped bit, and a tail that is cut off: the broker does not serve the replica at all."""
    topics = ("bits", "tails")
    for topic in topics:
        create_topic(cluster.bootstrap, topic, 1, replicas=SIZE)
        produce(cluster, topic, 1_000)
    whole(cluster)
    assert told(verified(cluster.bootstrap, *topics)) == set()
    bits, tails = (follower(cluster, topic) for topic in topics)
    damaged = flip(bits.segments()[0], random.Random(7))  # noqa: S311 - not for secrets
    missing = cut(tails.segments()[0])
    assert (damaged > 0, missing > 0) == (True, True), "else where the read began would do"

    began = datetime.now(UTC)
    result = verified(cluster.bootstrap, *topics)
    # Of a range that holds damage nothing is served: the job knows where its read began.
    assert refused(result) == {("bits", 0, 0, bits.broker_id), ("tails", 0, 0, tails.broker_id)}
    exact = {
        ("Crc", "bits", 0, damaged, bits.broker_id),
        ("TruncatedTail", "tails", 0, missing, tails.broker_id),
    }
    # The brokers' words are on their way when the job, here without a driver that ends, is done.
    wait_for("damage is named", lambda: told(named(cluster, result, began)) == exact)
    whole(cluster)
    wait_for("nothing is damaged", lambda: not (bits.is_damaged() or tails.is_damaged()))
    assert told(named(cluster, result, began)) == exact, "it is told also when it is whole again"
    result = verified(cluster.bootstrap, *topics)
    assert (told(result), refused(result)) == (set(), set())
    assert result.summary["coverage"]["replicas"] == len(topics) * SIZE


def test_what_a_broker_notices_when_it_starts_it_fetches_again(
    cluster: LoopbackCluster, verified: Verified
) -> None:
    """A segment that is missing between others, and a tail that is cut off meanwhile.

    Until it is whole it is not in sync, so nobody expects the records of it.
    """
    create_topic(cluster.bootstrap, "holes", 1, SMALL_SEGMENTS, replicas=SIZE)
    create_topic(cluster.bootstrap, "ends", 1, replicas=SIZE)
    produce(cluster, "holes", 2_500, 1_000)
    produce(cluster, "ends", 1_000)
    whole(cluster)
    hurt = follower(cluster, "holes")
    end = Replica(cluster, "ends", 0, hurt.broker_id)
    before = {one: stored(one) for one in (hurt, end)}
    cluster.kill(hurt.broker_id)
    remove(hurt.segments()[1])
    cut(end.segments()[0])
    cluster.start_again(hurt.broker_id)
    assert told(verified(cluster.bootstrap, "holes", "ends")) == set()
    whole(cluster)
    result = verified(cluster.bootstrap, "holes", "ends")
    assert (told(result), refused(result)) == (set(), set())
    ends = [end_offsets(cluster.bootstrap, one, [0])[0] for one in ("holes", "ends")]
    assert result.summary["coverage"]["records"] == SIZE * sum(ends)
    assert {one: stored(one) for one in (hurt, end)} == before
