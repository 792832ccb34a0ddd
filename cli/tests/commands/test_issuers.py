"""Issuers that answer wrongly, slowly or without end, and files that are none."""

import os
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, repeat
from pathlib import Path

import pytest

from chiplog_cli.errors import CannotDo
from chiplog_cli.librdkafka import connecting
from chiplog_cli.security import Security, TokenEndpoint, TokenFile, TokenLogin
from chiplog_cli.tokens import current_token

LOOPBACK = "127.0.0.1"
SECRET = "not-to-be-seen"  # noqa: S105 - of a test
PAUSE_S = 0.05
PIECES = 200
"""How often an issuer that answers in pieces sends one: ten seconds."""


@contextmanager
def answering(pieces: Iterable[bytes]) -> Iterator[str]:
    """The URL of an issuer that answers its only request with these pieces, one after the other."""
    is_over = threading.Event()
    with socket.create_server((LOOPBACK, 0)) as listening:

        def run() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(64 * 1024)
                for piece in pieces:
                    if is_over.wait(PAUSE_S):
                        return
                    try:
                        client.sendall(piece)
                    except OSError:
                        return

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{listening.getsockname()[1]}/token"
        finally:
            is_over.set()
            thread.join()


def refusal(url: str, timeout_s: float = 20) -> CannotDo:
    source = TokenEndpoint(url=url, client_id="app", client_secret=SECRET)
    with pytest.raises(CannotDo) as refused:
        current_token(TokenLogin(source=source), timeout_s)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(source)
    return refused.value


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nX: ", b"x", id="header"),
        pytest.param(b"", b"HTTP/1.1 100 Continue\r\n\r\n", id="continue"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b" ", id="body"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", id="chunks"
        ),
    ],
)
def test_an_answer_in_pieces_ends_in_time(beginning: bytes, piece: bytes) -> None:
    """Each piece comes in time, but not the whole."""
    with answering(chain([beginning], repeat(piece, PIECES))) as url:
        assert refusal(url, timeout_s=1).message.endswith(": no answer in time")


def response(status: str, body: bytes = b"{}") -> list[bytes]:
    return [b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n" % (status.encode(), len(body)), body]


@pytest.mark.parametrize(
    ("status", "body", "what", "remedy"),
    [
        ("401 Unauthorized", b'{"error": "invalid_client"}', "401 invalid_client", "client id"),
        ("404 Not Found", b"", "the answer is 404", "check the URL"),
        ("302 Found", b"", "the answer is 302", "redirections are not followed"),
        ("503 Unavailable", b"", "the answer is 503", "try again later"),
        ("200 OK", b'{"access_token": "opaque"}', "no signed token", "signed tokens"),
        ("200 OK", b'{"access_token": "e30.eyJleHAiOjF9.c"}', "has expired", "the right time"),
        ("200 OK", b" " * 70_000 + b"{}", "longer than 64 KiB", "check the URL"),
    ],
)
def test_the_remedy_fits_the_answer(status: str, body: bytes, what: str, remedy: str) -> None:
    with answering(response(status, body)) as url:
        refused = refusal(url)
    assert what in refused.message
    assert remedy in refused.remedy


def test_an_issuer_has_the_whole_time_however_many_brokers_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connecting, "OTHERS_WAIT_S", 10 * PAUSE_S)
    valid = b'{"access_token": "e30.eyJleHAiOjk5OTk5OTk5OTl9.c"}'  # until 2286
    nobody = f"{LOOPBACK}:1,{LOOPBACK}:2"
    with answering(chain(repeat(b"", 30), response("200 OK", valid))) as url:
        login = TokenLogin(source=TokenEndpoint(url=url, client_id="app", client_secret=SECRET))
        with pytest.raises(CannotDo, match="no broker can be reached"):
            connecting.connect(nobody, "--bootstrap-server", 20, Security(login=login))


def test_what_is_not_shown() -> None:
    """A query may have a secret, and so may what is not the code of an error."""
    with answering(response("400 Bad", f'{{"error": "{SECRET}"}}'.encode())) as url:
        refused = refusal(f"{url}?key={SECRET}")
    assert refused.message.endswith(f"{url}: the answer is 400")


def test_a_pipe_is_no_file_with_a_token(tmp_path: Path) -> None:
    """To open one waits for somebody who writes."""
    os.mkfifo(pipe := tmp_path / "token")
    with pytest.raises(CannotDo, match="it is a pipe, which can be read only once"):
        current_token(TokenLogin(source=TokenFile(str(pipe))), timeout_s=1)


def test_a_file_that_is_too_long(tmp_path: Path) -> None:
    (file := tmp_path / "token").write_text("e30.e30." + "e" * 70_000)
    with pytest.raises(CannotDo, match="it is longer than 64 KiB"):
        current_token(TokenLogin(source=TokenFile(str(file))), timeout_s=1)
