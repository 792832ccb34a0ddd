"""A BrokerCluster and its Topics as manifests tell of them."""

from typing import Any

import pytest

from chiplog_cli import kube_view
from chiplog_cli.errors import CannotDo
from chiplog_cli.kube_view import Described, bootstrap_servers, topics_of_cluster
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from tests.views.objects import broker_cluster, condition, topic

LISTENERS = {"plain": "demo-kafka-bootstrap.shop.svc:9092", "external": "10.0.0.1:31543"}


def cluster(**status: Any) -> BrokerCluster:
    return BrokerCluster.from_manifest(broker_cluster(LISTENERS, **status))


def topics(*manifests: dict[str, Any]) -> list[Topic]:
    return [Topic.from_manifest(one) for one in manifests]


def test_where_clients_begin() -> None:
    one = cluster()
    assert bootstrap_servers(one, None, in_cluster=False) == LISTENERS["external"]
    assert bootstrap_servers(one, None, in_cluster=True) == LISTENERS["plain"]
    assert bootstrap_servers(one, "plain", in_cluster=False) == LISTENERS["plain"]
    with pytest.raises(
        CannotDo, match="BrokerCluster 'demo' has no listener 'x': use one of external, pl"
    ):
        bootstrap_servers(one, "x", in_cluster=False)


def test_the_only_listener_is_better_than_none() -> None:
    only = BrokerCluster.from_manifest(broker_cluster({"plain": LISTENERS["plain"]}))
    assert bootstrap_servers(only, None, in_cluster=False) == LISTENERS["plain"]


def test_listeners_with_tls_are_left_out() -> None:
    manifest = broker_cluster(LISTENERS)
    plain, external = manifest["spec"]["listeners"]
    external["tls"] = True
    mixed = BrokerCluster.from_manifest(manifest)
    assert bootstrap_servers(mixed, None, in_cluster=False) == LISTENERS["plain"]
    with pytest.raises(CannotDo, match="listener 'external' of BrokerCluster 'demo' has TLS"):
        bootstrap_servers(mixed, "external", in_cluster=False)
    plain["tls"] = True
    with pytest.raises(CannotDo, match="every listener of BrokerCluster 'demo' has TLS"):
        bootstrap_servers(BrokerCluster.from_manifest(manifest), None, in_cluster=True)


def test_a_cluster_without_listeners() -> None:
    with pytest.raises(CannotDo, match="has no listener yet"):
        bootstrap_servers(BrokerCluster.from_manifest(broker_cluster({})), None, in_cluster=True)


def test_only_topics_that_name_the_cluster() -> None:
    found = topics_of_cluster(
        topics(
            topic("b"),
            topic("a", namespace="team", reference_namespace="shop"),
            topic("c", namespace="team"),
            topic("d", reference="other"),
        ),
        cluster(),
    )
    assert [one.topic_name for one in found] == ["a", "b"]


def test_what_is_shown() -> None:
    described = Described(
        cluster=cluster(conditions=[condition("Ready"), condition("Healthy", "False", "Offline")]),
        topics=tuple(
            topics(
                topic("orders", conditions=[condition("Ready")]),
                topic(
                    "other", conditions=[condition("Ready"), condition("Warning", "True", "Odd")]
                ),
                topic("young"),
            )
        ),
    )
    assert kube_view.text(described) == (
        "BrokerCluster:     shop/demo\n"
        "Cluster id:        c-1\n"
        "Brokers:           2 of 3 ready\n"
        "Topics:            unknown\n"
        "Partitions:        6 (unknown offline, 1 under-replicated)\n"
        "Listener plain:    demo-kafka-bootstrap.shop.svc:9092\n"
        "Listener external: 10.0.0.1:31543\n"
        "\n"
        "CONDITION  STATUS  SINCE                 REASON   MESSAGE\n"
        "Ready      True    2026-01-31T12:00:00Z  AsSpec   Ready is AsSpec.\n"
        "Healthy    False   2026-01-31T12:00:00Z  Offline  Healthy is Offline.\n"
        "\n"
        "TOPIC   NAMESPACE  PARTITIONS  REPLICAS  READY  REASON  MESSAGE\n"
        "orders  shop       6           3         True   AsSpec  Ready is AsSpec.\n"
        "other   shop       6           3         True   Odd     Warning is Odd.\n"
        "young   shop       6           3         -      -       -"
    )
