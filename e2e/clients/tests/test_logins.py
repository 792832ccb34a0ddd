"""Users log in with client libraries as their users configure them, and Kafka's tools change
them."""

import gc
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from e2e.clients.by_kafka_python import KafkaConsumer, KafkaError, KafkaProducer
from e2e.clients.by_librdkafka import QUIET, must_arrive
from e2e.clients.standalone import StandaloneBroker
from e2e.kafka.certificates import Authority
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

ADMIN, ADMINS_PASSWORD = "admin", "admin-secret"
ALICE = "alice"
SECURITY = "org.apache.kafka.common.security"
TIMED = "timed"
VALUES = [b"one", b"two"]
WAYS = [
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-512"),
    ("SASL_SSL", "SCRAM-SHA-512"),
    ("SASL_SSL", "PLAIN"),
]


class LoginBroker(StandaloneBroker):
    """A broker without a listener that is open to all. Its first user may do everything."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.authority = Authority.create("servers")
        self.ca = self.authority.write(directory / "ca") / "ca.crt"
        names = ("SASL_PLAINTEXT", "SASL_SSL", TIMED)
        self.ports = dict(zip(names, free_ports(3), strict=True))
        self.options = (
            "--add-scram",
            f"SCRAM-SHA-512=[name={ADMIN},password={ADMINS_PASSWORD}]",
        )
        self.settings |= {
            "listeners": ",".join(f"{one}://{self.address(one)}" for one in names),
            "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,"
            f"{TIMED}:SASL_PLAINTEXT",
            f"listener.name.{TIMED}.connections.max.reauth.ms": "1000",
            "listener.name.sasl_ssl.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
            "ssl.keystore.location": str(self.authority.server().write(directory / "server")),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "true",
        }

    def address(self, protocol: str) -> str:
        return f"{LOOPBACK}:{self.ports[protocol]}"

    def kafka_python(
        self, protocol: str, mechanism: str, user: str, password: str
    ) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.address(protocol),
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": user,
            "sasl_plain_password": password,
            **({"ssl_cafile": str(self.ca)} if protocol == "SASL_SSL" else {}),
        }

    def librdkafka(self, protocol: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address(protocol),
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(self.ca),
            **QUIET,
        }

    def java(self, user: str, password: str, mechanism: str, protocol: str) -> Path:
        """A Java client's properties file."""
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        credentials = f'username="{user}" password="{password}";'
        lines = [
            f"security.protocol={protocol}",
            f"sasl.mechanism={mechanism}",
            f"sasl.jaas.config={SECURITY}.{module} required {credentials}",
        ]
        if protocol == "SASL_SSL":
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self.ca}"]
        file = self.home / f"{user}-{mechanism}-{protocol}.properties"
        file.write_text("\n".join(lines))
        return file

    def tool(self, name: str, *arguments: str, check: bool = True) -> str:
        """Run one of Kafka's tools as the administrator."""
        config = self.java(ADMIN, ADMINS_PASSWORD, "SCRAM-SHA-512", "SASL_PLAINTEXT")
        where = ("--bootstrap-server", self.address("SASL_PLAINTEXT"))
        return run_tool(name, *where, "--command-config", str(config), *arguments, check=check)

    def configs(self, user: str, *arguments: str, check: bool = True) -> str:
        of_user = ("--entity-type", "users", "--entity-name", user)
        return self.tool("kafka-configs.sh", *of_user, *arguments, check=check)

    def add(
        self, user: str, password: str, mechanisms: tuple[str, ...] = ("SCRAM-SHA-512",)
    ) -> str:
        """Add a user as Kafka's documentation says."""
        credentials = ",".join(f"{one}=[password={password}]" for one in mechanisms)
        return self.configs(user, "--alter", "--add-config", credentials)


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    with LoginBroker(tmp_path_factory.mktemp("logins")) as broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            broker.add(ALICE, "alice-secret", (mechanism,))
        for resource in ("--topic", "--group"):
            broker.tool(
                *("kafka-acls.sh", "--add", "--allow-principal", f"User:{ALICE}"),
                *("--operation", "All", resource, "*"),
            )
        yield broker


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_kafka_python_produces_and_consumes(
    logins: LoginBroker, protocol: str, mechanism: str
) -> None:
    settings = logins.kafka_python(protocol, mechanism, ALICE, "alice-secret")
    topic = f"kafka-python-{protocol}-{mechanism}"
    producer = KafkaProducer(max_block_ms=10_000, **settings)
    try:
        for future in [producer.send(topic, value) for value in VALUES]:
            future.get(timeout=30)
    finally:
        producer.close(timeout=5)
    consumer = KafkaConsumer(
        topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **settings
    )
    try:
        assert [one.value for _, one in zip(VALUES, consumer, strict=False)] == VALUES
    finally:
        consumer.close()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_librdkafka_produces_and_consumes(
    logins: LoginBroker, protocol: str, mechanism: str
) -> None:
    settings = logins.librdkafka(protocol, mechanism, ALICE, "alice-secret")
    topic = f"librdkafka-{protocol}-{mechanism}"
    producer = Producer({"enable.idempotence": True, **settings})
    for value in VALUES:
        producer.produce(topic, value, on_delivery=must_arrive)
    assert producer.flush(30) == 0
    assert consumed(Consumer(group(settings, topic)), topic, len(VALUES)) == VALUES


