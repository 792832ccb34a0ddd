"""Whoever is at an address: it is heard for a bounded time, and what it says takes bounded room."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chiplog_spark.wire.access import Access, Address, Login
from chiplog_spark.wire.client import Client
from chiplog_spark.wire.connection import MAX_ANSWER_BYTES, Connection
from chiplog_spark.wire.errors import NotAuthorized, ProtocolError, Unreachable

Talk = Callable[[socket.socket], None]
NO_APIS = bytes.fromhex("0000 00000000")
"""An ApiVersions 0 answer of a broker that serves nothing."""


@contextmanager
def server(talk: Talk) -> Iterator[Address]:
    """Does this with everybody who comes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    talk(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(20)


def access(*addresses: Address, timeout_ms: int = 20_000, login: Login | None = None) -> Access:
    return Access(addresses, login, request_timeout_ms=timeout_ms, patience_ms=1)


def answering(body: bytes, correlation_id: int | None = None) -> Talk:
    """One answer, to the request that came."""

    def talk(peer: socket.socket) -> None:
        request = peer.recv(4096)
        number = request[8:12] if correlation_id is None else correlation_id.to_bytes(4, "big")
        peer.sendall((len(body) + 4).to_bytes(4, "big") + number + body)

    return talk


@pytest.mark.parametrize(
    "talk",
    [
        lambda peer: peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        lambda peer: peer.sendall((MAX_ANSWER_BYTES + 1).to_bytes(4, "big")),
        lambda peer: peer.sendall(bytes(4)),
        lambda peer: peer.sendall(b"\xff\xff\xff\xff"),
        answering(NO_APIS, correlation_id=77),
        answering(b"\x00"),
        answering(bytes.fromhex("0000 7fffffff")),
        answering(bytes.fromhex("0023 00000000")),
    ],
)
def test_a_client_that_poses_as_a_broker_gets_an_error(talk: Talk) -> None:
    with server(talk) as address, pytest.raises(ProtocolError, match=r"bootstrap\.servers"):
        Connection(address, access(address))


def test_an_inquiry_for_an_earlier_process_is_refused() -> None:
    with (
        server(answering(NO_APIS)) as address,
        Client(access(address)) as client,
        pytest.raises(ProtocolError, match="no common version of Metadata with 127"),
    ):
        client.topic("orders")


@pytest.mark.parametrize(
    "talk",
    [
        lambda peer: peer.recv(4096) and None,
        # It says that much comes, and then it is silent, and then it goes.
        lambda peer: (peer.sendall((MAX_ANSWER_BYTES).to_bytes(4, "big") + b"x"), peer.recv(1)),
    ],
)
def test_a_peer_that_disconnects_is_unreachable(talk: Talk) -> None:
    with (
        server(talk) as address,
        Client(access(address)) as client,
        pytest.raises(Unreachable, match="no broker answers at 127"),
    ):
        client.topic("orders")


def test_a_silent_peer_is_waited_for_no_longer_than_the_timeout() -> None:
    done = threading.Event()
    with server(lambda _: (done.wait(20), None)[1]) as address:
        with (
            Client(access(address, timeout_ms=50)) as client,
            pytest.raises(Unreachable, match=r"in time|timed out"),
        ):
            client.topic("orders")
        done.set()


def test_every_address_is_tried() -> None:
    with server(answering(NO_APIS)) as address:
        nobody = ("127.0.0.1", 1)
        with Client(access(nobody, address)) as client, pytest.raises(ProtocolError):
            client.topic("orders")
        with Client(access(nobody)) as client, pytest.raises(Unreachable, match=r"127\.0\.0\.1:1 "):
            client.topic("orders")


def test_a_password_that_is_not_there_is_missed_by_its_path_and_user(tmp_path: Path) -> None:
    login = Login("ada", str(tmp_path / "password"))
    with server(answering(NO_APIS)) as address:
        with pytest.raises(
            NotAuthorized, match=r"user ada .*/password: No such file.*password\.file"
        ):
            Connection(address, access(address, login=login))
        (tmp_path / "password").write_bytes(b"\xff\xfe")
        with pytest.raises(NotAuthorized, match="it is not text"):
            Connection(address, access(address, login=login))
        (tmp_path / "password").write_text("\n")
        with pytest.raises(NotAuthorized, match="printable ASCII"):
            Connection(address, access(address, login=login))
        (tmp_path / "password").write_text("secret-word\n")
        with pytest.raises((NotAuthorized, ProtocolError, OSError)) as refused:
            Connection(address, access(address, login=login))
        assert "secret-word" not in str(refused.value)
