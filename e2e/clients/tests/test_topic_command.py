"""kafka-topics.sh: create, describe, alter and delete, with what Kafka prints."""

import re

import pytest

from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool
from e2e.kafka.topic_lines import described

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


def topics(broker: BrokerProcess, *arguments: str, check: bool = True) -> str:
    command = ("kafka-topics.sh", "--bootstrap-server", broker.bootstrap)
    return run_tool(*command, *arguments, check=check).strip("\n")


def describe(broker: BrokerProcess, name: str) -> tuple[re.Match[str], list[re.Match[str]]]:
    """The topic's line and those of its partitions, each in Kafka's shape."""
    return described(topics(broker, "--describe", "--topic", name))


def create(broker: BrokerProcess, name: str, *arguments: str) -> str:
    return topics(broker, "--create", "--topic", name, *arguments)


def test_create_and_describe(broker: BrokerProcess) -> None:
    arguments = ("--partitions", "6", "--replication-factor", "1", "--config", "retention.ms=60000")
    assert create(broker, "described", *arguments) == "Created topic described."
    head, lines = describe(broker, "described")
    assert head.group("name", "partitions", "replicas") == ("described", "6", "1")
    assert "retention.ms=60000" in head["configs"].split(",")
    assert [int(one["number"]) for one in lines] == list(range(6))
    for one in lines:
        assert one["leader"] == one["replicas"] == one["isr"]


def test_defaults_of_the_broker_fill_in(broker: BrokerProcess) -> None:
    create(broker, "by-default")
    head, _ = describe(broker, "by-default")
    assert head.group("partitions", "replicas") == ("1", "1")


def test_list_names_each_topic_once(broker: BrokerProcess) -> None:
    for name in ("listed-b", "listed-a"):
        create(broker, name)
    listed = topics(broker, "--list").splitlines()
    assert [name for name in listed if name.startswith("listed-")] == ["listed-a", "listed-b"]


def test_a_topic_exists_only_once(broker: BrokerProcess) -> None:
    create(broker, "twice")
    again = topics(broker, "--create", "--topic", "twice", check=False)
    assert "Topic 'twice' already exists." in again


@pytest.mark.parametrize("name", ["", "..", "no blanks", "x" * 250])
def test_a_bad_name_is_refused(broker: BrokerProcess, name: str) -> None:
    refused = topics(broker, "--create", "--topic", name, check=False)
    assert "InvalidTopicException" in refused or "is invalid" in refused, refused
    assert "Created topic" not in refused


def test_more_replicas_than_brokers_are_refused(broker: BrokerProcess) -> None:
    arguments = ("--create", "--topic", "too-wide", "--replication-factor", "2")
    assert "InvalidReplicationFactorException" in topics(broker, *arguments, check=False)
    assert "too-wide" not in topics(broker, "--list").splitlines()


def test_partitions_grow_and_never_shrink(broker: BrokerProcess) -> None:
    create(broker, "growing", "--partitions", "6")
    topics(broker, "--alter", "--topic", "growing", "--partitions", "12")
    head, lines = describe(broker, "growing")
    assert (head["partitions"], len(lines)) == ("12", 12)

    refused = topics(broker, "--alter", "--topic", "growing", "--partitions", "6", check=False)
    assert "InvalidPartitionsException" in refused
    assert describe(broker, "growing")[0]["partitions"] == "12"


def test_a_deleted_topic_is_gone_and_its_name_free(broker: BrokerProcess) -> None:
    create(broker, "short-lived")
    first_id = describe(broker, "short-lived")[0]["id"]
    topics(broker, "--delete", "--topic", "short-lived")
    assert "short-lived" not in topics(broker, "--list").splitlines()

    create(broker, "short-lived")
    assert describe(broker, "short-lived")[0]["id"] != first_id


def test_an_unknown_config_is_refused_by_name(broker: BrokerProcess) -> None:
    arguments = ("--create", "--topic", "misspelt", "--config", "retention.msec=1")
    refused = topics(broker, *arguments, check=False)
    assert "retention.msec" in refused
    assert "misspelt" not in topics(broker, "--list").splitlines()
