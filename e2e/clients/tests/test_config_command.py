"""kafka-configs.sh describes and alters what a topic is configured to do."""

from collections.abc import Callable

import pytest

from e2e.kafka.process import BrokerProcess
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]


def configs(broker: BrokerProcess, topic: str, *arguments: str, check: bool = True) -> str:
    command = ("kafka-configs.sh", "--bootstrap-server", broker.bootstrap)
    return run_tool(*command, "--topic", topic, *arguments, check=check)


def own(broker: BrokerProcess, topic: str) -> dict[str, str]:
    """What was set for this topic itself, by name."""
    lines = [line.strip() for line in configs(broker, topic, "--describe").splitlines()]
    pairs = [line.split()[0].split("=", 1) for line in lines if "sensitive=" in line]
    return {name: value for name, value in pairs if name != "min.insync.replicas"}


def test_set_change_and_remove(broker: BrokerProcess, new_topic: Callable[[int], str]) -> None:
    topic = new_topic(1)
    assert own(broker, topic) == {}
    configs(broker, topic, "--alter", "--add-config", "retention.ms=60000,segment.bytes=1048576")
    assert own(broker, topic) == {"retention.ms": "60000", "segment.bytes": "1048576"}
    configs(broker, topic, "--alter", "--add-config", "retention.ms=120000")
    assert own(broker, topic) == {"retention.ms": "120000", "segment.bytes": "1048576"}
    configs(broker, topic, "--alter", "--delete-config", "retention.ms")
    assert own(broker, topic) == {"segment.bytes": "1048576"}


def test_all_shows_defaults_and_where_they_come_from(
    broker: BrokerProcess, new_topic: Callable[[int], str]
) -> None:
    lines = configs(broker, new_topic(1), "--describe", "--all").splitlines()
    (cleanup,) = [line for line in lines if line.strip().startswith("cleanup.policy=")]
    assert "cleanup.policy=delete" in cleanup
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete" in cleanup


@pytest.mark.parametrize(
    "wrong", ["retention.msec=1", "retention.ms=soon", "segment.bytes=-5"], ids=str
)
def test_what_makes_no_sense_is_refused(
    broker: BrokerProcess, new_topic: Callable[[int], str], wrong: str
) -> None:
    topic = new_topic(1)
    refused = configs(broker, topic, "--alter", "--add-config", wrong, check=False)
    assert wrong.partition("=")[0] in refused
    assert "Completed updating" not in refused
    assert own(broker, topic) == {}


def test_a_broker_describes_itself(broker: BrokerProcess) -> None:
    command = ("kafka-configs.sh", "--bootstrap-server", broker.bootstrap)
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    printed = run_tool(*command, *entity, "--describe", "--all")
    assert "log.retention.hours=168" in printed
