"""TLS with client libraries as their users configure them."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from e2e.clients.over_tls.client import OverTls, Tls
from e2e.clients.over_tls.clients import OVER_TLS
from e2e.clients.over_tls.files import TlsFiles
from e2e.clients.over_tls.refusals import NO_CERTIFICATE, OTHER_NAME, UNTRUSTED, check_refused
from e2e.clients.standalone import StandaloneBroker
from e2e.clients.tls import Load, s_client, serial
from e2e.clients.topics import create_topic
from e2e.kafka.certificates import Authority
from e2e.kafka.ports import LOOPBACK, free_ports

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

TOPIC = "orders"
VALUES = [bytes([number]) * 100_000 for number in range(ord("0"), ord("0") + 60)]


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


@pytest.mark.parametrize("client", [pytest.param(one, id=one.name) for one in OVER_TLS])
def test_clients_produce_and_consume_and_trust_only_whom_they_should(
    tls: TlsBroker, tmp_path: Path, client: type[OverTls]
) -> None:
    plain = TlsFiles.write(tmp_path, tls.servers)
    with client(tmp_path) as one:
        for listener in tls.ports:
            topic = f"{client.name}-{listener}"
            create_topic(tls.bootstrap, topic, 1)
            identity = tls.clients.client("orders") if listener == "mtls" else None
            files = TlsFiles.write(tmp_path / listener, tls.servers, identity)
            how = Tls(bootstrap=tls.address(listener), files=files)
            one.produce(how, topic, VALUES)
            assert one.consume(how, topic, len(VALUES)) == VALUES
        stranger = TlsFiles.write(tmp_path / "stranger", tls.clients)
        for why, how in (
            (UNTRUSTED, Tls(bootstrap=tls.address("tls12"), files=stranger)),
            (UNTRUSTED, Tls(bootstrap=tls.address("tls13"), files=stranger)),
            (OTHER_NAME, Tls(bootstrap=tls.address("tls13", "localhost"), files=plain)),
            (NO_CERTIFICATE, Tls(bootstrap=tls.address("mtls"), files=plain)),
        ):
            check_refused(one, how, why)


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
        old = TlsFiles.write(tmp_path / "old", broker.servers, old_clients.client("old"))
        assert old.certificate is not None
        assert old.key is not None
        identity = ("-cert", old.certificate, "-key", old.key)
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
            new = TlsFiles.write(tmp_path / "new", broker.servers, new_clients.client("new"))
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


def is_served(address: str, files: TlsFiles) -> bool:
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
