"""Kafka's command-line tools by their class, and as the scripts users type.

Maven Central carries the jars but not the scripts, so `scripts()` writes one-line
scripts of the same names: a test can then say `kafka-topics.sh --create …`.
"""

import shlex
from pathlib import Path

from e2e.cluster.shell import run
from e2e.kafka.java import SHORT_LIVED, java

TOOLS = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test.sh": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-storage.sh": "kafka.tools.StorageTool",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}


def tool(name: str) -> list[str]:
    """The command of a tool, named as its script (`kafka-topics.sh`)."""
    return java(TOOLS[name], SHORT_LIVED)


def run_tool(name: str, *arguments: str, input_text: str | None = None, check: bool = True) -> str:
    """Run a tool to its end and return what it printed on both outputs."""
    command = [*tool(name), *arguments]
    return run(*command, input_text=input_text, check=check, timeout_s=60)


def scripts(directory: Path) -> list[Path]:
    """Write every tool into `directory` as an executable script; returns the scripts."""
    directory.mkdir(parents=True, exist_ok=True)
    written = [directory / name for name in TOOLS]
    for script in written:
        script.write_text(f'#!/bin/sh\nexec {shlex.join(tool(script.name))} "$@"\n')
        script.chmod(0o755)
    return written
