"""Users of a cluster on Kubernetes, with the credentials that the operator makes for them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from e2e import measured
from e2e.clients.by_kafka_python import KafkaConsumer
from e2e.cluster.kubectl import eventually
from e2e.main.broker_cluster import BrokerClusterUnderTest, topic_manifest
from e2e.security.secured import Credentials, user

pytestmark = [pytest.mark.security, pytest.mark.timeout(300)]

TOPIC = "orders"
LOGIN_LIMIT_S, LOGOUT_LIMIT_S = 2, 2
WAIT_S = 30


SHOP = user("shop", "tls", ("topic", TOPIC, ["Write", "Describe"]))
BILLING = user(
    "billing",
    "scram-sha-512",
    ("topic", TOPIC, ["Read", "Describe"]),
    ("group", "billing", ["Read"]),
)


def produced(settings: dict[str, Any], value: bytes = b"a") -> KafkaError | None:
    """The error of one record; None if it is acknowledged."""
    found: list[KafkaError | None] = []
    producer = Producer({"message.timeout.ms": 10_000, **settings})
    producer.produce(TOPIC, value, on_delivery=lambda error, _: found.append(error))
    producer.flush(15)
    assert found, "the record has no outcome"
    return found[0]


def can_log_in(settings: dict[str, Any]) -> bool:
    """Whether a client gets metadata."""
    consumer = Consumer({"group.id": "billing", **settings})
    try:
        return bool(consumer.list_topics(timeout=1).brokers)
    except KafkaException:
        return False
    finally:
        consumer.close()


def took_s(what: str, becomes: Callable[[], bool]) -> float:
    return eventually(what, becomes, WAIT_S, every_s=0.05)


def test_users_do_what_their_rules_allow_until_they_are_deleted(
    cluster: BrokerClusterUnderTest, tmp_path: Path
) -> None:
    kubectl, before = cluster.kubectl, cluster.broker_pods()
    kubectl.apply(yaml.safe_dump_all([topic_manifest(TOPIC, 3, replicas=3), SHOP]))
    cluster.wait_ready("ct", TOPIC)
    cluster.wait_ready("users.chiplog.dev", "shop")
    applied_s = time.monotonic()
    kubectl.apply(yaml.safe_dump_all([BILLING]))
    took_s("the Secret is there", lambda: bool(kubectl.get("secret", "billing")["data"]))
    shop = Credentials(cluster, "shop", tmp_path / "shop").librdkafka()
    account = Credentials(cluster, "billing", tmp_path / "billing")
    billing = account.librdkafka()
    took_s("billing can log in", lambda: can_log_in(billing))
    login_s = time.monotonic() - applied_s

    assert produced(shop) is None
    denied = produced(billing)
    assert denied is not None
    assert denied.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException):
        read_all(shop, "shop")
    assert read_all(billing, "billing") == [b"a"]
    assert read_by_kafka_python(account) == [b"a"]
    for wrong in (
        billing | {"sasl.password": "wrong"},
        billing | {"sasl.username": "nobody"},
        {**billing, "security.protocol": "ssl", "bootstrap.servers": account.bootstrap("mtls")},
    ):
        assert not can_log_in(wrong)

    refused: list[KafkaError] = []
    consumer = Consumer({"group.id": "billing", **billing, "error_cb": refused.append})
    consumer.subscribe([TOPIC])
    try:
        took_s("it has partitions", lambda: bool(consumer.poll(0.1) or consumer.assignment()))
        kubectl("delete", "users.chiplog.dev", "billing", "--wait=false")
        deleted_s = time.monotonic()
        took_s("it lost its connections", lambda: is_refused(consumer, refused))
        logout_s = time.monotonic() - deleted_s
    finally:
        consumer.close()
    assert not can_log_in(billing)
    assert produced(shop, b"b") is None
    assert cluster.broker_pods() == before, "no broker restarts for a User"
    measured.note(
        f"a User logs in {login_s:.1f} s after it was applied (limit {LOGIN_LIMIT_S} s); its "
        f"connections are closed {logout_s:.1f} s after it was deleted (limit {LOGOUT_LIMIT_S} s)"
    )
    assert login_s < 5 * LOGIN_LIMIT_S
    assert logout_s < 5 * LOGOUT_LIMIT_S


def read_all(settings: dict[str, Any], group: str) -> list[bytes]:
    """The first records of the topic; raises `KafkaException` if they may not be read."""
    consumer = Consumer({"group.id": group, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([TOPIC])
    try:
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            if (one := consumer.poll(0.5)) is not None:
                if one.error():
                    raise KafkaException(one.error())
                return [one.value() or b""]
    finally:
        consumer.close()
    return []


def read_by_kafka_python(account: Credentials) -> list[bytes]:
    """The same with kafka-python and the password of a User."""
    consumer = KafkaConsumer(
        TOPIC,
        bootstrap_servers=account.bootstrap("scram"),
        security_protocol="SASL_SSL",
        ssl_cafile=account.ca,
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username=account.name,
        sasl_plain_password=account.entries["password"].decode(),
        auto_offset_reset="earliest",
        consumer_timeout_ms=WAIT_S * 1000,
    )
    try:
        return [one.value for _, one in zip(range(1), consumer, strict=False)]
    finally:
        consumer.close()


def is_refused(consumer: Consumer, errors: list[KafkaError]) -> bool:
    """Whether a consumer that polls was disconnected, and could not log in again."""
    consumer.poll(0.05)
    return any(one.code() == KafkaError._AUTHENTICATION for one in errors)
