"""A client that makes TLS itself answer without end, and receives nothing."""

import asyncio
import ctypes
import socket
import ssl
from typing import TYPE_CHECKING

import pytest

from tests.server.tls_kit import Pki, serving, until

if TYPE_CHECKING:
    from tests.conftest import Kit

LIBRARY = "libssl.so.3"
UPDATE_REQUESTED = 1
AT_ONCE = 2_000
SSL_OFFSET = 24
"""Where CPython's object of a connection has OpenSSL's: behind its head and one reference."""


@pytest.fixture
def openssl() -> ctypes.CDLL:
    """The library that Python uses, as `ssl` has no function that updates keys."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        pytest.skip(f"there is no {LIBRARY}")
    library.SSL_key_update.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.SSL_do_handshake.argtypes = [ctypes.c_void_p]
    return library


def test_updates_of_keys_do_not_fill_the_memory(kit: "Kit", pki: Pki, openssl: ctypes.CDLL) -> None:
    async def scenario() -> None:
        async with serving(kit, pki.settings()) as acceptor:
            address, context = kit.broker.addresses["tls"], pki.context()
            flood = asyncio.create_task(asyncio.to_thread(_flood, openssl, address, context))
            await until(lambda: acceptor._connections)
            (connection,) = acceptor._connections
            accepted = connection.transport.get_extra_info("socket")
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)

            def is_closed() -> bool:
                acceptor.sweep(0.0)
                return not acceptor._connections

            await until(is_closed, 50)
            await asyncio.wait_for(flood, 10)

    kit.run(scenario)


def _flood(openssl: ctypes.CDLL, address: tuple[str, int], context: ssl.SSLContext) -> None:
    """Ask for new keys and never read, until the broker closes the connection."""
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        plain.settimeout(10)
        plain.connect(address)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(incoming, outgoing, server_hostname=address[0])
        for _ in range(100):
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65_536))
        inner = id(client._sslobj) + SSL_OFFSET  # type: ignore[attr-defined]
        pointer = ctypes.c_void_p.from_address(inner)
        for _ in range(500):
            for _ in range(AT_ONCE):
                assert openssl.SSL_key_update(pointer, UPDATE_REQUESTED) == 1
                assert openssl.SSL_do_handshake(pointer) == 1
            try:
                plain.sendall(outgoing.read())
            except OSError:
                return
        raise AssertionError("the broker takes all of it")
