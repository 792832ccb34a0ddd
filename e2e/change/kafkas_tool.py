"""Reassignments by Kafka's own tool."""

import json
from collections.abc import Mapping, Sequence

from e2e.kafka.tools import run_tool
from e2e.main.broker_cluster import BrokerClusterUnderTest


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
