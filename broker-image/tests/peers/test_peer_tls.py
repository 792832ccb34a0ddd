"""Brokers that show each other certificates, over real sockets: who is let in, and what happens
while some of them use plain text still."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import uvloop

from chiplog_broker.metadata.listeners import INTERNAL_NAME, internal_listener
from chiplog_broker.metadata.view import BrokerView, ClusterView
from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.errors import PeerError, PeerLost, PeerUnreachable
from chiplog_broker.peers.spreading import Spreading
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.net import P, SystemNet
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.credentials import Keyring
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.security.tls import TlsFiles, client_context
from chiplog_broker.server import tls_accepting
from chiplog_broker.server.tls_sending import is_encrypted
from chiplog_core.ids import BrokerId
from chiplog_core.naming.peers import broker_host, is_broker, operator_host
from chiplog_wire.protocol.apis import ApiKey
from e2e.kafka.certificates import Authority, Issued
from tests.peers.test_dialer import FETCH_VERSION, NEW, Server, Source, fetch_body
from tests.peers.test_dialer import dialer as new_dialer

HOST = "127.0.0.1"
CLUSTER, NAMESPACE = "demo", "shop"
ONE, TWO = (broker_host(CLUSTER, NAMESPACE, BrokerId(number)) for number in (1, 2))
ANSWER_BYTES = 3_000_000
"""More than a transport with TLS holds."""


class Pki:
    """The cluster CA, and the files of two brokers. Broker 1 listens, broker 2 dials."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = Authority.create("cluster")
        self.one, self.two = self.settings("one", ONE), self.settings("two", TWO)

    def settings(self, name: str, host: str) -> TlsSettings:
        return self.written(name, self.ca.peer(host), self.ca)

    def written(self, name: str, issued: Issued, *trusted: Authority) -> TlsSettings:
        """Write the files of a broker, as a pod mounts them."""
        place = issued.write(self.directory / name)
        trusted[0].write(place, *trusted[1:])
        admitted = partial(is_broker, cluster=CLUSTER, namespace=NAMESPACE)
        return TlsSettings(place, place, ClientAuth.REQUIRED, is_admitted=admitted)


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    return Pki(tmp_path)


