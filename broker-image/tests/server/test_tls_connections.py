"""Listeners with TLS: a real broker, real sockets, certificates made here."""

import asyncio
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.security.tls import TlsFiles
from chiplog_broker.server import tls_accepting
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.tls_sending import HIDDEN_BYTES, PIECE_BYTES
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from e2e.kafka.certificates import Authority, Issued
from tests.conftest import Client
from tests.server.exposition_kit import told

if TYPE_CHECKING:
    from tests.conftest import Kit

OK = ErrorCode.none
MEGABYTE = b"x" * 1_000_000


class Pki:
    """The CAs of a test, and the files of its broker."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.servers, self.clients = Authority.create("servers"), Authority.create("clients")
        self.keystore = self.servers.server().write(directory / "server")
        self.truststore = self.clients.write(directory / "clients")

    def settings(self, client_auth: ClientAuth = ClientAuth.NONE, **more: Any) -> TlsSettings:
        trusted = None if client_auth is ClientAuth.NONE else self.truststore
        return TlsSettings(self.keystore, trusted, client_auth, **more)

    def context(self, identity: Issued | None = None) -> ssl.SSLContext:
        """That of a client that trusts the servers' CA."""
        context = ssl.create_default_context(cadata=self.servers.pem.decode())
        if identity is not None:
            file = self.directory / "client.pem"
            file.write_bytes(identity.both)
            context.load_cert_chain(file)
        return context


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path / "pki")


@asynccontextmanager
async def serving(kit: "Kit", settings: TlsSettings, **config: str) -> AsyncIterator[Acceptor]:
    """A broker with the listeners `plain` and `tls`; yields the acceptor of the latter."""
    broker = kit.new_broker(
        {key.replace("_", "."): value for key, value in config.items()},
        listeners=[
            Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0),
            Listener("tls", "127.0.0.1", 0, "127.0.0.1", 0, tls=settings),
        ],
    )
    await broker.start()
    try:
        yield broker.acceptors[1]
    finally:
        kit.close_clients()
        await broker.stop()


async def connect(kit: "Kit", context: ssl.SSLContext) -> Client:
    host, port = kit.broker.addresses["tls"]
    client = Client(*await asyncio.open_connection(host, port, ssl=context))
    kit._clients.append(client)
    return client


def only_peer(acceptor: Acceptor) -> Any:
    (connection,) = acceptor._connections
    return connection.peer


def files_of(acceptor: Acceptor) -> TlsFiles:
    assert acceptor.tls_files is not None
    return acceptor.tls_files


@pytest.fixture(params=["uvloop", "asyncio"])
def run(request: pytest.FixtureRequest, kit: "Kit") -> Callable[[Callable[[], Any]], None]:
    """Runs a scenario on the production loop, or on plain asyncio."""
    if request.param == "uvloop":
        return kit.run

    def on_asyncio(scenario: Callable[[], Any]) -> None:
        async def limited() -> None:
            async with asyncio.timeout(60):
                await scenario()

        asyncio.run(limited())

    return on_asyncio


