"""TLS with client libraries as their users configure them."""

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from e2e.clients.by_kafka_python import KafkaConsumer, KafkaError, KafkaProducer
from e2e.clients.by_librdkafka import QUIET, must_arrive
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.tls import Load, s_client, serial
from e2e.clients.topics import create_topic
from e2e.kafka.certificates import Authority, Issued
from e2e.kafka.ports import LOOPBACK, free_ports
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

TOPIC = "orders"
VALUES = [bytes([number]) * 100_000 for number in range(60)]


class TlsBroker(StandaloneBroker):
    """A broker with a listener for each version of TLS, and one for clients with certificates."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.servers, self.clients = Authority.create("servers"), Authority.create("clients")
        self.server_files = self.servers.server().write(directory / "server")
        self.client_cas = self.clients.write(directory / "client-cas")
        self.ports = dict(zip(("tls12", "tls13", "mtls"), free_ports(3), strict=True))
        listeners = [f"{name}://{LOOPBACK}:{port}" for name, port in self.ports.items()]
        self.settings |= {
            "listeners": ",".join((f"PLAINTEXT://{self.bootstrap}", *listeners)),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,tls12:SSL,tls13:SSL,mtls:SSL",
            "ssl.keystore.type": "PEM",
            "group.initial.rebalance.delay.ms": "0",
            "ssl.keystore.location": str(self.server_files),
            "listener.name.tls12.ssl.enabled.protocols": "TLSv1.2",
            "listener.name.tls13.ssl.enabled.protocols": "TLSv1.3",
            "listener.name.mtls.ssl.client.auth": "required",
            "listener.name.mtls.ssl.truststore.location": str(self.client_cas),
        }

    def address(self, listener: str, host: str = LOOPBACK) -> str:
        return f"{host}:{self.ports[listener]}"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsBroker]:
    with TlsBroker(tmp_path_factory.mktemp("tls")) as broker:
        create_topic(broker.bootstrap, TOPIC, 1)
        yield broker


class Files:
    """The files of a client."""

    def __init__(self, directory: Path, trusted: Authority, identity: Issued | None = None) -> None:
        self.ca = trusted.write(directory / "trusted") / "ca.crt"
        self.identity = None if identity is None else identity.write(directory / "identity")

    def kafka_python(self) -> dict[str, Any]:
        found = {"security_protocol": "SSL", "ssl_cafile": str(self.ca)}
        if self.identity is not None:
            found["ssl_certfile"] = str(self.identity / "tls.crt")
            found["ssl_keyfile"] = str(self.identity / "tls.key")
        return found

    def librdkafka(self) -> dict[str, Any]:
        found = {"security.protocol": "ssl", "ssl.ca.location": str(self.ca), **QUIET}
        if self.identity is not None:
            found["ssl.certificate.location"] = str(self.identity / "tls.crt")
            found["ssl.key.location"] = str(self.identity / "tls.key")
        return found


def by_kafka_python(address: str, files: Files, topic: str) -> list[bytes]:
    """Produce `VALUES`, and read as many from the beginning."""
    settings = files.kafka_python()
    producer = KafkaProducer(bootstrap_servers=address, max_block_ms=10_000, **settings)
    try:
        for future in [producer.send(topic, value) for value in VALUES]:
            future.get(timeout=30)
    finally:
        producer.close(timeout=5)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        **settings,
    )
    try:
        return [one.value for _, one in zip(VALUES, consumer, strict=False)]
    finally:
        consumer.close()


def by_librdkafka(address: str, files: Files, topic: str) -> list[bytes]:
    """Produce `VALUES`, and read as many from the beginning."""
    settings = {"bootstrap.servers": address, **files.librdkafka()}
    producer = Producer({"enable.idempotence": True, **settings})
    for value in VALUES:
        producer.produce(topic, value, on_delivery=must_arrive)
    assert producer.flush(30) == 0
    consumer = Consumer({"group.id": "g", "auto.offset.reset": "earliest", **settings})
    consumer.subscribe([topic])
    found: list[bytes] = []
    deadline_s = time.monotonic() + 30
    while len(found) < len(VALUES) and time.monotonic() < deadline_s:
        for one in consumer.consume(len(VALUES), timeout=0.5):
            must_arrive(one.error(), one)
            found.append(one.value() or b"")
    consumer.close()
    return found


@pytest.mark.parametrize("client", [by_kafka_python, by_librdkafka])
@pytest.mark.parametrize("listener", ["tls12", "tls13", "mtls"])
def test_clients_produce_and_consume(
    tls: TlsBroker,
    tmp_path: Path,
    client: Callable[[str, Files, str], list[bytes]],
    listener: str,
) -> None:
    topic = f"{client.__name__}-{listener}"
    create_topic(tls.bootstrap, topic, 1)
    identity = tls.clients.client("orders") if listener == "mtls" else None
    assert client(tls.address(listener), Files(tmp_path, tls.servers, identity), topic) == VALUES


def java_properties(directory: Path, trusted: Authority, identity: Issued | None) -> Path:
    """A Java client's properties file, with PEM files as they are."""
    lines = [
        "security.protocol=SSL",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={trusted.write(directory) / 'ca.crt'}",
    ]
    if identity is not None:
        keystore = directory / "identity.pem"
        keystore.write_bytes(identity.both)
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={keystore}"]
    file = directory / "client.properties"
    file.write_text("\n".join(lines))
    return file


