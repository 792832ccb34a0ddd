"""A BrokerCluster deleted, or its very kind removed: what is applied again finds its records.

And groups find what they had committed.
"""

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from e2e import measured
from e2e.clients.by_librdkafka import QUIET, Librdkafka
from e2e.clients.client import Record
from e2e.clients.topics import end_offsets, stored
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, example
from e2e.main.cluster_metadata import client_metadata
from e2e.main.operator import Operator
from e2e.main.tests.conftest import CONFIG

# It removes the definitions: nothing of any cluster's users is left for a while.
RUNS_LAST = True
pytestmark = [pytest.mark.main, pytest.mark.timeout(600)]

TOPIC, PARTITIONS, GROUP = "orders", 6, "adopted"
ASK_LIMIT_S = 20
RECORDS = [Record(f"adopted {n:03}".encode(), f"key-{n}".encode()) for n in range(120)]
DEFINITIONS = ("brokerclusters.chiplog.dev", "topics.chiplog.dev")


class Before:
    """What must be the same afterwards."""

    def __init__(self, cluster: BrokerClusterUnderTest) -> None:
        Librdkafka().produce(cluster.bootstrap, TOPIC, RECORDS)
        self.cluster_id = cluster.kubectl.get("cbc", cluster.name)["status"]["clusterId"]
        self.topic_id = cluster.kubectl.get("ct", TOPIC)["status"]["topicId"]
        self.claims = cluster.uids("pvc")
        self.kept = cluster.uids("brk,pmap")
        self.sessions = self.sessions_of(cluster)
        self.records = stored(cluster.bootstrap, TOPIC, range(PARTITIONS))
        self.committed = end_offsets(cluster.bootstrap, TOPIC, range(PARTITIONS))
        commit(cluster.bootstrap, self.committed)
        self.node_ports = node_ports(cluster)
        assert len(self.claims) == 3
        assert len(self.node_ports) == 4, "the bootstrap's and each broker's"
        assert sum(map(len, self.records)) >= len(RECORDS)

    @staticmethod
    def sessions_of(cluster: BrokerClusterUnderTest) -> dict[str, int]:
        return {one["metadata"]["name"]: one["spec"]["session"] for one in cluster.own("brk")}

    def check_kept(self, cluster: BrokerClusterUnderTest) -> None:
        """Maps, brokers and volumes are there while their cluster is not."""
        assert cluster.uids("pvc") == self.claims
        assert cluster.uids("brk,pmap") == self.kept

    def check_adopted(self, cluster: BrokerClusterUnderTest) -> None:
        """The same cluster, topic and volumes, and the same records at the same offsets."""
        assert cluster.kubectl.get("cbc", cluster.name)["status"]["clusterId"] == self.cluster_id
        assert node_ports(cluster) == self.node_ports, "clients outside find it where it was"
        topic = cluster.kubectl.get("ct", TOPIC)
        assert topic["status"]["topicId"] == self.topic_id
        spec = cluster.map_of(TOPIC)["spec"]
        assert spec["current"] == self.topic_id
        self.check_kept(cluster)
        for name, session in self.sessions_of(cluster).items():
            assert session > self.sessions[name], f"{name} is another process, so another session"
        eventually(
            "clients are told of orders",
            lambda: client_metadata(cluster.bootstrap).is_whole(TOPIC, PARTITIONS),
            30,
        )
        assert stored(cluster.bootstrap, TOPIC, range(PARTITIONS)) == self.records
        eventually("the group's offsets are there", lambda: self.are_committed(cluster), 30)
        Librdkafka().produce(cluster.bootstrap, TOPIC, [Record(b"after", b"after")])

    def are_committed(self, cluster: BrokerClusterUnderTest) -> bool:
        found = committed(cluster.bootstrap)
        assert found == self.committed, f"committed are {found}, and were {self.committed}"
        return True


def node_ports(cluster: BrokerClusterUnderTest) -> dict[str, list[int]]:
    """The node ports of every Service that has any."""
    return {
        one["metadata"]["name"]: [port["nodePort"] for port in one["spec"]["ports"]]
        for one in cluster.own("svc")
        if one["spec"]["type"] == "NodePort"
    }


def member(bootstrap: str) -> Consumer:
    """A client of a group without members: it commits, and asks for committed offsets."""
    settings = {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False}
    return Consumer({**settings, **QUIET})


def commit(bootstrap: str, offsets: list[int]) -> None:
    one = member(bootstrap)
    wanted = [TopicPartition(TOPIC, *pair) for pair in enumerate(offsets)]
    for each in one.commit(offsets=wanted, asynchronous=False) or ():
        assert each.error is None, each
    one.close()


def committed(bootstrap: str) -> list[int]:
    """By partition; what the coordinator does not say yet is an `AssertionError`."""
    one = member(bootstrap)
    try:
        found = one.committed([TopicPartition(TOPIC, n) for n in range(PARTITIONS)], ASK_LIMIT_S)
    except KafkaException as refused:
        raise AssertionError(refused) from refused
    finally:
        one.close()
    return [each.offset for each in found]


def wait_no_pods(cluster: BrokerClusterUnderTest) -> None:
    """Wait until no broker runs."""

    def none_runs() -> bool:
        assert not (left := cluster.broker_pods()), left
        return True

    eventually("no broker runs", none_runs, 120)


def apply_again(cluster: BrokerClusterUnderTest) -> None:
    cluster.kubectl.apply(example(CONFIG))
    cluster_s, topic_s = cluster.wait_cluster_ready(120), cluster.wait_ready("ct", TOPIC, 60)
    measured.note(f"Ready {cluster_s + topic_s:.1f} s after it was applied again")


def test_a_cluster_deleted_and_applied_again(cluster: BrokerClusterUnderTest) -> None:
    before = Before(cluster)
    cluster.kubectl("delete", "cbc", cluster.name, "--timeout=60s")
    wait_no_pods(cluster)
    before.check_kept(cluster)
    apply_again(cluster)
    before.check_adopted(cluster)


def test_definitions_removed_and_installed_again(
    cluster: BrokerClusterUnderTest, operator: Operator
) -> None:
    before = Before(cluster)
    cluster.kubectl("delete", "crd", *DEFINITIONS, "--timeout=90s", timeout_s=120)
    wait_no_pods(cluster)
    before.check_kept(cluster)
    operator.install()
    operator.wait_whole()
    apply_again(cluster)
    before.check_adopted(cluster)