def group(settings: dict[str, Any], name: str) -> dict[str, Any]:
    return {"group.id": name, "auto.offset.reset": "earliest", **settings}


def consumed(consumer: Consumer, topic: str, count: int) -> list[bytes]:
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline_s = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline_s:
        for one in consumer.consume(count, timeout=0.5):
            must_arrive(one.error(), one)
            found.append(one.value() or b"")
    consumer.close()
    return found


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS[1:])
def test_java_clients_log_in(logins: LoginBroker, protocol: str, mechanism: str) -> None:
    config = logins.java(ALICE, "alice-secret", mechanism, protocol)
    topic = f"java-{protocol}-{mechanism}"
    where = ("--bootstrap-server", logins.address(protocol), "--topic", topic)
    options = ("--command-config", str(config))
    run_tool("kafka-console-producer.sh", *where, *options, input_text="one\ntwo\n")
    printed = run_tool(
        *("kafka-console-consumer.sh", *where, *options, "--from-beginning"),
        *("--max-messages", "2"),
    )
    assert [one for one in printed.splitlines() if one in {"one", "two"}] == ["one", "two"]


@pytest.mark.parametrize(("user", "password"), [(ALICE, "wrong"), ("nobody", "alice-secret")])
@pytest.mark.parametrize(("protocol", "mechanism"), WAYS[1:])
def test_a_wrong_password_and_an_unknown_user_are_refused_alike(
    logins: LoginBroker, protocol: str, mechanism: str, user: str, password: str
) -> None:
    errors: list[str] = []
    settings = logins.librdkafka(protocol, mechanism, user, password)
    settings["error_cb"] = lambda error: errors.append(str(error))
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=3)
    admin.poll(1)
    assert "Authentication failed during authentication due to invalid credentials" in " ".join(
        errors
    )
    with warnings.catch_warnings():
        # It never closes the sockets of refused connections: they are collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(KafkaError):
            KafkaConsumer(
                bootstrap_timeout_ms=1_500,
                **logins.kafka_python(protocol, mechanism, user, password),
            )
        gc.collect()


def test_java_reports_a_wrong_password(logins: LoginBroker) -> None:
    config = logins.java(ALICE, "wrong", "SCRAM-SHA-512", "SASL_SSL")
    printed = run_tool(
        *("kafka-topics.sh", "--bootstrap-server", logins.address("SASL_SSL")),
        *("--command-config", str(config), "--list"),
        check=False,
    )
    assert "SaslAuthenticationException" in printed
    assert "invalid credentials" in printed


def test_kafkas_tool_adds_shows_and_deletes_users(logins: LoginBroker) -> None:
    """The words are those that Apache Kafka's tool prints."""
    printed = logins.add("carol", "carol-secret", ("SCRAM-SHA-256",))
    assert "Completed updating config for user carol" in printed
    shown = logins.configs("carol", "--describe")
    assert (
        "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-256=iterations=4096"
        in shown
    )
    few = logins.configs(
        "carol",
        *("--alter", "--add-config", "SCRAM-SHA-256=[iterations=4095,password=x]"),
        check=False,
    )
    assert "Too few iterations" in few or "less than the minimum" in few
    logins.configs("carol", "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "carol" not in logins.configs("carol", "--describe")
    gone = logins.configs("carol", "--alter", "--delete-config", "SCRAM-SHA-256", check=False)
    assert "does not exist" in gone


def test_librdkafka_logs_in_again_on_its_connection(logins: LoginBroker) -> None:
    """KIP-368: without that it would be disconnected about every second."""
    shown: list[dict[str, Any]] = []
    settings = logins.librdkafka("SASL_PLAINTEXT", "SCRAM-SHA-512", ALICE, "alice-secret")
    settings["bootstrap.servers"] = logins.address(TIMED)
    settings["statistics.interval.ms"] = 200
    settings["stats_cb"] = lambda text: shown.append(json.loads(text))
    producer = Producer(settings)
    for _ in range(40):
        producer.produce("timed", b"one", on_delivery=must_arrive)
        assert producer.flush(10) == 0
        time.sleep(0.1)
    producer.poll(0.5)
    brokers = shown[-1]["brokers"].values()
    assert sum(one["disconnects"] for one in brokers) == 0
    assert sum(one["req"].get("SaslAuthenticate", 0) for one in brokers) > 6


def test_a_deleted_user_is_disconnected(logins: LoginBroker) -> None:
    logins.add("dave", "dave-secret")
    logins.tool(
        *("kafka-acls.sh", "--add", "--allow-principal", "User:dave"),
        *("--operation", "All", "--topic", "*"),
    )
    create = logins.tool("kafka-topics.sh", "--create", "--topic", "of-dave", "--partitions", "1")
    assert "Created topic" in create
    errors: list[str] = []
    settings = logins.librdkafka("SASL_SSL", "SCRAM-SHA-512", "dave", "dave-secret")
    producer = Producer(
        {**settings, "message.timeout.ms": 5000, "error_cb": lambda one: errors.append(str(one))}
    )
    producer.produce("of-dave", b"one", on_delivery=must_arrive)
    assert producer.flush(10) == 0
    logins.configs("dave", "--alter", "--delete-config", "SCRAM-SHA-512")
    failures: list[Any] = []
    producer.produce("of-dave", b"two", on_delivery=lambda error, _: failures.append(error))
    producer.flush(10)
    assert failures[0] is not None
    assert "invalid credentials" in " ".join(errors)