Run = Callable[[Callable[[], Any]], None]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_records_are_produced_and_fetched(
    kit: "Kit", pki: Pki, run: Run, version: ssl.TLSVersion
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            context = pki.context()
            context.minimum_version = context.maximum_version = version
            client = await connect(kit, context)
            await client.metadata()
            assert only_peer(acceptor).principal == "User:ANONYMOUS"
            await client.create("orders")
            value = kit.batch(os.urandom(900_000))
            for _ in range(5):
                (done,) = await client.produce("orders", value)
                assert done.error_code == OK
            topic_id = await client.topic_id("orders")
            ((code, records),) = await client.fetch(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            assert code == OK
            assert records.count(value[21:1000]) == 5
            assert len(records) == 5 * len(value)
            (node,) = (await client.metadata()).brokers
            assert (node.host, node.port) == kit.broker.addresses["tls"]
            name, protocol, _ = client.writer.get_extra_info("cipher")
            assert "GCM" in name or "CHACHA20" in name, (name, protocol)

    run(scenario)


def test_a_client_is_the_subject_of_its_certificate(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            client = await connect(kit, pki.context(pki.clients.client("orders, inc")))
            await client.metadata()
            assert only_peer(acceptor).principal == "User:CN=orders\\, inc"

    run(scenario)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_without_the_right_certificate_is_refused(
    kit: "Kit", pki: Pki, run: Run, version: ssl.TLSVersion, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            address = kit.broker.addresses["tls"]
            for identity in (None, pki.servers.client("another"), pki.clients.server()):
                context = pki.context(identity)
                context.minimum_version = context.maximum_version = version
                with pytest.raises(ssl.SSLError, match="ALERT"):
                    await asyncio.to_thread(shake_hands, address, context, None)
            await until(lambda: kit.broker.requests.failed_handshakes_total == 3)
            assert not acceptor._connections
            assert acceptor._quota._count == 0

    run(scenario)
    (first, *_) = [one for one in caplog.records if one.message == "tls_handshake_failed"]
    assert first.reason == "peer did not return a certificate"  # type: ignore[attr-defined]
    assert not [one for one in caplog.records if one.exc_info]


def test_a_certificate_may_be_missing_where_it_is_only_requested(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUESTED)) as acceptor:
            client = await connect(kit, pki.context())
            await client.metadata()
            assert only_peer(acceptor).principal == "User:ANONYMOUS"
            await (await connect(kit, pki.context(pki.clients.client("x")))).metadata()
            principals = {one.peer.principal for one in acceptor._connections}
            assert principals == {"User:ANONYMOUS", "User:CN=x"}
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await (await connect(kit, pki.context(pki.servers.client("forged")))).metadata()

    kit.run(scenario)


def test_old_versions_and_other_ciphers_are_refused(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            old = pki.context()
            with pytest.warns(DeprecationWarning, match="TLSv1"):
                old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            cbc = pki.context()
            cbc.maximum_version = ssl.TLSVersion.TLSv1_2
            cbc.set_ciphers("ECDHE-ECDSA-AES256-SHA384:ECDHE-ECDSA-AES128-SHA")
            for context, alert in ((old, "PROTOCOL_VERSION"), (cbc, "HANDSHAKE_FAILURE")):
                with pytest.raises(ssl.SSLError, match=f"ALERT_{alert}"):
                    await connect(kit, context)
            wrong_ca = ssl.create_default_context(cadata=pki.clients.pem.decode())
            with pytest.raises(ssl.SSLCertVerificationError):
                await connect(kit, wrong_ca)
            await until(lambda: kit.broker.requests.failed_handshakes_total == 3)

    kit.run(scenario)


def test_a_version_that_is_not_enabled_is_refused(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(protocols=("TLSv1.3",))):
            await connect(kit, pki.context())
            old = pki.context()
            old.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError, match="ALERT_PROTOCOL_VERSION"):
                await connect(kit, old)

    kit.run(scenario)


async def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    """Return when the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.02)


# -- other files


def test_a_new_certificate_is_served_and_connections_stay(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            old_identity = pki.clients.client("old")
            old = await connect(kit, pki.context(old_identity))
            await old.create("orders")
            before = files_of(acceptor).current().fingerprint
            old_clients, pki.clients = pki.clients, Authority.create("clients")
            pki.clients.write(pki.truststore, old_clients)
            pki.servers.server().write(pki.keystore)
            await until(lambda: files_of(acceptor).current().fingerprint != before)
            new = await connect(kit, pki.context(pki.clients.client("new")))
            await new.metadata()
            assert served(new) != served(old)
            # The old CA is still trusted, until it is removed.
            await (await connect(kit, pki.context(old_identity))).metadata()
            pki.clients.write(pki.truststore)
            await until(lambda: len(files_of(acceptor).current().trusted) == 1)
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await (await connect(kit, pki.context(old_identity))).metadata()
            (done,) = await old.produce("orders", kit.batch(b"x"))
            assert done.error_code == OK

    run(scenario)


def served(client: Client) -> bytes:
    certificate = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert isinstance(certificate, bytes)
    return certificate


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_saved_session_does_not_outlive_its_ca(
    kit: "Kit", pki: Pki, version: ssl.TLSVersion
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(ClientAuth.REQUIRED)) as acceptor:
            context = pki.context(pki.clients.client("old"))
            context.minimum_version = context.maximum_version = version
            address = kit.broker.addresses["tls"]
            session, reused = await asyncio.to_thread(shake_hands, address, context, None)
            assert not reused
            assert session is None or not session.has_ticket
            Authority.create("clients").write(pki.truststore)
            before = files_of(acceptor).current().trusted
            await until(lambda: files_of(acceptor).current().trusted != before)
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(shake_hands, address, context, session)

    kit.run(scenario)


def shake_hands(
    address: tuple[str, int], context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession | None, bool]:
    """Connect and ask for the API versions; returns the session, and whether it was resumed."""
    with (
        socket.create_connection(address, timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=address[0], session=session) as secured,
    ):
        secured.sendall(bytes.fromhex("0000000a 0012 0000 00000001 ffff"))
        if not secured.recv(4):
            raise ConnectionError("the end of the stream")
        return secured.session, bool(secured.session_reused)


# -- clients that do not complete a handshake


def test_what_is_no_handshake_costs_others_nothing(
    kit: "Kit",
    pki: Pki,
    run: Run,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_accepting, "HANDSHAKE_TIMEOUT_S", 2.0)

    async def scenario() -> None:
        async with serving(kit, pki.settings(), max_connections="80") as acceptor:
            address = kit.broker.addresses["tls"]
            hello = client_hello(pki.context())
            flood = []
            for number in range(120):
                _, writer = await asyncio.open_connection(*address)
                writer.write((b"GET / HTTP/1.1\r\n\r\n", b"", hello[: len(hello) // 2])[number % 3])
                flood.append(writer)
                if number % 20 == 0:
                    await (await connect(kit, pki.context())).metadata()
            await until(lambda: len(acceptor._connections) == 6)
            door = acceptor._door
            assert door is not None
            assert len(door._handshakes) <= 20
            assert acceptor._quota._count == 6 + len(door._handshakes)
            await until(lambda: not door._handshakes)
            assert acceptor._quota._count == 6
            requests = kit.broker.requests
            assert requests.failed_handshakes_total == 120
            assert requests.refused_total == 0
            samples = await told(kit.broker)
            assert samples["chiplog_broker_tls_handshakes_failed_total",] == 120
            for writer in flood:
                writer.close()

    run(scenario)
    assert 0 < sum(one.message == "tls_handshake_failed" for one in caplog.records) < 12
    assert not [one for one in caplog.records if one.exc_info]


def client_hello(context: ssl.SSLContext) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def test_connections_are_bounded_before_their_handshakes(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings(), max_connections_per_ip="2") as acceptor:
            clients = [await connect(kit, pki.context()) for _ in range(2)]
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await connect(kit, pki.context())
            requests = kit.broker.requests
            assert (requests.refused_total, requests.failed_handshakes_total) == (1, 0)
            clients[0].writer.close()
            await until(lambda: acceptor._quota._count == 1)
            await (await connect(kit, pki.context())).metadata()

    kit.run(scenario)


def test_the_expiry_of_what_is_served_is_a_metric(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            samples = await told(kit.broker)
            found = samples["chiplog_broker_certificate_expiry_timestamp_seconds", "tls"]
            assert found == files_of(acceptor).current().not_after_s

    kit.run(scenario)


# -- answers


def test_readers_that_read_nothing_hold_little_memory(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            client = await connect(kit, pki.context())
            await client.create("orders")
            value = kit.batch(os.urandom(950_000))
            for _ in range(40):
                await client.produce("orders", value)
            topic_id = await client.topic_id("orders")
            deaf = [await raw_client(kit, pki) for _ in range(20)]
            request = client.fetch_request(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            resident_before = resident_bytes()
            for one in deaf:
                await one.send(ApiKey.FETCH, request)
                await one.send(ApiKey.FETCH, request)
            await until(lambda: kit.broker.requests.unsent_bytes > 20 * HIDDEN_BYTES)
            await asyncio.sleep(0.5)
            each = kit.broker.requests.unsent_bytes / 20
            assert HIDDEN_BYTES < each < PIECE_BYTES + HIDDEN_BYTES + 16 * 1024
            # Both ends of each connection are in this process.
            assert resident_bytes() - resident_before < 20 * 2 * 2**20
            ((code, records),) = await client.fetch(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            assert (code, len(records)) == (OK, 40 * len(value))
            # One that begins to read gets everything, in the right order.
            resume(deaf[0])
            for _ in range(2):
                answer = await deaf[0].receive()
                ((partition,),) = [one.partitions for one in answer.responses]
                assert bytes(partition.records) == records
            for one in deaf:
                one.writer.transport.abort()
            await until(lambda: len(acceptor._connections) == 1)
            assert kit.broker.requests.unsent_bytes == 0

    run(scenario)


def resume(client: Client) -> None:
    """Let a deaf client read."""
    transport: Any = client.writer.transport
    transport.resume_reading()


async def raw_client(kit: "Kit", pki: Pki) -> Client:
    """A client that reads nothing until its transport resumes reading."""
    client = await connect(kit, pki.context())
    transport: Any = client.writer.transport
    transport.pause_reading()
    return client


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as status:  # noqa: PTH123
        return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_stopping_broker_ends_the_answers_that_it_has_begun(
    kit: "Kit", pki: Pki, run: Run
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            client = await connect(kit, pki.context())
            await client.create("orders")
            value = kit.batch(os.urandom(950_000))
            for _ in range(10):
                await client.produce("orders", value)
            topic_id = await client.topic_id("orders")
            reader = await raw_client(kit, pki)
            request = client.fetch_request(
                topic_id, (0, 0), max_bytes=2**26, partition_max_bytes=2**26
            )
            await reader.send(ApiKey.FETCH, request)
            await until(lambda: kit.broker.requests.unsent_bytes)
            stopping = asyncio.create_task(kit.broker.stop())
            await asyncio.sleep(0.1)
            resume(reader)
            ((partition,),) = [one.partitions for one in (await reader.receive()).responses]
            assert len(partition.records) == 10 * len(value)
            assert await reader.is_closed()
            client.writer.close()
            await stopping

    run(scenario)


async def waiting_answer(kit: "Kit", pki: Pki) -> tuple[Client, Client, bytes]:
    """A client, one that waits for the rest of an answer from files, and the records in it."""
    client = await connect(kit, pki.context())
    await client.create("orders")
    value = kit.batch(os.urandom(950_000))
    for _ in range(10):
        await client.produce("orders", value)
    topic_id = await client.topic_id("orders")
    whole: dict[str, Any] = {"max_bytes": 2**26, "partition_max_bytes": 2**26}
    ((_, records),) = await client.fetch(topic_id, (0, 0), **whole)
    assert len(records) == 10 * len(value)
    reader = await raw_client(kit, pki)
    await reader.send(ApiKey.FETCH, client.fetch_request(topic_id, (0, 0), **whole))
    await until(lambda: kit.broker.requests.unsent_bytes)
    return client, reader, records


def test_an_answer_outlives_its_files(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            client, reader, records = await waiting_answer(kit, pki)
            assert await client.delete("orders") == OK
            resume(reader)
            ((partition,),) = [one.partitions for one in (await reader.receive()).responses]
            assert bytes(partition.records) == records

    run(scenario)


def test_an_answer_that_cannot_be_read_any_more_ends_its_connection(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            _, reader, _ = await waiting_answer(kit, pki)
            (segment,) = kit.directory.glob("data/orders-0/*.log")
            os.truncate(segment, 3_000_000)
            resume(reader)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.receive()
            await until(lambda: len(acceptor._connections) == 1)
            assert kit.broker.requests.unsent_bytes == 0

    kit.run(scenario)


def test_answers_stay_in_order_behind_one_that_waits(kit: "Kit", pki: Pki, run: Run) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            client, reader, records = await waiting_answer(kit, pki)
            batch = kit.batch(b"x")
            for _ in range(3):
                await reader.send(ApiKey.PRODUCE, client.produce_request("orders", batch))
            resume(reader)
            ((partition,),) = [one.partitions for one in (await reader.receive()).responses]
            assert bytes(partition.records) == records
            offsets = []
            for _ in range(3):
                ((one,),) = [t.partition_responses for t in (await reader.receive()).responses]
                offsets.append(one.base_offset)
            assert offsets == [10, 11, 12]

    run(scenario)


def test_a_broker_out_of_descriptors_accepts_when_it_has_some(
    kit: "Kit", pki: Pki, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            with socket.socket() as client:
                client.setblocking(False)
                taken = [os.dup(0)]
                # The lowest free number is taken each time, so in the end none is free below.
                while taken[-1] <= client.fileno() or len(taken) < 100:
                    taken.append(os.dup(0))
                resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1, hard))
                try:
                    loop = asyncio.get_running_loop()
                    await loop.sock_connect(client, kit.broker.addresses["tls"])
                    await until(lambda: "not_accepted" in caplog.messages)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                    for descriptor in taken:
                        os.close(descriptor)
                await (await connect(kit, pki.context())).metadata()

    run(scenario)
    assert caplog.messages.count("not_accepted") < 5


def test_descriptors_are_kept_for_files_before_the_handshake(kit: "Kit", pki: Pki) -> None:
    async def scenario() -> None:
        metrics = RequestMetrics()
        listener = Listener("tls", "127.0.0.1", 0, "127.0.0.1", 0, tls=pki.settings())
        acceptor = Acceptor(
            listener,
            Dispatcher({}, metrics),
            ConnectionQuota(ConnectionLimits(9, 9, 2**20, 600.0, descriptors_below=1)),
            SystemClock(),
            metrics,
        )
        bound = await acceptor.bind()
        await acceptor.accept()
        reader, writer = await asyncio.open_connection("127.0.0.1", bound.port)
        assert await reader.read() == b""
        assert (metrics.refused_total, metrics.failed_handshakes_total) == (1, 0)
        writer.close()
        await acceptor.close()

    kit.run(scenario)


def test_a_client_that_leaves_within_its_handshake_is_forgotten(
    kit: "Kit", pki: Pki, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            hello = client_hello(pki.context())
            for sent in (b"", hello[:100], hello, b"x" * 100_000):
                _, writer = await asyncio.open_connection(*kit.broker.addresses["tls"])
                writer.write(sent)
                await asyncio.sleep(0.05)
                writer.transport.abort()
            await until(lambda: kit.broker.requests.failed_handshakes_total == 4)
            await until(lambda: acceptor._quota._count == 0)

    run(scenario)
    assert not [one for one in caplog.records if one.exc_info]
