"""Reassignments by Kafka's own tool."""

import json
from collections.abc import Mapping, Sequence

from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest

THROTTLES = "replication.throttled.rate"


def plan_of(topic: str, targets: Mapping[int, Sequence[int]]) -> str:
    """The tool's file for moving partitions: partition -> the brokers of its replicas."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(target)}
        for number, target in targets.items()
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def reassign(
    cluster: BrokerClusterUnderTest, plan: str, *arguments: str, check: bool = True
) -> str:
    """Run `kafka-reassign-partitions.sh` with this plan; returns what it printed. Raises
    `CommandFailed` if it fails, unless `check` is False."""
    return run_tool(
        "kafka-reassign-partitions.sh",
        "--bootstrap-server",
        cluster.bootstrap,
        "--reassignment-json-file",
        "/dev/stdin",
        *arguments,
        input_text=plan,
        check=check,
    )


def ongoing(cluster: BrokerClusterUnderTest) -> str:
    """The reassignments that the tool lists, as it prints them."""
    return run_tool(
        "kafka-reassign-partitions.sh", "--bootstrap-server", cluster.bootstrap, "--list"
    )


def throttled_rates(cluster: BrokerClusterUnderTest) -> list[str]:
    """The throttled rates that clients have set, of all brokers."""
    return [
        rate
        for broker in cluster.own("brokers.chiplog.dev")
        for key, rate in broker["spec"].get("config", {}).items()
        if key.endswith(THROTTLES)
    ]


def throttled_replicas(cluster: BrokerClusterUnderTest, topic: str) -> dict[str, str]:
    """The topic's throttled replicas."""
    found: dict[str, str] = cluster.map_of(topic)["spec"].get("clientConfig", {})
    return found
