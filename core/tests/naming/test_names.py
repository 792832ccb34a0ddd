"""Derived names are valid for Kubernetes and never shared."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_LABEL_LENGTH, MAX_NAME_LENGTH
from chiplog_core.naming import api, names
from chiplog_core.topic_name import TOPIC_NAME_PATTERN, collision_key, is_internal

DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
DNS_1035_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")

cluster_names = st.from_regex(names.CLUSTER_NAME_PATTERN, fullmatch=True).filter(
    lambda name: len(name) <= names.MAX_CLUSTER_NAME_LENGTH
)
broker_ids = st.integers(1, 32_767).map(BrokerId)
listener_names = st.from_regex("[a-z0-9]{1,11}", fullmatch=True)
topic_names = st.from_regex(TOPIC_NAME_PATTERN, fullmatch=True)
group_ids = st.text(min_size=1, max_size=255)


def test_the_objects_of_a_broker() -> None:
    two = BrokerId(2)

    assert names.stateful_set("demo", two) == "demo-broker-2"
    assert names.pod("demo", two) == "demo-broker-2-0"
    assert names.volume_claim("demo", two) == "data-demo-broker-2-0"
    assert names.service_account("demo", two) == "demo-broker-2"
    assert names.external_broker_service("demo", two) == "demo-broker-2-external"
    assert names.broker("demo", two) == "demo-2"
    assert names.broker_lease("demo", two) == "demo-2"


def test_the_objects_of_a_cluster() -> None:
    assert names.bootstrap_service("demo") == "demo-kafka-bootstrap"
    assert names.brokers_service("demo") == "demo-kafka-brokers"
    assert names.external_bootstrap_service("demo") == "demo-kafka-external-bootstrap"
    assert names.listener_service("demo", "tls") == "demo-tls-ext"
    assert names.listener_service("demo", "tls", BrokerId(2)) == "demo-tls-ext-2"
    assert names.broker_config("demo") == "demo-broker-config"
    assert names.internal_secret("demo") == "demo-internal"
    assert names.disruption_budget("demo") == "demo-brokers"
    assert names.network_policy("demo") == "demo-brokers"
    assert names.partition_map("demo", "orders") == "demo.orders"


@given(cluster_names, listener_names, broker_ids)
def test_service_and_pod_names_are_dns_labels(
    cluster: str, listener: str, broker_id: BrokerId
) -> None:
    for name in (
        names.bootstrap_service(cluster),
        names.brokers_service(cluster),
        names.external_bootstrap_service(cluster),
        names.external_broker_service(cluster, broker_id),
        names.listener_service(cluster, listener),
        names.listener_service(cluster, listener, broker_id),
        names.pod(cluster, broker_id),
    ):
        assert DNS_1035_LABEL.fullmatch(name)
        assert len(name) <= MAX_LABEL_LENGTH


@given(cluster_names, cluster_names, broker_ids, broker_ids)
def test_two_brokers_never_share_a_name(
    one: str, other: str, first: BrokerId, second: BrokerId
) -> None:
    same = (one, first) == (other, second)

    assert (names.broker(one, first) == names.broker(other, second)) == same
    assert (names.pod(one, first) == names.pod(other, second)) == same


@given(
    st.tuples(cluster_names, listener_names, st.none() | broker_ids),
    st.tuples(cluster_names, listener_names, st.none() | broker_ids),
)
def test_two_listeners_never_share_a_service(
    one: tuple[str, str, BrokerId | None], other: tuple[str, str, BrokerId | None]
) -> None:
    assert (names.listener_service(*one) == names.listener_service(*other)) == (one == other)


@pytest.mark.parametrize("name", ["orders", "order-placed", "team.orders.v1", "a" * 200])
def test_a_name_that_kubernetes_allows_is_kept(name: str) -> None:
    assert names.object_name(name) == name


@pytest.mark.parametrize(
    ("name", "derived"),
    [
        ("order_placed", "order-placed-08dc96cc"),
        ("Orders", "orders-"),
        ("_schemas", "schemas-"),
        ("team._x_.y", "team.x.y-"),
        ("a..b", "a.b-"),
        ("a" * 201, "a" * 180 + "-"),
        ("group of Zoë", "group-of-zo-"),
    ],
)
def test_any_other_name_becomes_one_that_is(name: str, derived: str) -> None:
    found = names.object_name(name)

    assert found.startswith(derived)
    assert re.fullmatch(".*-[0-9a-f]{8}", found)


def test_a_name_without_any_letter_becomes_its_hash() -> None:
    assert re.fullmatch("[0-9a-f]{8}", names.object_name("___"))


@given(st.one_of(topic_names, group_ids))
def test_derived_names_are_valid_object_names(name: str) -> None:
    found = names.object_name(name)

    assert DNS_SUBDOMAIN.fullmatch(found)
    assert len(found) <= 200


@given(cluster_names, topic_names)
def test_partition_map_names_are_valid_object_names(cluster: str, topic: str) -> None:
    found = names.partition_map(cluster, topic)

    assert DNS_SUBDOMAIN.fullmatch(found)
    assert len(found) <= MAX_NAME_LENGTH
    assert found.split(".", 1)[0] == cluster


@given(topic_names, topic_names)
def test_two_topics_do_not_share_a_derived_name(one: str, other: str) -> None:
    assert (names.object_name(one) == names.object_name(other)) == (one == other)


def test_names_that_differ_only_in_case_or_marks_stay_apart() -> None:
    alike = ["orders", "Orders", "ORDERS", "orders_", "_orders", "orders.", "orders-"]

    assert len({names.object_name(name) for name in alike}) == len(alike)


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b") == collision_key("a_b")
    assert collision_key("a.b") != collision_key("a-b")


def test_internal_topics() -> None:
    assert is_internal("__consumer_offsets")
    assert not is_internal("__consumer_offsets_of_mine")


def test_the_names_of_a_kind() -> None:
    assert api.TOPIC.singular == "topic"
    assert api.TOPIC.definition_name == "topics.chiplog.dev"
