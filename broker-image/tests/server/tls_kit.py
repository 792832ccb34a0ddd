"""A broker with a listener that uses TLS, its certificates, and clients of it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.security.tls import TlsFiles
from chiplog_broker.server.listening import Acceptor
from chiplog_wire.protocol.errors import ErrorCode
from e2e.kafka.certificates import Authority, Issued
from tests.conftest import Client

if TYPE_CHECKING:
    from tests.conftest import Kit

OK = ErrorCode.none
Run = Callable[[Callable[[], Any]], None]
"""Runs a scenario."""


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


async def until(condition: Callable[[], Any], seconds: float = 20) -> None:
    """Return when the condition holds."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.02)


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
        found = secured.session, bool(secured.session_reused)
        # OpenSSL forgets the session of a connection that ends without notice of it.
        with suppress(OSError):
            secured.unwrap()
        return found


def client_hello(context: ssl.SSLContext) -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def resume(client: Client) -> None:
    """Let a deaf client read."""
    transport: Any = client.writer.transport
    transport.resume_reading()


async def deaf_client(kit: "Kit", pki: Pki) -> Client:
    """A client that reads nothing until its transport resumes reading."""
    client = await connect(kit, pki.context())
    transport: Any = client.writer.transport
    transport.pause_reading()
    return client
