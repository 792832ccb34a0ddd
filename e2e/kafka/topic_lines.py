"""What `kafka-topics.sh --describe` prints, in Kafka's shape."""

import re

TOPIC_LINE = re.compile(
    r"Topic: (?P<name>\S+)\tTopicId: (?P<id>[\w-]{22})\tPartitionCount: (?P<partitions>\d+)"
    r"\tReplicationFactor: (?P<replicas>\d+)\tConfigs: (?P<configs>\S*)"
)
PARTITION_LINE = re.compile(
    r"\tTopic: (?P<name>\S+)\tPartition: (?P<number>\d+)\tLeader: (?P<leader>\d+|none)"
    r"\tReplicas: (?P<replicas>[\d,]+)\tIsr: (?P<isr>[\d,]*)"
    r"\tElr: (?:N/A|[\d,]*)\tLastKnownElr: (?:N/A|[\d,]*)"
)


def described(printed: str) -> tuple[re.Match[str], list[re.Match[str]]]:
    """The matches of the topic's line and of its partitions' lines.

    Raises `AssertionError` if a line does not have Kafka's format.
    """
    first, *others = printed.splitlines()
    head = TOPIC_LINE.fullmatch(first)
    assert head, first
    lines = [PARTITION_LINE.fullmatch(one) for one in others]
    assert all(lines), others
    return head, [one for one in lines if one]