def test_java_clients_produce_and_consume(tls: TlsBroker, tmp_path: Path) -> None:
    create_topic(tls.bootstrap, "java", 1)
    properties = java_properties(tmp_path, tls.servers, tls.clients.client("java"))
    where = ("--bootstrap-server", tls.address("mtls"), "--topic", "java")
    config = ("--command-config", str(properties))
    run_tool("kafka-console-producer.sh", *where, *config, input_text="one\ntwo\n")
    printed = run_tool(
        "kafka-console-consumer.sh", *where, *config, "--from-beginning", "--max-messages", "2"
    )
    assert [one for one in printed.splitlines() if one in {"one", "two"}] == ["one", "two"]


def test_a_java_client_without_a_certificate_is_refused(tls: TlsBroker, tmp_path: Path) -> None:
    properties = java_properties(tmp_path, tls.servers, None)
    where = ("--bootstrap-server", tls.address("mtls"))
    printed = run_tool(
        "kafka-topics.sh", *where, "--command-config", str(properties), "--list", check=False
    )
    assert "SslAuthenticationException" in printed
    assert "certificate_required" in printed


def refusal_of_librdkafka(address: str, files: Files) -> str:
    """Why a connection fails; fails the test if it does not."""
    errors: list[str] = []
    settings: dict[str, Any] = {
        "bootstrap.servers": address,
        "error_cb": lambda error: errors.append(str(error)),
        **files.librdkafka(),
    }
    admin = AdminClient(settings)
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=5)
    admin.poll(1)
    return " ".join(errors)


def kafka_python_is_refused(address: str, files: Files) -> bool:
    """Whether a client of kafka-python cannot connect."""
    with warnings.catch_warnings():
        # It never closes the sockets of refused connections: they are collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            KafkaConsumer(
                bootstrap_servers=address, bootstrap_timeout_ms=1_500, **files.kafka_python()
            ).close()
        except KafkaError:
            return True
        finally:
            gc.collect()
    return False


def test_a_client_refuses_a_broker_that_it_cannot_trust(tls: TlsBroker, tmp_path: Path) -> None:
    stranger = Files(tmp_path, tls.clients)
    assert "certificate verify failed" in refusal_of_librdkafka(tls.address("tls13"), stranger)
    assert kafka_python_is_refused(tls.address("tls12"), stranger)
    wrong_name = tls.address("tls13", "localhost")
    files = Files(tmp_path, tls.servers)
    assert "certificate verify failed" in refusal_of_librdkafka(wrong_name, files)
    assert kafka_python_is_refused(wrong_name, files)


def test_a_client_without_a_certificate_is_refused(tls: TlsBroker, tmp_path: Path) -> None:
    files = Files(tmp_path, tls.servers)
    assert "certificate required" in refusal_of_librdkafka(tls.address("mtls"), files)
    assert kafka_python_is_refused(tls.address("mtls"), files)


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_are_refused(tls: TlsBroker, version: str) -> None:
    options = (version, "-cipher", "ALL:@SECLEVEL=0")
    assert "alert protocol version" in s_client(tls.address("tls12"), *options)


def wait_for_another(address: str, before: str) -> str:
    """Wait until another certificate is served; returns its serial number."""
    wait_until(lambda: serial(address) != before)
    return serial(address)


def test_certificates_and_cas_are_replaced_under_load(tmp_path: Path) -> None:
    with TlsBroker(tmp_path) as broker:
        create_topic(broker.bootstrap, TOPIC, 1)
        address, old_clients = broker.address("mtls"), broker.clients
        old = Files(tmp_path / "old", broker.servers, old_clients.client("old"))
        assert old.identity is not None
        identity = ("-cert", old.identity / "tls.crt", "-key", old.identity / "tls.key")
        saved = tmp_path / "session"
        accepted = s_client(address, *identity, "-tls1_2", "-sess_out", saved)
        assert "Verify return code" in accepted
        assert saved.exists()
        assert "Reused" in s_client(address, *identity, "-tls1_2", "-sess_in", saved)
        with Load({"bootstrap.servers": address, **old.librdkafka()}, TOPIC) as load:
            wait_until(lambda: len(load.read) > 500)
            served = serial(address)
            for _ in range(3):
                broker.servers.server().write(broker.server_files)
                served = wait_for_another(address, served)
            new_clients = Authority.create("clients")
            new_clients.write(broker.client_cas, old_clients)
            new = Files(tmp_path / "new", broker.servers, new_clients.client("new"))
            wait_until(lambda: is_served(address, new))
            assert is_served(address, old)
            new_clients.write(broker.client_cas)
            wait_until(lambda: not is_served(address, old))
            count = len(load.read)
            wait_until(lambda: len(load.read) > count + 500)
            lost = dict(load.disconnects)
        assert sorted(load.read) == sorted(load.acknowledged)
        assert len(load.read) > 1000
        assert load.errors == []
        refused = s_client(address, *identity, "-tls1_2", "-sess_in", saved)
        assert "Reused" not in refused
        assert "alert" in refused
        assert is_served(address, new)
        assert list(lost.values()) == [0, 0]


def is_served(address: str, files: Files) -> bool:
    """Whether a new client with these files is served."""
    admin = AdminClient({"bootstrap.servers": address, **files.librdkafka()})
    try:
        return TOPIC in admin.list_topics(timeout=3).topics
    except KafkaException:
        return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s, "it took more than 30 s"
        time.sleep(0.1)
