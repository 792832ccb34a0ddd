"""Throttles that Kafka's tools set: kept apart from manifests, and gone when they are removed."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chiplog_core.admin.client_keys import clients_part
from chiplog_core.admin.codes import Code
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureBroker, ConfigureTopic, CreateTopic
from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.naming import labels

if TYPE_CHECKING:
    from tests.planner.admin.conftest import Kubernetes

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


def setting(**values: str) -> ConfigureTopic:
    changes = (ConfigChange(Change.SET, key.replace("_", "."), v) for key, v in values.items())
    return ConfigureTopic(name="orders", changes=tuple(changes))


def listing(**values: str) -> ConfigureTopic:
    """As the tool sets the two lists: `leader` and `follower`."""
    names = {"leader": LEADERS, "follower": FOLLOWERS}
    changes = (ConfigChange(Change.SET, names[key], value) for key, value in values.items())
    return ConfigureTopic(name="orders", changes=tuple(changes))


CLEARING = ConfigureTopic(
    name="orders",
    changes=(ConfigChange(Change.DELETE, LEADERS), ConfigChange(Change.DELETE, FOLLOWERS)),
)


def rates(broker_id: int, change: Change = Change.SET, value: str = "1000") -> ConfigureBroker:
    changes = tuple(ConfigChange(change, name, value) for name in RATES)
    return ConfigureBroker(broker_id=broker_id, changes=changes)


def test_lists_are_in_the_map_and_not_in_the_topic(kubernetes: "Kubernetes") -> None:
    before = kubernetes.made("orders")["spec"].copy()
    verdict = kubernetes.outcome(listing(leader=" 0:1 , 1:2", follower=""))
    assert (verdict.code, verdict.message) == (Code.NONE, "")
    assert verdict.topic_uid == kubernetes.topics["kafka", "orders"]["metadata"]["uid"]
    assert kubernetes.maps["orders"].spec.client_config == {LEADERS: "0:1,1:2", FOLLOWERS: ""}
    assert kubernetes.topics["kafka", "orders"]["spec"] == before

    assert kubernetes.outcome(CLEARING).code is Code.NONE
    assert kubernetes.maps["orders"].spec.client_config == {}
    assert kubernetes.outcome(CLEARING).code is Code.NONE


def test_a_list_of_a_topic_that_gitops_manages_can_be_set(kubernetes: "Kubernetes") -> None:
    manager: tuple[str, dict[str, object]] = (
        "flux",
        {"f:spec": {"f:config": {"f:retention.ms": {}}}},
    )
    kubernetes.made("orders", owned=[manager])
    assert kubernetes.outcome(listing(leader="*")).code is Code.NONE
    assert kubernetes.outcome(setting(retention_ms="1")).code is Code.POLICY_VIOLATION


def test_lists_of_an_internal_topic(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    orders = kubernetes.maps.pop("orders")
    spec = replace(orders.spec, topic_name="__consumer_offsets", owner_uid=None)
    kubernetes.maps["__consumer_offsets"] = replace(orders, spec=spec)
    operation = replace(listing(leader="0:1"), name="__consumer_offsets")
    assert kubernetes.outcome(operation).code is Code.NONE
    assert kubernetes.maps["__consumer_offsets"].spec.client_config == {LEADERS: "0:1"}
    other = replace(setting(retention_ms="1"), name="__consumer_offsets")
    assert kubernetes.outcome(other).code is Code.INVALID_TOPIC_EXCEPTION


def test_a_request_for_both_parts_changes_both(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    both = ConfigureTopic(
        name="orders", changes=(*listing(leader="*").changes, *setting(retention_ms="7").changes)
    )
    assert kubernetes.outcome(both).code is Code.NONE
    assert kubernetes.maps["orders"].spec.client_config == {LEADERS: "*"}
    assert kubernetes.topics["kafka", "orders"]["spec"]["config"] == {"retention.ms": "7"}

    bad = ConfigureTopic(
        name="orders", changes=(*CLEARING.changes, *setting(retention_ms="-7").changes)
    )
    assert kubernetes.outcome(bad).code is Code.INVALID_CONFIG
    assert kubernetes.maps["orders"].spec.client_config == {LEADERS: "*"}


def test_a_replaced_configuration_replaces_the_lists(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    kubernetes.outcome(listing(leader="*", follower="*"))
    whole = replace(setting(retention_ms="7"), replace=True)
    assert kubernetes.outcome(whole).code is Code.NONE
    assert kubernetes.maps["orders"].spec.client_config == {}
    assert kubernetes.topics["kafka", "orders"]["spec"]["config"] == {"retention.ms": "7"}


def test_single_replicas_are_added_to_a_list(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    for change, value in ((Change.APPEND, "0:1,0:2"), (Change.SUBTRACT, "0:1")):
        operation = ConfigureTopic(name="orders", changes=(ConfigChange(change, LEADERS, value),))
        assert kubernetes.outcome(operation).code is Code.NONE
    assert kubernetes.maps["orders"].spec.client_config == {LEADERS: "0:2"}


@pytest.mark.parametrize("value", ["0", "a:1", "0:1,", "*,0:1", "0:-1", "0:1:2"])
def test_a_list_that_is_none(kubernetes: "Kubernetes", value: str) -> None:
    kubernetes.made("orders")
    verdict = kubernetes.outcome(listing(follower=value))
    assert verdict.code is Code.INVALID_CONFIG
    assert "partition:broker" in verdict.message


def test_what_cannot_be_appended(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    operation = ConfigureTopic(
        name="orders", changes=(ConfigChange(Change.APPEND, "retention.ms", "1"),)
    )
    assert kubernetes.outcome(operation).code is Code.INVALID_CONFIG


def test_who_has_no_lists(kubernetes: "Kubernetes") -> None:
    assert kubernetes.outcome(CLEARING).code is Code.UNKNOWN_TOPIC_OR_PARTITION
    kubernetes.made("orders", annotations={labels.PAUSE: "true"})
    assert kubernetes.outcome(listing(leader="*")).code is Code.POLICY_VIOLATION
    assert kubernetes.outcome(replace(listing(leader="*"), validate_only=True)).code is Code.NONE
    verdict = kubernetes.outcome(CreateTopic(name="new", config={LEADERS: "*"}))
    assert verdict.code is Code.INVALID_CONFIG
    assert "replicationThrottle" in verdict.message


def test_a_list_of_a_topic_that_is_being_deleted(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    gone = kubernetes.maps["orders"]
    spec = replace(gone.spec, current=None, generations=())
    kubernetes.maps["orders"] = replace(gone, spec=spec)
    assert kubernetes.outcome(listing(leader="*")).code is Code.UNKNOWN_TOPIC_OR_PARTITION
    assert isinstance(gone.spec.current, TopicId)


def test_the_rates_of_a_broker(kubernetes: "Kubernetes") -> None:
    one = BrokerId(2)
    kubernetes.brokers[one] = replace(
        kubernetes.brokers[one],
        spec=replace(kubernetes.brokers[one].spec, config={"log.retention.hours": "1"}),
    )
    assert kubernetes.outcome(replace(rates(2), validate_only=True)).code is Code.NONE
    assert not clients_part(kubernetes.brokers[one].spec.config)
    assert kubernetes.outcome(rates(2, value=" 1000")).code is Code.NONE
    config = kubernetes.brokers[one].spec.config
    assert clients_part(config) == dict.fromkeys(RATES, "1000")
    assert kubernetes.outcome(rates(2, Change.DELETE, "")).code is Code.NONE
    assert kubernetes.brokers[one].spec.config == {"log.retention.hours": "1"}
    assert kubernetes.outcome(rates(2, Change.DELETE, "")).code is Code.NONE


@pytest.mark.parametrize(
    ("operation", "code", "said"),
    [
        (rates(2, value="0"), Code.INVALID_CONFIG, "at least 1"),
        (rates(2, value="-1"), Code.INVALID_CONFIG, "at least 1"),
        (rates(2, value="fast"), Code.INVALID_CONFIG, "set it to"),
        (rates(2, Change.APPEND), Code.INVALID_CONFIG, "not a list"),
        (rates(9), Code.INVALID_REQUEST, "there is no broker 9"),
        (
            ConfigureBroker(broker_id=2, changes=(ConfigChange(Change.SET, "log.dirs", "/"),)),
            Code.POLICY_VIOLATION,
            "not log.dirs",
        ),
    ],
)
def test_rates_that_are_refused(
    kubernetes: "Kubernetes", operation: ConfigureBroker, code: Code, said: str
) -> None:
    verdict = kubernetes.outcome(operation)
    assert verdict.code is code
    assert said in verdict.message
    assert not any(clients_part(one.spec.config) for one in kubernetes.brokers.values())
