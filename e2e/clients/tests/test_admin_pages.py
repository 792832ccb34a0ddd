"""What pages of Kafka UIs ask by Java's Admin is answered, or refused in words they know.

The calls are those that Kafbat's UI makes (its `ReactiveAdminClient`), and some of other UIs and
tools. `docs/uis.md` says what users see of it.
"""

import pytest

from e2e.clients.topics import create_topic
from e2e.cluster.layout import CHECKOUT
from e2e.cluster.shell import run
from e2e.kafka.java import SHORT_LIVED, compiled, java
from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

PROGRAM = CHECKOUT / "e2e" / "kafka" / "sources" / "AdminPages.java"
DONE = "null"
NOT_OFFERED = "UnsupportedVersionException: The node does not support "

ANSWERS = {
    "brokers": {
        "describeCluster": "1",
        "describeCluster.controller": "1",
        "describeConfigs": "4.3-IV0",
        "describeLogDirs": "1",
    },
    "topics": {
        "listTopics": "true",
        "describeTopics": "2",
        "describeTopics.byId": "admin-pages",
        "describeConfigs": "604800000",
        "listOffsets.EarliestSpec": "0",
        "listOffsets.LatestSpec": "0",
        "listOffsets.MaxTimestampSpec": "-1",
        "listOffsets.EarliestLocalSpec": "0",
        "listOffsets.LatestTieredSpec": "-1",
        "listOffsets.EarliestPendingUploadSpec": "-1",
        "describeProducers": "2",
        "createTopics.validateOnly": "1 1 delete",
        "createTopics": DONE,
        "incrementalAlterConfigs": DONE,
        "incrementalAlterConfigs.after": "{retention.ms=5000, segment.ms=7000}",
        "createPartitions": DONE,
        "deleteRecords": DONE,
        "listPartitionReassignments": "0",
        "alterPartitionReassignments": DONE,
        "deleteTopics": DONE,
    },
    "groups": {
        "alterConsumerGroupOffsets": DONE,
        "listConsumerGroups": "true",
        "describeConsumerGroups": "Empty",
        "listConsumerGroupOffsets": "0",
        "deleteConsumerGroupOffsets": DONE,
        "deleteConsumerGroups": DONE,
    },
    "quotas": {
        "describeClientQuotas": "{}",
        "alterClientQuotas": DONE,
        "describeClientQuotas.after": "{ClientQuotaEntity(entries={user=ada})="
        "{producer_byte_rate=1.0}}",
        "alterClientQuotas.removal": DONE,
    },
    "users": {"describeUserScramCredentials": "{}"},
    "transactions": {"listTransactions": "[]"},
}
REFUSALS = {
    "brokers": {
        "describeMetadataQuorum": f"{NOT_OFFERED}DESCRIBE_QUORUM",
        "incrementalAlterConfigs": "PolicyViolationException: "
        "clients can change only the replication throttles of a broker",
        "alterReplicaLogDirs": f"{NOT_OFFERED}ALTER_REPLICA_LOG_DIRS",
    },
    "topics": {
        "describeTopics.byUnknownId": "UnknownTopicIdException",
    },
    "acls": {"describeAcls": "SecurityDisabledException: No Authorizer is configured."},
    "transactions": {"describeTransactions": "TransactionalIdNotFoundException"},
    "delegation tokens": {"describeDelegationToken": f"{NOT_OFFERED}DESCRIBE_DELEGATION_TOKEN"},
}
"""How each begins. What is not offered fails at once, without a request, and UIs hide the page."""


def test_every_page_is_answered(broker: BrokerProcess) -> None:
    topic = "admin-pages"
    create_topic(broker.bootstrap, topic, 2)
    command = java("AdminPages", SHORT_LIVED, compiled(PROGRAM))
    printed = run(*command, broker.bootstrap, "1", topic, timeout_s=100)
    found: dict[str, dict[str, str]] = {}
    for line in printed.splitlines():
        page, call, outcome = line.split("\t")
        found.setdefault(page, {})[call] = outcome
    features = found["brokers"].pop("describeFeatures")
    assert "metadata.version" in features
    assert "transaction.version" in features
    assert "group.version" not in features, "Java would use a group protocol that is not built"
    for page, refusals in REFUSALS.items():
        for call, begins in refusals.items():
            assert found[page].pop(call).startswith(begins), (page, call)
    assert {page: calls for page, calls in found.items() if calls} == ANSWERS


def test_a_topic_is_described_by_its_id(broker: BrokerProcess) -> None:
    create_topic(broker.bootstrap, "by-id", 1)
    command = ("kafka-topics.sh", "--bootstrap-server", broker.bootstrap, "--describe")
    by_name = run_tool(*command, "--topic", "by-id")
    topic_id = by_name.split("TopicId: ")[1].split()[0]
    assert "Topic: by-id" in run_tool(*command, "--topic-id", topic_id)


def test_features_are_printed(broker: BrokerProcess) -> None:
    printed = run_tool("kafka-features.sh", "--bootstrap-server", broker.bootstrap, "describe")
    lines = [line.split() for line in printed.splitlines() if line.startswith("Feature:")]
    assert [line[1] for line in lines] == [
        "eligible.leader.replicas.version",
        "metadata.version",
        "transaction.version",
    ]
    assert "4.3-IV0" in printed
