"""A BrokerCluster and its Topics as manifests tell of them."""

from typing import Any

from chiplog_cli import kube_view
from chiplog_cli.kube_view import Described, topics_of_cluster
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from tests.views.objects import broker_cluster, condition, topic

LISTENERS = {"plain": "demo-kafka-bootstrap.shop.svc:9092", "external": "10.0.0.1:31543"}


def cluster(**status: Any) -> BrokerCluster:
    return BrokerCluster.from_manifest(broker_cluster(LISTENERS, **status))


def topics(*manifests: dict[str, Any]) -> list[Topic]:
    return [Topic.from_manifest(one) for one in manifests]


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
