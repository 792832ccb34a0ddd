"""Kafka's tool that reassigns partitions."""

import json
from collections.abc import Sequence

from e2e.kafka.tools import run_tool


def plan_of(topic: str, targets: Sequence[Sequence[int]]) -> str:
    """A reassignment as the tool reads it; `targets` has the brokers of each partition."""
    partitions = [
        {"topic": topic, "partition": number, "replicas": list(target)}
        for number, target in enumerate(targets)
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def reassign(bootstrap: str, plan: str, *arguments: str) -> str:
    """Run the tool with this plan; returns what it printed."""
    return run_tool(
        "kafka-reassign-partitions.sh",
        *("--bootstrap-server", bootstrap, "--reassignment-json-file", "/dev/stdin"),
        *arguments,
        input_text=plan,
    )


def ongoing(bootstrap: str) -> str:
    """The reassignments that the tool lists."""
    return run_tool("kafka-reassign-partitions.sh", "--bootstrap-server", bootstrap, "--list")
