"""A Rebalance on a Kubernetes API without nodes: real brokers, the real operator, no Spark.

Nobody runs the Job here. What its driver would write is written in its place, for the maps as they
are; what follows is the operator's and the brokers' own.
"""

import json
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
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
from e2e.main.broker_cluster import BrokerClusterUnderTest
from e2e.main.replicas import places
from e2e.main.traffic import Traffic
from e2e.spark.rebalances import RebalanceUnderTest, lead_all

pytestmark = [pytest.mark.clients, pytest.mark.timeout(900)]

TOPIC, PARTITIONS = "orders", 12
LIMIT_S = 60
AT_WORK_S = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LoopbackCluster]:
    with LoopbackCluster(tmp_path / "cluster") as one:
        yield one


def answer(cluster: BrokerClusterUnderTest, rebalance: RebalanceUnderTest) -> None:
    """What the Job's driver would write."""
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
    same = Measured(bytes=1_000, records=10, bytes_per_second=100.0, records_per_second=1.0)
    found = propose(brokers, partitions, {one.name: same for one in partitions}, Settings())
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


def led(cluster: BrokerClusterUnderTest) -> Counter[int | None]:
    return Counter(one.leader for one in places(cluster, TOPIC))


def test_leaderships_move_while_clients_work(cluster: LoopbackCluster) -> None:
    create_topic(cluster.bootstrap, TOPIC, PARTITIONS, replicas=SIZE)
    one = BrokerClusterUnderTest(Kubectl(cluster.server.administrator(), NAMESPACE), NAME)
    spark = json.dumps({"spec": {"spark": {"launcher": "Job", "image": "none"}}})
    one.kubectl("patch", "cbc", NAME, "--type=merge", "-p", spark)
    lead_all(one, TOPIC, 1)
    rebalance = RebalanceUnderTest(one.kubectl, NAME)
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
    assert status["moves"] == {"proposal": proposal["id"], "done": 8, "total": 8}
    gap_s = max(traffic.noticed.longest_gaps_s().values())
    measured.note(
        f"loopback: 8 leaderships approved and moved in {took_s:.1f} s; longest time without an "
        f"acknowledgement in one partition {gap_s:.2f} s"
    )
