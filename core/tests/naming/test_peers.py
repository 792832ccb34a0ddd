"""Whose a certificate is, by the names in it."""

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.naming.peers import broker_host, is_broker, is_operator, operator_host

BROKER = "demo-broker-2-0.demo-kafka-brokers.shop.svc"
OPERATOR = "operator.demo-kafka-brokers.shop.svc"


def test_a_broker_is_known_by_the_host_of_its_pod() -> None:
    assert broker_host("demo", "shop", BrokerId(2)) == BROKER
    assert is_broker(["demo-kafka-bootstrap", BROKER], "demo", "shop")


def test_the_operator_has_a_name_of_its_own() -> None:
    assert operator_host("demo", "shop") == OPERATOR
    assert is_operator([OPERATOR], "demo", "shop")
    assert not is_operator([BROKER], "demo", "shop")
    assert not is_broker([OPERATOR], "demo", "shop")


@pytest.mark.parametrize(
    "host",
    [
        "",
        "demo-broker-2-0.demo-kafka-brokers.other.svc",
        "demo-broker-2-0.demo-kafka-brokers.shop.svc.cluster.local",
        "demo-broker-2-0.other-kafka-brokers.shop.svc",
        "other-demo-broker-2-0.demo-kafka-brokers.shop.svc",
        "demo-broker-2-0-0.demo-kafka-brokers.shop.svc",
        "demo-broker-0-0.demo-kafka-brokers.shop.svc",
        "demo-broker-2-0.x.demo-kafka-brokers.shop.svc",
        "*.demo-kafka-brokers.shop.svc",
        "demo-kafka-brokers.shop.svc",
    ],
)
def test_others_are_nobody(host: str) -> None:
    assert not is_broker([host], "demo", "shop")
    assert not is_operator([host], "demo", "shop")


def test_a_cluster_is_not_taken_for_a_pattern() -> None:
    assert not is_broker(["dxmo-broker-2-0.d.mo-kafka-brokers.shop.svc"], "d.mo", "shop")