class Net(SystemNet):
    """Connects to `HOST`, whatever the name is; the name is checked nevertheless."""

    async def connect(
        self, protocol: P, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> P:
        _, connected = await asyncio.get_running_loop().create_connection(
            lambda: protocol, HOST, port, ssl=tls, server_hostname=host if tls else None
        )
        return connected


@asynccontextmanager
async def serving(
    settings: TlsSettings | None, has_plain_brokers: Callable[[], bool] = lambda: False
) -> AsyncIterator[tuple[Server, int]]:
    """Broker 1."""
    keyring = Keyring(Source(NEW), SystemRng())
    listener = internal_listener(HOST, keyring, tls=settings, host=HOST, port=0)
    server = Server(replace(listener, accepts_plain_text=has_plain_brokers))
    port = (await server.acceptor.bind()).port
    await server.acceptor.accept()
    try:
        yield server, port
    finally:
        await server.acceptor.close()


async def dial(
    settings: TlsSettings | None, port: int, host: str = ONE, *, has_tls: bool = True
) -> PeerConnection:
    files = None if settings is None else TlsFiles(settings, SystemClock(), client_context)
    dialing = new_dialer(NEW, tls=files)
    dialing._connect = Net().connect
    return await dialing.dial(host, port, 5, has_tls=has_tls)


async def fetched(connection: PeerConnection) -> None:
    """Fetch an answer that is larger than what is held at once."""
    body = fetch_body(7, ANSWER_BYTES)
    answer = await connection.exchange(ApiKey.FETCH, FETCH_VERSION, body, 10)
    assert bytes(answer).endswith(b"\x07" * ANSWER_BYTES)


def encrypted(server: Server) -> list[bool]:
    """Whether each connection uses TLS."""
    return [is_encrypted(one.transport) for one in server.acceptor._connections]


LOOPS = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(scenario: Callable[[], object], new_loop: NewLoop = uvloop.new_event_loop) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario()  # type: ignore[misc]

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(limited())


@LOOPS
def test_brokers_with_certificates_use_tls(pki: Pki, new_loop: NewLoop) -> None:
    async def scenario() -> None:
        async with serving(pki.one) as (server, port):
            connection = await dial(pki.two, port)
            await fetched(connection)
            assert encrypted(server) == [True]
            assert server.was_internal == [True]
            connection.close()

    run(scenario, new_loop)


def test_the_name_of_the_server_is_checked(pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(pki.settings("other", TWO)) as (_, port):
            with pytest.raises(PeerUnreachable, match="Hostname mismatch"):
                await dial(pki.two, port)

    run(scenario)


def test_a_server_of_another_ca_is_not_logged_in_to(pki: Pki) -> None:
    async def scenario() -> None:
        other = Authority.create("cluster")
        impostor = pki.written("impostor", other.peer(ONE), other, pki.ca)
        async with serving(impostor) as (server, port):
            with pytest.raises(PeerUnreachable, match="certificate verify failed"):
                await dial(pki.two, port)
            assert encrypted(server) == []

    run(scenario)


@pytest.mark.parametrize("who", ["another CA", "a user", "the operator", "another cluster"])
def test_only_brokers_of_the_cluster_are_let_in(pki: Pki, who: str) -> None:
    users = Authority.create("clients")
    shown = {
        "another CA": users.peer(TWO),
        "a user": pki.ca.client("shop"),
        "the operator": pki.ca.peer(operator_host(CLUSTER, NAMESPACE)),
        "another cluster": pki.ca.peer(broker_host(CLUSTER, "other", BrokerId(2))),
    }[who]
    settings = pki.written("stranger", shown, pki.ca)

    async def scenario() -> None:
        async with serving(pki.one) as (server, port):
            with pytest.raises(PeerLost):
                await dial(settings, port)
            assert encrypted(server) == []
            assert server.acceptor._quota._count == 0, "it does not count any more"
            connection = await dial(pki.two, port)
            await fetched(connection)
            connection.close()

    run(scenario)


def test_plain_text_and_a_client_without_a_certificate_are_refused(pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(pki.one) as (server, port):
            with pytest.raises(PeerError):
                await dial(pki.two, port, has_tls=False)
            with pytest.raises(PeerError):
                await dial(None, port)
            context = client_context(pki.two)
            context.load_verify_locations(cadata=pki.ca.pem.decode())
            connection = PeerConnection("broker-2")
            await Net().connect(connection, ONE, port, context)
            with pytest.raises(PeerLost):
                await connection.exchange(ApiKey.API_VERSIONS, 0, [], 10)
            assert encrypted(server) == []

    run(scenario)


@LOOPS
def test_while_a_broker_uses_plain_text_both_are_let_in(pki: Pki, new_loop: NewLoop) -> None:
    has_plain_brokers = True

    async def scenario() -> None:
        nonlocal has_plain_brokers
        async with serving(pki.one, lambda: has_plain_brokers) as (server, port):
            of_older = await dial(None, port, has_tls=True)
            of_newer = await dial(pki.two, port)
            await asyncio.gather(fetched(of_older), fetched(of_newer))
            assert encrypted(server) == [False, True]

            # The last one has rolled: nobody needs plain text.
            has_plain_brokers = False
            server.acceptor.sweep(SystemClock().monotonic_s())
            with pytest.raises(PeerLost):
                await of_older.exchange(ApiKey.FETCH, FETCH_VERSION, fetch_body(1, 1), 10)
            await fetched(of_newer)
            with pytest.raises(PeerError):
                await dial(None, port)

            # One goes back to an older version.
            has_plain_brokers = True
            of_older = await dial(None, port)
            await fetched(of_older)
            of_older.close()
            of_newer.close()

    run(scenario, new_loop)


def test_a_broker_that_has_ended_is_not_dialed_in_plain_text(pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(pki.one, lambda: True) as (server, port):
            dialing = new_dialer(NEW, tls=TlsFiles(pki.two, SystemClock(), client_context))
            dialing._connect = Net().connect
            view = ClusterView("cluster", 2)
            broker = BrokerView(1, None, {INTERNAL_NAME: (ONE, port)}, uses_tls=True)
            node = broker.on(INTERNAL_NAME)
            assert node is not None
            spreading = Spreading(view, dialing, SystemClock())
            with pytest.raises(PeerUnreachable, match="has ended"):
                await spreading._connections.to(node)
            assert encrypted(server) == []
            view.brokers[1] = broker
            await spreading._connections.to(node)
            assert encrypted(server) == [True]
            await spreading.close()

    run(scenario)


def test_a_broker_in_plain_text_is_dialed_so(pki: Pki) -> None:
    async def scenario() -> None:
        async with serving(None) as (server, port):
            connection = await dial(pki.two, port, has_tls=False)
            await fetched(connection)
            assert encrypted(server) == [False]
            connection.close()

    run(scenario)


def test_who_sends_nothing_is_not_waited_for(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_accepting, "HANDSHAKE_TIMEOUT_S", 0.2)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        async with serving(pki.one, lambda: True) as (server, port):
            silent = [socket.create_connection((HOST, port)) for _ in range(2)]
            gone = socket.create_connection((HOST, port))
            gone.close()
            for one in silent:
                one.setblocking(False)
                assert await loop.sock_recv(one, 1) == b"", "it is closed"
                one.close()
            door = server.acceptor._door
            assert door is not None
            while door._tasks:
                await asyncio.wait(door._tasks)
            assert server.acceptor._quota._count == 0

    run(scenario)


def test_both_ends_follow_their_files(pki: Pki) -> None:
    """The CA is replaced in steps, while an old connection stays open."""
    new = Authority.create("cluster")

    async def scenario() -> None:
        async with serving(pki.one) as (server, port):
            files = TlsFiles(pki.two, SystemClock(), client_context)
            dialing = new_dialer(NEW, tls=files)
            dialing._connect = Net().connect

            async def works() -> None:
                connection = await dialing.dial(ONE, port, 5, has_tls=True)
                await fetched(connection)
                connection.close()

            def replace_files(issuer: Authority, *trusted: Authority) -> None:
                for name, host in (("one", ONE), ("two", TWO)):
                    pki.written(name, issuer.peer(host), *trusted)
                server_files = server.acceptor.tls_files
                assert server_files is not None
                for one in (files, server_files):
                    one._read_s -= 2.0

            first = await dialing.dial(ONE, port, 5, has_tls=True)
            for issuer, trusted in (
                (pki.ca, (pki.ca, new)),
                (new, (new, pki.ca)),
                (new, (new,)),
            ):
                replace_files(issuer, *trusted)
                await works()
            await fetched(first)
            first.close()
            old = pki.written("old", pki.ca.peer(TWO), new)
            with pytest.raises(PeerLost):
                await dial(old, port)

    run(scenario)
