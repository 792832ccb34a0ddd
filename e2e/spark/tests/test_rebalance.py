"""A Rebalance on Kubernetes: measured, proposed, approved, and carried out while clients work."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from chiplog_core.naming import labels
from e2e import measured
from e2e.clients.by_librdkafka import Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets
from e2e.cluster.kubectl import eventually
from e2e.cluster.target import Target
from e2e.main import evidence
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.cluster_metadata import client_metadata
from e2e.main.operator import Operator
from e2e.main.replicas import places, wait_in_sync
from e2e.main.setting_up import cluster_in, make_topic
from e2e.main.traffic import Traffic
from e2e.spark.rebalances import Counted, RebalanceUnderTest, counted, lead_all
from e2e.spark.small import BROKER_RESOURCES, small_jobs

pytestmark = [pytest.mark.spark, pytest.mark.timeout(420)]

NAMESPACE = "e2e-rebalance"
SIZE = 3
# Records lie in one topic, and clients work on another: its figures are not those of a moment.
DATA, LOAD = "clicks", "load"
PARTITIONS = {DATA: 12, LOAD: 6}
RECORDS_EACH = 500
RECORD_BYTES = 1_000
HOT_PARTITION, HOT_KEY, HOT_RECORDS = 7, b"whale", 400
MEASURE_LIMIT_S = 180
MOVE_LIMIT_S = 30
UNTOUCHED_S = 5
EVEN = 0.05
"""How far from an even share a broker may end."""


@pytest.fixture(scope="module")
def cluster(
    target: Target, operator: Operator, spark_jobs_image: str
) -> Iterator[BrokerClusterUnderTest]:
    """Three brokers, of which the first leads everything that users have."""
    manifest, _ = yaml.safe_load_all(example({}))
    manifest["spec"]["spark"] = small_jobs(spark_jobs_image, executors=1)
    manifest["spec"]["resources"] = BROKER_RESOURCES
    operator.wait_whole()
    with cluster_in(target, NAMESPACE, yaml.safe_dump(manifest)) as one:
        with evidence.printed(one.kubectl):
            for topic, partitions in PARTITIONS.items():
                make_topic(one, topic, partitions, replicas=SIZE)
            wait_in_sync(one)
            for topic in PARTITIONS:
                lead_all(one, topic, 1)
            eventually("clients are told that broker 1 leads all", lambda: led(one) == {1: 18}, 30)
        yield one


def led(cluster: BrokerClusterUnderTest) -> Counter[int]:
    """How many partitions each broker leads by clients' metadata."""
    answer = client_metadata(cluster.bootstrap)
    return sum((answer.led(topic) for topic in PARTITIONS), Counter())


def records(partition: int) -> list[Record]:
    """As many in every partition; most of one partition's have one key."""
    hot = HOT_RECORDS if partition == HOT_PARTITION else 0
    keys = [HOT_KEY] * hot + [b"customer-%02d" % (n % 40) for n in range(RECORDS_EACH - hot)]
    return [Record(key.ljust(RECORD_BYTES - len(key), b"."), key) for key in keys]


def test_leaders_that_are_all_on_one_broker(cluster: BrokerClusterUnderTest) -> None:
    """The proposal says what is; not approved nothing moves; approved no record is lost."""
    for partition in range(PARTITIONS[DATA]):
        Librdkafka().produce(cluster.bootstrap, DATA, records(partition), partition=partition)
    rebalance = RebalanceUnderTest(cluster.kubectl, cluster.name)
    began_s = time.monotonic()
    rebalance.apply()
    status = rebalance.wait("ProposalReady", MEASURE_LIMIT_S)
    measured.note(f"Rebalance: proposed after {time.monotonic() - began_s:.0f} s, with its pods")
    proposal, found = status["proposal"], counted(cluster.bootstrap, DATA, PARTITIONS[DATA])
    check_figures(proposal, found)
    assert proposal.get("numReplicaMovements", 0) == 0
    assert proposal["executable"] is True

    epochs = cluster.epochs()
    time.sleep(UNTOUCHED_S)
    assert cluster.epochs() == epochs, "nobody has approved anything"

    ends = end_offsets(cluster.bootstrap, DATA, range(PARTITIONS[DATA]))
    with Traffic(cluster.bootstrap, LOAD, PARTITIONS[LOAD]) as traffic:
        time.sleep(2)  # in which clients have begun
        approved_s = time.monotonic()
        rebalance.say("approve")
        status = rebalance.wait("Ready", MOVE_LIMIT_S)
        took_s = time.monotonic() - approved_s
        eventually("clients are told of an even cluster", lambda: is_even(led(cluster)), 20)
        time.sleep(2)  # in which they work on
    traffic.check_records()
    gaps_s = traffic.noticed.longest_gaps_s()
    total = len(proposal["leaderMoves"])
    measured.note(
        f"Rebalance: {total} leaderships moved in {took_s:.1f} s; the longest time without an "
        f"acknowledgement in one partition was {max(gaps_s.values()):.2f} s"
    )
    moves = status["moves"]
    assert (moves["proposal"], moves["done"], moves["total"]) == (proposal["id"], total, total)
    annotations = cluster.kubectl.get("rebalance", rebalance.name)["metadata"].get("annotations")
    assert labels.REBALANCE not in (annotations or {})
    for topic in PARTITIONS:
        for one in places(cluster, topic):
            assert one.leader == one.replicas[0], "what was moved is to stay"
    assert end_offsets(cluster.bootstrap, DATA, range(PARTITIONS[DATA])) == ends
    after = counted(cluster.bootstrap, DATA, PARTITIONS[DATA])
    assert after == found, "records were lost"


def check_figures(proposal: dict[str, Any], found: Counted) -> None:
    """What was measured is what another consumer counts."""
    total_bytes, total_records = found.size_bytes.total(), found.records.total()
    assert proposal["coverage"]["records"] == total_records
    assert proposal["coverage"]["bytes"] == total_bytes
    before = {one["broker"]: one for one in proposal["figures"]["before"]}
    assert {broker: one.get("leaders", 0) for broker, one in before.items()} == {1: 18, 2: 0, 3: 0}
    assert {one["bytes"] for one in before.values()} == {total_bytes}, "each has all replicas"
    busy = before[1]
    bytes_each = busy["bytesPerSecond"] / busy["recordsPerSecond"]
    assert bytes_each == pytest.approx(total_bytes / total_records, rel=0.05)
    assert [before[one].get("bytesPerSecond", 0) for one in (2, 3)] == [0, 0]
    after = {one["broker"]: one for one in proposal["figures"]["after"]}
    assert is_even(Counter({broker: one["leaders"] for broker, one in after.items()}))
    assert is_even(Counter({broker: one["bytesPerSecond"] for broker, one in after.items()}))
    assert proposal["hotKeys"] == [
        {
            "topic": DATA,
            "partition": HOT_PARTITION,
            "key": HOT_KEY.decode(),
            "share": 100 * HOT_RECORDS // RECORDS_EACH,
            "records": found.keys[HOT_PARTITION, HOT_KEY],
        }
    ]


def is_even(loads: Counter[int]) -> bool:
    """Whether all brokers have an even share, nearly."""
    share = loads.total() / SIZE
    return len(loads) == SIZE and all(abs(load - share) <= EVEN * share for load in loads.values())
