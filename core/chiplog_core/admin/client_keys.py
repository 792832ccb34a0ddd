"""Changes of the configuration that only Kafka's clients set: the throttles of KIP-73.

`kafka-reassign-partitions.sh --throttle` sets them while replicas move, and `--verify` removes
them. They are kept apart from what manifests say: a broker's in the configuration of its Broker
object, a topic's in its PartitionMap. So a tool never changes an object that a user or GitOps
applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import Change, ConfigChange, changed
from chiplog_core.admin.operations import ConfigureBroker, ConfigureTopic
from chiplog_core.config.broker_keys import BROKER_KEYS, CLIENTS_BROKER_KEYS
from chiplog_core.config.effective import TopicConfig
from chiplog_core.config.given import given_topic_config
from chiplog_core.config.topic_keys import CLIENTS_TOPIC_KEYS


@dataclass(frozen=True, slots=True)
class Split:
    """A change of a topic's configuration, in its two parts."""

    of_clients: Mapping[str, str]
    """What the topic has of the clients' keys after the change."""
    rest: ConfigureTopic
    """The change of all other keys."""


def split(operation: ConfigureTopic, present: Mapping[str, str]) -> Split:
    """The two parts of a change. `present` is what the topic has of the clients' keys. Raises
    `Refused`."""
    own = {} if operation.replace else present
    changes = [change for change in operation.changes if change.name in CLIENTS_TOPIC_KEYS]
    # It cannot fail: all of these keys are lists.
    wanted = changed(TopicConfig(own, {}), changes)
    checked = given_topic_config(wanted, "config", by_client=True)
    if checked.problems:
        raise Refused(Code.INVALID_CONFIG, "; ".join(map(str, checked.problems)))
    others = tuple(change for change in operation.changes if change.name not in CLIENTS_TOPIC_KEYS)
    return Split(checked.values, replace(operation, changes=others))


def clients_part(broker_config: Mapping[str, str]) -> dict[str, str]:
    """The part of a broker's configuration that clients have set."""
    return {name: value for name, value in broker_config.items() if name in CLIENTS_BROKER_KEYS}


def check_broker_change(
    operation: ConfigureBroker, broker_config: Mapping[str, str]
) -> dict[str, str]:
    """What the broker has of the clients' keys after the change. Raises `Refused`."""
    wanted = clients_part(broker_config)
    for change in operation.changes:
        if change.name not in CLIENTS_BROKER_KEYS:
            raise Refused(
                Code.POLICY_VIOLATION,
                f"clients can change only the replication throttles of a broker, not "
                f"{change.name}: change its server.properties (standalone) or its BrokerCluster "
                "(Kubernetes)",
            )
        if change.change is Change.DELETE:
            wanted.pop(change.name, None)
        else:
            wanted[change.name] = _value(change)
    return wanted


def _value(change: ConfigChange) -> str:
    """The value that a client sets, in Kafka's text form. Raises `Refused`."""
    if change.change is not Change.SET:
        raise Refused(
            Code.INVALID_CONFIG,
            f"{change.name} is not a list: APPEND and SUBTRACT work only on lists",
        )
    key = BROKER_KEYS[change.name]
    try:
        return key.format(key.parse(change.value))
    except ValueError as expected:
        raise Refused(
            Code.INVALID_CONFIG,
            f"config[{change.name}] is {change.value!r}: set it to {expected}, or delete it for "
            "no throttle",
        ) from expected
