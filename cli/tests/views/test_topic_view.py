"""Topics in the shape of `kafka-topics.sh`, character for character."""

from dataclasses import replace

from chiplog_cli import topic_view
from chiplog_cli.facts import Partition
from tests.views.facts import ORDERS, SMALL


def test_describe() -> None:
    configs = {"orders": {"retention.ms": "5", "cleanup.policy": "compact"}}
    assert topic_view.describe_text([ORDERS, SMALL], configs) == (
        "Topic: orders\tTopicId: QJFFJ4qkSO6S0Ro_r2DSTg\tPartitionCount: 2\tReplicationFactor: 2\t"
        "Configs: cleanup.policy=compact,retention.ms=5\n"
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: N/A\t"
        "LastKnownElr: N/A\n"
        "\tTopic: orders\tPartition: 1\tLeader: none\tReplicas: 2,1\tIsr: 2\tElr: N/A\t"
        "LastKnownElr: N/A\n"
        "Topic: small\tTopicId: CFj7LOhUSq-rErA_3KyLAg\tPartitionCount: 1\tReplicationFactor: 1\t"
        "Configs: \n"
        "\tTopic: small\tPartition: 0\tLeader: 2\tReplicas: 2\tIsr: 2\tElr: N/A\tLastKnownElr: N/A"
    )


def test_only_partitions() -> None:
    text = topic_view.partitions_text([SMALL])
    assert text.startswith("\tTopic: small\tPartition: 0\tLeader: 2\t")
    assert "TopicId" not in text


def test_documents() -> None:
    still: dict[str, list[int]] = {"addingReplicas": [], "removingReplicas": []}
    (document,) = topic_view.documents([ORDERS], {"orders": {"b": "2", "a": "1"}})
    assert document == {
        "topic": "orders",
        "topicId": "QJFFJ4qkSO6S0Ro_r2DSTg",
        "internal": False,
        "partitionCount": 2,
        "replicationFactor": 2,
        "config": {"a": "1", "b": "2"},
        "partitions": [
            {"partition": 0, "leader": 1, "replicas": [1, 2], "isr": [1, 2], **still},
            {"partition": 1, "leader": None, "replicas": [2, 1], "isr": [2], **still},
        ],
    }


MOVED = Partition(partition=0, leader=1, replicas=(3, 2, 1), isr=(1, 2), adding=(3,), removing=(1,))


def test_a_reassignment_is_shown_and_what_it_adds_is_not_missing() -> None:
    assert topic_view.partition_line("orders", MOVED) == (
        "\tTopic: orders\tPartition: 0\tLeader: 1\tReplicas: 3,2,1\tIsr: 1,2\t"
        "Adding Replicas: 3\tRemoving Replicas: 1\tElr: N/A\tLastKnownElr: N/A"
    )
    topic = replace(ORDERS, partitions=(MOVED,))
    assert "\tReplicationFactor: 2\t" in topic_view.describe_text([topic], {})
    (document,) = topic_view.documents([topic], {})
    assert document["partitions"][0]["addingReplicas"] == [3]
    assert not topic_view.under_replicated(MOVED)
    assert topic_view.under_replicated(replace(MOVED, isr=(1,)))


def test_partitions_that_lack_something() -> None:
    whole, broken = ORDERS.partitions
    assert not topic_view.under_replicated(whole)
    assert topic_view.under_replicated(broken)
    assert not topic_view.unavailable(whole)
    assert topic_view.unavailable(broken)
