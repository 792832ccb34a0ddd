"""A Rebalance on a Kubernetes API without nodes: real brokers, the real operator, no Spark.

Nobody runs the Job here. What its driver would write is written in its place, for the maps as they
are; what follows is the operator's and the brokers' own.
"""

import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.partition_map import PartitionMap
from chiplog_core.model.spark_result import RESULT_KEY, Result, ResultState
from chiplog_core.rebalance.approval import move_bases
from chiplog_core.rebalance.documents import proposal_json
from chiplog_core.rebalance.measured import Broker, Measured, Partition
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Settings
from chiplog_core.spark.signing import KEY_NAME, SIGNATURE_KEY, signature
from e2e import measured
from e2e.clients.topics import create_topic
from e2e.cluster.kubectl import Kubectl, eventually
from e2e.loopback.cluster import NAME, NAMESPACE, SIZE, LoopbackCluster
from e2e.main.broker_cluster import BrokerClusterUnderTest, Manifest
from e2e.main.replicas import places
from e2e.main.traffic import Traffic
from e2e.spark.rebalances import RebalanceUnderTest, lead_all

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC, PARTITIONS = "orders", 12
SMALL, LARGE = 1_000, 20_000
"""Bytes of a partition, as the driver would measure them."""
LIMIT_S = 60
AT_WORK_S = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        yield one


def answer(
    cluster: BrokerClusterUnderTest, rebalance: RebalanceUnderTest, large_on: int | None = None
) -> None:
    """What the Job's driver would write. Partitions with a replica on the broker `large_on` have
    more bytes than the others."""
    eventually("an application is named", lambda: bool(rebalance.status()["application"]), LIMIT_S)
    name = rebalance.status()["application"]["name"]
    maps = [PartitionMap.from_manifest(cluster.map_of(TOPIC)).spec]
    partitions = [
        Partition(
            name=partition,
            replicas=one.replicas,
            isr=tuple(one.isr),
            leader=one.leader,
            leader_epoch=one.leader_epoch,
        )
        for partition, one in move_bases(maps).items()
    ]
    brokers = [Broker(broker_id=BrokerId(number)) for number in range(1, SIZE + 1)]
    small = Measured(bytes=SMALL, records=10, bytes_per_second=100.0, records_per_second=1.0)
    large = replace(small, bytes=LARGE)
    found = propose(
        brokers,
        partitions,
        {one.name: large if large_on in one.replicas else small for one in partitions},
        Settings(),
    )
    result = Result(
        application=name,
        state=ResultState.SUCCEEDED,
        reason="Measured",
        summary=proposal_json(found),
    )
    place, text = f"{name}-result", result.to_json()

    def is_written() -> bool:
        secret = cluster.kubectl.get("secret", f"{name}-result-key")
        key = b64decode(secret["data"][KEY_NAME]).decode()
        signed = signature(key, name, text)
        patch = json.dumps({"data": {RESULT_KEY: text, SIGNATURE_KEY: signed}})
        cluster.kubectl("patch", "configmap", place, "--type=merge", "-p", patch)
        return True

    eventually("the place for the result is there", is_written, LIMIT_S)


def rebalanced_by(cluster: LoopbackCluster) -> tuple[BrokerClusterUnderTest, RebalanceUnderTest]:
    """The cluster, which starts Jobs from now on, and a Rebalance of it."""
    one = BrokerClusterUnderTest(Kubectl(cluster.server.administrator(), NAMESPACE), NAME)
    spark = json.dumps({"spec": {"spark": {"launcher": "Job", "image": "none"}}})
    one.kubectl("patch", "cbc", NAME, "--type=merge", "-p", spark)
    return one, RebalanceUnderTest(one.kubectl, NAME)


def check_done(status: Manifest, total: int) -> None:
    moves = status["moves"]
    assert moves["proposal"] == status["proposal"]["id"]
    assert (moves["done"], moves["total"], moves.get("leftOut", 0)) == (total, total, 0)


def led(cluster: BrokerClusterUnderTest) -> Counter[int | None]:
    return Counter(one.leader for one in places(cluster, TOPIC))


def test_leaderships_move_while_clients_work(cluster: LoopbackCluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=SIZE)
    one, rebalance = rebalanced_by(cluster)
    lead_all(one, TOPIC, 1)
    rebalance.apply()
    answer(one, rebalance)
    proposal = rebalance.wait("ProposalReady", LIMIT_S)["proposal"]
    assert (proposal["executable"], len(proposal["leaderMoves"])) == (True, 8)
    with Traffic(cluster.bootstrap, TOPIC, PARTITIONS) as traffic:
        time.sleep(AT_WORK_S)
        assert led(one) == {1: PARTITIONS}, "nobody has approved anything"
        approved_s = time.monotonic()
        rebalance.say("approve")
        status = rebalance.wait("Ready", LIMIT_S)
        took_s = time.monotonic() - approved_s
        time.sleep(AT_WORK_S)
    traffic.check_records()
    assert led(one) == {1: 4, 2: 4, 3: 4}
    assert all(place.leader == place.replicas[0] for place in places(one, TOPIC))
    check_done(status, 8)
    gap_s = max(traffic.noticed.longest_gaps_s().values())
    measured.note(
        f"loopback: 8 leaderships approved and moved in {took_s:.1f} s; longest time without an "
        f"acknowledgement in one partition {gap_s:.2f} s"
    )


def test_replicas_move_while_clients_work(cluster: LoopbackCluster) -> None:
    """Broker 1 has the four large partitions: they are spread, and so is the number of replicas."""
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=1)
    one, rebalance = rebalanced_by(cluster)
    rebalance.apply()
    answer(one, rebalance, large_on=1)
    proposal = rebalance.wait("ProposalReady", LIMIT_S)["proposal"]
    changes = proposal["replicaMoves"]
    assert proposal["executable"] is True
    large = {place.partition for place in places(one, TOPIC) if list(place.replicas) == [1]}
    moved = Counter(change["partition"] for change in changes)
    assert set(moved.values()) == {1}, "no partition moves twice"
    with Traffic(cluster.bootstrap, TOPIC, PARTITIONS) as traffic:
        time.sleep(AT_WORK_S)
        assert led(one) == {1: 4, 2: 4, 3: 4}, "nobody has approved anything"
        approved_s = time.monotonic()
        rebalance.say("approve")
        status = rebalance.wait("Ready", LIMIT_S)
        took_s = time.monotonic() - approved_s
        time.sleep(AT_WORK_S)
    traffic.check_records()
    check_done(status, len(proposal.get("leaderMoves", ())) + len(changes))
    found = places(one, TOPIC)
    for change in changes:
        assert list(found[change["partition"]].replicas) == change["replicas"]
    assert sorted(Counter(found[index].replicas[0] for index in large).values()) == [1, 1, 2]
    assert max(Counter(place.replicas[0] for place in found).values()) <= PARTITIONS // SIZE + 1
    gap_s = max(traffic.noticed.longest_gaps_s().values())
    measured.note(
        f"loopback: replicas of {len(changes)} partitions approved and moved in {took_s:.1f} s; "
        f"longest time without an acknowledgement in one partition {gap_s:.2f} s"
    )
