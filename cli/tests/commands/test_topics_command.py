"""`chiplog topics` against a real broker."""

import json
from collections.abc import Callable

import yaml

from tests.commands.program import Chiplog


def test_create_describe_alter_delete(chiplog: Chiplog) -> None:
    created = chiplog(
        *("topics", "create", "life", "--partitions", "2"),
        *("--replication-factor", "1", "--config", "cleanup.policy=compact"),
    )
    assert (created.exit_code, created.stdout) == (0, "Created topic life.\n")
    topic, *partitions = chiplog("topics", "describe", "life").stdout.splitlines()
    assert topic.startswith("Topic: life\tTopicId: ")
    assert "\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: " in topic
    # As Kafka's tool, it shows what the broker's configuration sets, too.
    assert topic.endswith("chiplog.durability=PageCache,cleanup.policy=compact")
    assert partitions == [
        f"\tTopic: life\tPartition: {number}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\t"
        "LastKnownElr: N/A"
        for number in range(2)
    ]
    altered = chiplog(
        *("topics", "alter", "life", "--partitions", "3"),
        *("--config", "retention.ms=5000", "--delete-config", "cleanup.policy"),
    )
    assert altered.stdout == "Completed updating topic life.\n"
    (told,) = json.loads(chiplog("topics", "describe", "life", "-o", "json").stdout)
    assert told["config"] == {"chiplog.durability": "PageCache", "retention.ms": "5000"}
    assert told["partitionCount"] == len(told["partitions"]) == 3
    assert chiplog("topics", "delete", "life").stdout == "Deleted topic life.\n"
    assert "life" not in chiplog("topics", "list").stdout.splitlines()


def test_topic_ids_are_those_of_other_clients(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    """Kafka's tools write ids in the alphabet that is safe in URLs, without padding."""
    ids = {
        json.loads(chiplog("topics", "describe", topic(), "-o", "json").stdout)[0]["topicId"]
        for _ in range(8)
    }
    assert len(ids) == 8
    assert all(len(one) == 22 and not set(one) & set("+/=") for one in ids)


def test_lists(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    names = sorted([topic(), topic()])
    listed = chiplog("topics", "list", "--exclude-internal").stdout.splitlines()
    assert [one for one in listed if one in names] == names
    assert set(names) <= set(json.loads(chiplog("topics", "list", "-o", "json").stdout))
    assert set(names) <= set(yaml.safe_load(chiplog("topics", "list", "-o", "yaml").stdout))


def test_defaults_are_the_brokers(chiplog: Chiplog) -> None:
    assert chiplog("topics", "create", "by-default").exit_code == 0
    (told,) = yaml.safe_load(chiplog("topics", "describe", "by-default", "-o", "yaml").stdout)
    assert (told["partitionCount"], told["replicationFactor"]) == (1, 1)
    chiplog("topics", "delete", "by-default")


def test_create_what_exists(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic()
    refused = chiplog("topics", "create", name)
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"chiplog: topic '{name}': Topic '{name}' already exists (TOPIC_ALREADY_EXISTS): "
        "use --if-not-exists to ignore this\n"
    )
    again = chiplog("topics", "create", name, "--if-not-exists", "-o", "json")
    assert json.loads(again.stdout) == {"topic": name, "created": False}


def test_delete_checks_all_names_first(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic()
    refused = chiplog("topics", "delete", name, f"{name}x")
    assert refused.exit_code == 1
    assert f"'{name}x' does not exist: did you mean '{name}'?" in refused.stderr
    assert name in chiplog("topics", "list").stdout.splitlines()
    assert chiplog("topics", "delete", "nobody", "--if-exists").exit_code == 0
    both = chiplog("topics", "delete", "nobody", name, "--if-exists")
    assert both.stdout == f"Deleted topic {name}.\n"


def test_only_partitions_that_lack_something(chiplog: Chiplog, topic: Callable[..., str]) -> None:
    name = topic(3)
    for option in ("--under-replicated-partitions", "--unavailable-partitions"):
        result = chiplog("topics", "describe", name, option)
        assert (result.exit_code, result.stdout) == (0, "")


def test_the_broker_names_the_key_that_is_wrong(
    chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    refused = chiplog("topics", "alter", topic(), "--config", "retention.xs=1")
    assert refused.exit_code == 1
    assert "did you mean retention.ms?" in refused.stderr
    assert refused.stderr.count("\n") == 1
