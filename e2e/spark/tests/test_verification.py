"""A Verification on Kubernetes: what is whole, what is damaged, and what cannot be done at all."""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from chiplog_core.ids import BrokerId
from chiplog_core.naming import names
from chiplog_spark.verify.hashes import PARTITIONERS
from chiplog_spark.wire.access import Access, addresses_of
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.facts import CLEAN_POINT
from e2e import measured
from e2e.clients.by_kafka_python import KafkaConsumer, TopicPartition
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.cluster import containers, processes
from e2e.cluster.kubectl import eventually
from e2e.cluster.shell import CommandFailed
from e2e.cluster.target import Target
from e2e.lanes import is_full
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.operator import Operator
from e2e.main.replicas import places, pod_of, wait_in_sync
from e2e.main.setting_up import cluster_in, make_topic
from e2e.spark.planted import (
    cut,
    flip,
    lose_front,
    outdated,
    overwrite,
    records_in,
    remove,
    segments,
)
from e2e.spark.small import BROKER_RESOURCES, small_jobs
from e2e.spark.verifications import Verifications, condition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800 if is_full() else 600)]

NAMESPACE = "e2e-spark"
SIZE = 3
DATA_BYTES = 10**9 if is_full() else 50_000_000
RECORD_BYTES = 1_000
IN_FLIGHT = 20_000
# So that segments end where they may, not where a batch of a megabyte lets them.
A_FEW = 250
KEYS = [f"customer-{number:03}".encode() for number in range(300)]
# Damage is found by whom the test says, not by chance before.
CONFIG: dict[str, object] = {
    "chiplog.scrub.interval.ms": -1,
    "log.cleaner.backoff.ms": 500,
    "log.retention.check.interval.ms": 500,
}
SMALL_SEGMENTS = {"segment.bytes": 2**20}
COMPACTED = {**SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
# Ten seconds of the load: some of what a run has found is still there when executors read it.
EXPIRING = {**SMALL_SEGMENTS, "retention.bytes": 10 * 2**20}
RUN_LIMIT_S = 1200 if is_full() else 240
# An image, or a pod, that is not there is waited for two minutes.
PATIENCE_S = 200


def broker_cluster(image: str) -> tuple[str, str]:
    """The first example without its topic; jobs are small, and run as plain Jobs."""
    cluster, _ = yaml.safe_load_all(example(CONFIG))
    cluster["spec"]["spark"] = small_jobs(image, executors=2)
    cluster["spec"]["resources"] = BROKER_RESOURCES
    return str(cluster["metadata"]["name"]), str(yaml.safe_dump(cluster))


@pytest.fixture(scope="module")
def cluster(
    target: Target, operator: Operator, spark_jobs_image: str
) -> Iterator[BrokerClusterUnderTest]:
    """Three brokers in a namespace that admits nothing but restricted pods."""
    name, manifest = broker_cluster(spark_jobs_image)
    operator.wait_whole()
    with cluster_in(target, NAMESPACE, manifest, name) as one:
        yield one


@pytest.fixture(scope="module")
def verifications(cluster: BrokerClusterUnderTest) -> Verifications:
    return Verifications(cluster.kubectl, cluster.name)


@pytest.fixture(scope="module")
def hopeless(cluster: BrokerClusterUnderTest, verifications: Verifications) -> Verifications:
    """Two whose pods never start: begun before the other tests, since they are waited for."""
    new_topic(cluster, "anything", 1)
    verifications.apply("no-image", ["anything"], spark={"image": "chiplog/spark:none"})
    verifications.apply("no-account", ["anything"], spark={"serviceAccountName": "nobody"})
    return verifications


def new_topic(cluster: BrokerClusterUnderTest, name: str, partitions: int, **config: Any) -> None:
    """Create a topic with three replicas; returns when clients can use it."""
    make_topic(cluster, name, partitions, replicas=SIZE, config=config)


def produce(
    cluster: BrokerClusterUnderTest,
    topic: str,
    count: int,
    size_bytes: int = RECORD_BYTES,
    in_flight: int = IN_FLIGHT,
) -> None:
    """The keys in rotation; so many records may be in flight and make a batch."""
    for start in range(0, count, in_flight):
        records = [
            Record(b"%010d" % at + b"x" * (size_bytes - 10), KEYS[at % len(KEYS)])
            for at in range(start, min(start + in_flight, count))
        ]
        Librdkafka().produce(cluster.bootstrap, topic, records)


def counted(bootstrap: str, topic: str, partitions: int) -> int:
    """Records of a topic by another library: ends minus beginnings."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        ends, starts = consumer.end_offsets(places), consumer.beginning_offsets(places)
        return sum(ends[one] - starts[one] for one in places)
    finally:
        consumer.close()


def volume(cluster: BrokerClusterUnderTest, broker: int) -> Path:
    """The directory of a broker's data on this machine."""
    claim = names.volume_claim(cluster.name, BrokerId(broker))
    name = cluster.kubectl.get("pvc", claim)["spec"]["volumeName"]
    return Path(cluster.kubectl.get("pv", name)["spec"]["local"]["path"])


def directory(cluster: BrokerClusterUnderTest, broker: int, topic: str, partition: int = 0) -> Path:
    """A replica's."""
    (found,) = volume(cluster, broker).glob(f"**/{topic}-{partition}")
    return found


def stored_bytes(cluster: BrokerClusterUnderTest, topic: str) -> int:
    """Total size of all replicas' segment files."""
    return sum(
        path.stat().st_size
        for broker in range(1, SIZE + 1)
        for path in volume(cluster, broker).glob(f"**/{topic}-*/*.log")
    )


def one_process_reads_mb_per_s(cluster: BrokerClusterUnderTest, topic: str, count: int) -> float:
    """What is asked for comparison: a consumer that inspects nothing."""
    began_s = time.monotonic()
    found = Librdkafka().consume(cluster.bootstrap, topic, 0, count)
    return len(found) * RECORD_BYTES / 1e6 / (time.monotonic() - began_s)


def test_what_is_whole_is_counted(
    cluster: BrokerClusterUnderTest,
    target: Target,
    verifications: Verifications,
    hopeless: Verifications,
) -> None:
    """By a plain Job: status has what an independent count has."""
    assert hopeless is verifications, "those that are waited for have begun"
    partitions = 6
    new_topic(cluster, "whole", partitions)
    produce(cluster, "whole", DATA_BYTES // RECORD_BYTES)
    wait_in_sync(cluster)
    began_s = time.monotonic()
    verifications.apply("whole", ["whole"])
    run = verifications.follow("whole", RUN_LIMIT_S)
    took_s = time.monotonic() - began_s
    assert run.status["phase"] == "Succeeded", run.status
    application = run.status["application"]
    assert (application["launcher"], application["kind"]) == ("Job", "Job")
    assert len(run.executors) == 2, run.executors
    assert run.condition("Ready") == ("True", "Completed")
    assert run.condition("Verified") == ("True", "NoViolations")
    assert run.violations() == set()
    coverage = run.status["coverage"]
    records = counted(cluster.bootstrap, "whole", partitions)
    assert records == DATA_BYTES // RECORD_BYTES
    assert {name: coverage[name] for name in ("topics", "partitions", "replicas", "records")} == {
        "topics": 1,
        "partitions": partitions,
        "replicas": partitions * SIZE,
        "records": records * SIZE,
    }
    if target.has_faults:  # volumes of this machine
        assert coverage["bytes"] == stored_bytes(cluster, "whole")
    assert run.status["partitioners"] == [
        {"topic": "whole", "partitioner": "crc32", "share": 100},
    ]
    figures = verifications.summary(run.application)["figures"]
    alone = one_process_reads_mb_per_s(
        cluster, "whole", end_offsets(cluster.bootstrap, "whole", [0])[0]
    )
    measured.note(
        f"Verification of {coverage['bytes'] / 1e6:.0f} MB: "
        f"{figures['megabytesPerSecondPerCore']:.1f} MB/s a core in {figures['seconds']:.0f} s, "
        f"{took_s:.0f} s with its pods (limit: {alone:.0f} MB/s, a consumer that only reads)"
    )


@contextmanager
def load(cluster: BrokerClusterUnderTest, topic: str) -> Iterator[list[int]]:
    """A producer at work within the block, two MB a second; what it sent is in the list."""
    ends, sent, failures = threading.Event(), [0], list[Exception]()

    def work() -> None:
        try:
            while not ends.wait(0.5):
                produce(cluster, topic, 1_000)
                sent[0] += 1_000
        except Exception as failed:  # noqa: BLE001 - raised at the end of the block
            failures.append(failed)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield sent
    finally:
        ends.set()
        thread.join(60)
    assert not failures, failures


@pytest.mark.usefixtures("spark_runner")
def test_as_a_spark_application_under_load(
    cluster: BrokerClusterUnderTest, verifications: Verifications
) -> None:
    """Segments roll and expire while they are read, and nothing is accused."""
    partitions, pods = 2, cluster.broker_pods()
    new_topic(cluster, "busy", partitions, **EXPIRING)
    with launcher(cluster, "Kubeflow"), load(cluster, "busy") as sent:
        eventually("segments were deleted", lambda: has_expired(cluster, "busy", partitions))
        before = sent[0]
        verifications.apply("busy", ["busy"])
        run = verifications.follow("busy", RUN_LIMIT_S)
        assert sent[0] > before
    assert run.status["phase"] == "Succeeded", run.status
    application = run.status["application"]
    assert (application["launcher"], application["kind"]) == ("Kubeflow", "SparkApplication")
    state = cluster.kubectl.get("sparkapplication", run.application)["status"]["applicationState"]
    assert state["state"] in {"COMPLETED", "SUCCEEDING", "RUNNING"}, state
    assert run.executors
    assert run.violations() == set()
    assert run.condition("Verified") == ("True", "NoViolations")
    assert run.status["coverage"]["replicas"] == partitions * SIZE
    assert run.status["coverage"]["records"] > 0
    assert cluster.broker_pods() == pods, "how jobs are run is nothing to the brokers"


@contextmanager
def launcher(cluster: BrokerClusterUnderTest, name: str) -> Iterator[None]:
    """Jobs of the cluster are run by another launcher within the block."""

    def patch(one: str) -> None:
        change = json.dumps({"spec": {"spark": {"launcher": one}}})
        cluster.kubectl("patch", "cbc", cluster.name, "--type=merge", "-p", change)

    patch(name)
    try:
        yield
    finally:
        patch("Job")


def has_expired(cluster: BrokerClusterUnderTest, topic: str, partitions: int) -> bool:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap)
    try:
        found = consumer.beginning_offsets([TopicPartition(topic, n) for n in range(partitions)])
        return all(offset > 0 for offset in found.values())
    finally:
        consumer.close()


def follower(cluster: BrokerClusterUnderTest, topic: str, partition: int = 0) -> int:
    """One that does not lead, and will not when leaderships go back."""
    found = places(cluster, topic)[partition]
    return next(one for one in found.replicas[1:] if one != found.leader)


def clean_offset(cluster: BrokerClusterUnderTest, topic: str, broker: int) -> int:
    """Up to where partition 0 is compacted there."""
    with Client(Access(addresses_of(cluster.bootstrap))) as client:
        return client.offsets(client.topic(topic), {0: CLEAN_POINT}, broker)[0]


@contextmanager
def down(cluster: BrokerClusterUnderTest, broker: int) -> Iterator[Path]:
    """A broker that is stopped within the block and then restarts; yields its data directory."""
    uid = cluster.broker_pods()[pod_of(cluster, broker)].uid
    with processes.paused(containers.in_pod(uid)):
        try:
            # Where the marker of a data directory is, there they are.
            (meta,) = volume(cluster, broker).glob("**/meta.properties")
            yield meta.parent
        finally:
            assert containers.kill(uid), f"broker {broker} has no process"


@pytest.mark.usefixtures("faults")
def test_damage_on_one_disk_is_named(
    cluster: BrokerClusterUnderTest, verifications: Verifications
) -> None:
    """Of what brokers know to be damaged they serve nothing; what they fetch again is readable
    again."""
    topics = ("bits", "compacted", "fronts", "holes", "placed", "tails")
    configs: dict[str, dict[str, Any]] = {
        "compacted": COMPACTED,
        "fronts": SMALL_SEGMENTS,
        "holes": SMALL_SEGMENTS,
    }
    for topic in topics:
        new_topic(cluster, topic, 2 if topic == "placed" else 1, **configs.get(topic, {}))
    for topic in ("bits", "placed", "tails"):
        produce(cluster, topic, 1_000, 100, in_flight=A_FEW)
    for topic, count in (("fronts", 2_000), ("holes", 3_000), ("compacted", 4_500)):
        produce(cluster, topic, count, in_flight=A_FEW)
    wait_in_sync(cluster)

    # While a broker is down: its log begins too late by its own notes; a segment is missing.
    late = follower(cluster, "fronts")
    hole = directory(cluster, late, "holes")
    with down(cluster, late) as data:
        lose_front(data, "fronts", 0)
        remove(segments(hole)[1])
    eventually(
        f"broker {late} is another process",
        lambda: cluster.broker_pods()[pod_of(cluster, late)].restarts > 0,
    )
    cluster.wait_cluster_ready()
    wait_in_sync(cluster)

    # While they run: other bytes under a right checksum, and bytes that a broker knows.
    placed, old = follower(cluster, "placed"), follower(cluster, "compacted")
    (path,) = segments(directory(cluster, placed, "placed"))
    records = {one.offset: one for one in records_in(path)}
    stranger = next(key for key in KEYS if all(of(key, 2) != 0 for of in PARTITIONERS.values()))
    wrong = max(records)
    batch = overwrite(path, wrong, records[wrong].key or b"", stranger)
    survivors = directory(cluster, old, "compacted")

    def is_compacted() -> bool:
        return 0 < int(segments(survivors)[-1].stem) == clean_offset(cluster, "compacted", old)

    eventually("compaction", is_compacted)
    older = outdated(survivors, clean_offset(cluster, "compacted", old))
    bits, tails = follower(cluster, "bits"), follower(cluster, "tails")
    changed = flip(segments(directory(cluster, bits, "bits"))[0], random.Random(7))  # noqa: S311
    missing = cut(segments(directory(cluster, tails, "tails"))[0])
    assert (changed > 0, missing > 0) == (True, True), "else where the read began would do"

    verifications.apply("damaged", topics)
    run = verifications.follow("damaged", RUN_LIMIT_S)
    assert run.violations() == {
        ("KeyPlacement", "placed", 0, wrong, placed),
        ("ReplicaMismatch", "placed", 0, batch, placed),
        ("CompactionOrder", "compacted", 0, older, old),
        ("MissingSegment", "fronts", 0, 0, late),
        # The job was refused both from offset 0 on; their brokers tell what it was.
        ("Crc", "bits", 0, changed, bits),
        ("TruncatedTail", "tails", 0, missing, tails),
    }
    assert run.condition("Verified") == ("False", "ViolationsFound")
    # Two copies could not be read to their end.
    assert (run.status["phase"], run.reason) == ("Failed", "ViolationsFound")
    refused = verifications.summary(run.application)["refused"]
    assert {(one["topic"], one["offset"], one["replica"]) for one in refused} == {
        ("bits", 0, bits),
        ("tails", 0, tails),
    }
    for topic in topics:
        cluster.kubectl("delete", "ct", topic, "--wait=false")


def take_away_rights(verifications: Verifications, name: str) -> None:
    """The driver's, when all that is made for it has been made: nothing is created again then."""

    def is_taken() -> bool:
        application = verifications.get(name)["status"]["application"]["name"]
        binding = verifications.kubectl.get("rolebinding", f"{application}-driver")
        (owner,) = binding["metadata"]["ownerReferences"]
        assert owner["kind"] == "Job", owner
        verifications.kubectl("delete", "rolebinding", f"{application}-driver")
        return True

    eventually("a driver without its rights", is_taken)


# Processes that are each smaller than the driver, and together take all that its container may
# have: the kernel kills the largest one.
STARVE = """
import os, time
for _ in range(100):
    if os.fork() == 0:
        held = bytes([1]) * (24 * 2**20)
        break
time.sleep(60)
"""


def take_away_memory(verifications: Verifications, name: str) -> None:
    """The kernel kills the driver, as where it needs more than `spec.spark.driver.memory`."""

    def is_starved() -> bool:
        application = verifications.get(name)["status"]["application"]["name"]
        drivers = verifications.running(application, "driver")
        assert len(drivers) == 1, drivers
        (driver,) = drivers
        # Before that it is smaller than what is put beside it.
        assert '"event": "begun"' in verifications.kubectl("logs", driver), "it does not work yet"
        with suppress(CommandFailed):  # it ends with the container
            verifications.kubectl.execute(driver, "python3", "-c", STARVE, timeout_s=90)
        return True

    eventually("a driver without memory", is_starved)


@pytest.mark.usefixtures("cluster")
def test_what_cannot_be_done_says_why_and_ends(hopeless: Verifications) -> None:
    """A condition with the reason, and nothing is tried for ever."""
    verifications = hopeless
    verifications.apply("no-topic", ["anithing"])
    # `retries` would allow more: none of these is better another time.
    verifications.apply("no-memory", ["anything"], spark={"retries": 5})
    take_away_memory(verifications, "no-memory")
    verifications.apply("no-rights", ["anything"])
    take_away_rights(verifications, "no-rights")

    def no_topic() -> bool:
        status = verifications.get("no-topic")["status"]
        ready = condition(status, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "TopicNotFound"), ready
        assert "did you mean anything?" in ready["message"]
        return "application" not in status

    eventually("a condition without an application", no_topic)
    expected = {
        "no-memory": ({"OOMKilled"}, "spec.spark.driver.memory"),
        "no-rights": ({"Forbidden"}, "forbidden"),
        "no-image": ({"ErrImagePull", "ImagePullBackOff"}, "chiplog/spark:none"),
        "no-account": ({"Forbidden"}, "nobody"),
    }
    for name, (reasons, said) in expected.items():
        run = verifications.follow(name, PATIENCE_S)
        assert run.status["phase"] == "Failed", run.status
        assert run.reason in reasons, (name, run.status)
        ready = condition(run.status, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", run.reason)
        assert said in ready["message"], ready
        assert run.status["runs"] == 1
        assert len(verifications.pods(run.application)) <= 1
    time.sleep(5)  # in which another attempt would be begun
    for name in expected:
        status = verifications.get(name)["status"]
        assert (status["runs"], status["phase"]) == (1, "Failed")
        phases = {
            pod["status"]["phase"]
            for pod in verifications.pods(status["application"]["name"])
            if "deletionTimestamp" not in pod["metadata"]
        }
        assert phases <= {"Failed"}, (name, phases)
