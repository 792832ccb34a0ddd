"""A POST request whose answer has an end: in time, and in size."""

import io
import socket
import ssl
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_ANSWER_BYTES: Final = 64 * 1024


def post(
    to: SplitResult,
    body: bytes,
    headers: dict[str, str],
    tls: ssl.SSLContext | None,
    timeout_s: float,
) -> tuple[int, bytes]:
    """The status and the body of the answer of a web server. Redirections are not followed: they
    would send the headers elsewhere. Raises `OSError`, which is a `TimeoutError` if the whole
    answer is not there in time, and `ValueError` if it is none or longer than `MAX_ANSWER_BYTES`.
    """
    assert to.hostname is not None, "the configuration was checked"
    ends_s = time.monotonic() + timeout_s
    connection = (
        HTTPConnection(to.hostname, to.port, timeout=timeout_s)
        if tls is None
        else HTTPSConnection(to.hostname, to.port, timeout=timeout_s, context=tls)
    )
    target = (to.path or "/") + (f"?{to.query}" if to.query else "")
    try:
        connection.request("POST", target, body, headers)
        with _Answer(connection.sock, ends_s) as answer:
            answer.begin()
            found = answer.read(MAX_ANSWER_BYTES + 1)
    except HTTPException:
        raise ValueError("it does not answer as a web server does") from None
    finally:
        connection.close()
    if len(found) > MAX_ANSWER_BYTES:
        raise ValueError(f"the answer is longer than {MAX_ANSWER_BYTES // 1024} KiB")
    return answer.status, found


class _Answer(HTTPResponse):
    """The answer to a POST. Raises `TimeoutError` after `ends_s`, which is a monotonic time:
    Python's own limits only each wait for the next bytes."""

    def __init__(self, connected: socket.socket, ends_s: float) -> None:
        super().__init__(connected, method="POST")
        self.fp.close()
        self.fp = io.BufferedReader(_UntilEnd(connected, ends_s))


class _UntilEnd(io.RawIOBase):
    """What is read from a socket until a time."""

    def __init__(self, connected: socket.socket, ends_s: float) -> None:
        self._socket = connected
        self._ends_s = ends_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        left_s = self._ends_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._socket.settimeout(left_s)
        return self._socket.recv_into(buffer)
