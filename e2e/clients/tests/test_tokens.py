"""Users log in with tokens of an issuer, with client libraries as their users configure them."""

import gc
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from e2e.clients import token_broker
from e2e.clients.by_kafka_python import KafkaConsumer, KafkaProducer
from e2e.clients.by_kafka_python import KafkaError as PythonError
from e2e.clients.by_librdkafka import QUIET, must_arrive
from e2e.clients.issuer import TokenIssuer
from e2e.clients.token_broker import ADMIN, ALICE
from e2e.cluster.shell import run
from e2e.kafka.java import SHORT_LIVED, java
from e2e.kafka.tools import TOOLS

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

VALUES = [b"one", b"two"]
REFUSED = "Authentication failed during authentication due to invalid credentials"
JAVA_OPTION = "-Dorg.apache.kafka.sasl.oauthbearer.allowed"
LOGIN = "org.apache.kafka.common.security.oauthbearer"


class TokenBroker(token_broker.TokenBroker):
    """The broker, with settings of client libraries."""

    def librdkafka(self, token: Callable[[], str], valid_s: float = 300) -> dict[str, Any]:
        """`valid_s` is what the client believes: by it, it asks for the next token."""
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "sasl_ssl",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token(), time.time() + valid_s),
            "ssl.ca.location": str(self.ca),
            **QUIET,
        }

    def kafka_python(self, token: Callable[[], str]) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.address,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.ca),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": provider(token),
        }

    def tool(self, name: str, token: str, *arguments: str, **more: Any) -> str:
        """Run one of Kafka's tools with a token in a file."""
        file = self.home / "token"
        file.write_text(token)
        lines = [
            "security.protocol=SASL_SSL",
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.jaas.config={LOGIN}.OAuthBearerLoginModule required ;",
            f"sasl.login.callback.handler.class={LOGIN}.OAuthBearerLoginCallbackHandler",
            f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.ca}",
        ]
        config = self.home / "client.properties"
        config.write_text("\n".join(lines))
        options = (
            *SHORT_LIVED,
            f"{JAVA_OPTION}.urls={file.as_uri()}",
            f"{JAVA_OPTION}.files={file}",
        )
        where = ("--bootstrap-server", self.address, "--command-config", str(config))
        return run(*java(TOOLS[name], options), *where, *arguments, timeout_s=60, **more)


def provider(token: Callable[[], str]) -> Any:
    """kafka-python asks an object for tokens."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.net.sasl.oauth import (  # type: ignore[import-untyped] # noqa: PLC0415
            AbstractTokenProvider,
        )

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    return Provider()


@pytest.fixture(scope="module")
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer.running() as one:
        yield one


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: TokenIssuer) -> Iterator[TokenBroker]:
    with TokenBroker(tmp_path_factory.mktemp("tokens"), issuer) as one:
        yield one


def test_librdkafka_produces_and_consumes(broker: TokenBroker) -> None:
    settings = broker.librdkafka(lambda: broker.issuer.token(ALICE))
    producer = Producer({"enable.idempotence": True, **settings})
    for value in VALUES:
        producer.produce("librdkafka", value, on_delivery=must_arrive)
    assert producer.flush(30) == 0
    assert consumed(settings, "librdkafka") == VALUES


def consumed(settings: dict[str, Any], topic: str) -> list[bytes]:
    consumer = Consumer({"group.id": topic, "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline_s = time.monotonic() + 30
    while len(found) < len(VALUES) and time.monotonic() < deadline_s:
        for one in consumer.consume(len(VALUES), timeout=0.5):
            must_arrive(one.error(), one)
            found.append(one.value() or b"")
    consumer.close()
    return found


def test_kafka_python_produces_and_consumes(broker: TokenBroker) -> None:
    settings = broker.kafka_python(lambda: broker.issuer.token(ALICE))
    producer = KafkaProducer(max_block_ms=10_000, **settings)
    try:
        for future in [producer.send("kafka-python", value) for value in VALUES]:
            future.get(timeout=30)
    finally:
        producer.close(timeout=5)
    consumer = KafkaConsumer(
        "kafka-python", auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    try:
        assert [one.value for _, one in zip(VALUES, consumer, strict=False)] == VALUES
    finally:
        consumer.close()


def test_kafkas_tools_log_in_and_report_a_wrong_token(broker: TokenBroker) -> None:
    topics = ("kafka-topics.sh",)
    created = broker.tool(
        *topics, broker.issuer.token(ADMIN), *("--create", "--topic", "java", "--partitions", "1")
    )
    assert "Created topic java" in created
    wrong = broker.issuer.token(ADMIN, aud="web")
    printed = broker.tool(*topics, wrong, "--list", check=False)
    assert "SaslAuthenticationException" in printed
    assert "invalid credentials" in printed


def test_a_wrong_token_is_an_authentication_error(broker: TokenBroker) -> None:
    errors: list[KafkaError] = []
    settings = broker.librdkafka(lambda: broker.issuer.token(ALICE, aud="web"))
    settings["error_cb"] = errors.append
    admin = AdminClient(settings)
    admin.poll(0)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=2)
    admin.poll(1)
    assert any(one.code() == KafkaError._AUTHENTICATION for one in errors)
    assert REFUSED in " ".join(map(str, errors))


def test_kafka_python_reports_a_wrong_token(broker: TokenBroker) -> None:
    with warnings.catch_warnings():
        # It never closes the sockets of refused connections: they are collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(PythonError):
            KafkaConsumer(
                bootstrap_timeout_ms=1_500,
                **broker.kafka_python(lambda: broker.issuer.token(ALICE, aud="web")),
            )
        gc.collect()


def test_a_client_outlives_its_tokens_on_its_connection(broker: TokenBroker) -> None:
    """KIP-368: the client gets new tokens and logs in again; it is never disconnected."""
    shown: list[dict[str, Any]] = []
    fetched: list[str] = []

    def token() -> str:
        fetched.append(broker.issuer.token(ALICE, valid_s=3))
        return fetched[-1]

    settings = broker.librdkafka(token, valid_s=3)
    settings["statistics.interval.ms"] = 200
    settings["stats_cb"] = lambda text: shown.append(json.loads(text))
    producer = Producer(settings)
    for _ in range(40):
        producer.produce("timed", b"one", on_delivery=must_arrive)
        assert producer.flush(10) == 0
        time.sleep(0.2)
    producer.poll(0.5)
    brokers = shown[-1]["brokers"].values()
    assert sum(one["disconnects"] for one in brokers) == 0
    assert len(fetched) > 2
    assert sum(one["req"].get("SaslAuthenticate", 0) for one in brokers) > 2


def test_a_new_key_is_found_and_an_issuer_may_be_down(
    broker: TokenBroker, issuer: TokenIssuer
) -> None:
    def can_log_in() -> bool:
        settings = broker.librdkafka(lambda: issuer.token(ALICE))
        admin = AdminClient(settings)
        admin.poll(0)
        try:
            return bool(admin.list_topics(timeout=2).brokers)
        except KafkaException:
            return False

    assert can_log_in()
    issuer.is_down = True
    assert can_log_in()
    issuer.is_down = False
    issuer.change_key("second")
    deadline_s = time.monotonic() + 60
    while not can_log_in():
        assert time.monotonic() < deadline_s, "the new key is never found"
