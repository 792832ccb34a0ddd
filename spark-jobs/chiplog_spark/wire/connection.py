"""One connection to one broker, with a deadline for each request and its answer.

If a request or an answer is not complete in time, this raises `OSError` (`TimeoutError` is one);
the connection is closed then. `chiplog_wire.client` implements the protocol; this module has the
socket and the clock.
"""

import socket
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from types import TracebackType
from typing import Any, Final

from chiplog_spark.wire.access import Access, Address, Login
from chiplog_spark.wire.errors import NotAuthorized, ProtocolError, WireError
from chiplog_wire.client.connection import ClientConnection, decoded, encoded
from chiplog_wire.client.errors import NoCommonVersion, OpeningRefused
from chiplog_wire.client.opening import opening
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.scram import AuthenticationFailed, ScramClient, new_nonce, saslprep

MAX_ANSWER_BYTES: Final = 100 * 2**20
"""As Kafka's `socket.request.max.bytes`: more than one answer of ours ever asks for."""
# Topic ids, and a consumer's own replica id (KIP-903).
_FETCH_VERSIONS: Final = (15, 16)
_VERSIONS: Final[dict[ApiKey, tuple[int, int]]] = {
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.FETCH: _FETCH_VERSIONS,
    ApiKey.LIST_OFFSETS: (4, 7),
    ApiKey.METADATA: (10, 12),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (3, 4),
}


class Connection:
    """A connection to one broker, logged in if that is required."""

    def __init__(self, address: Address, access: Access) -> None:
        """Raises `OSError` and `WireError`."""
        self.address = address
        self._timeout_s = access.request_timeout_ms / 1000
        self._client = ClientConnection(access.client_id, MAX_ANSWER_BYTES)
        self._socket = socket.create_connection(address, self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._open(access.login)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def version(self, key: ApiKey) -> int:
        """The highest version that both support. Raises `ProtocolError`."""
        ours = _VERSIONS[key]
        try:
            return self._client.common_version(key, ours)
        except NoCommonVersion as none:
            raise self._too_old(none, ours[0]) from none

    def send_request(self, key: ApiKey, version: int, message: object) -> Any:
        """Send and receive kio's messages of that version. Raises `OSError` and `WireError`."""
        body = self.exchange(key, version, encoded(message))
        try:
            return decoded(key, version, body)
        except ProtocolViolation as violation:
            raise self._broken(violation) from violation

    def exchange(
        self, key: ApiKey, version: int, body: bytes, timeout_s: float | None = None
    ) -> memoryview:
        """Send a request, and return the body of its answer. Raises `OSError` and `WireError`."""
        deadline_s = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        pieces = self._client.send(key, version, [body])
        try:
            self._socket.settimeout(_left_s(deadline_s))
            self._socket.sendall(b"".join(pieces))
            return self._answer(deadline_s)
        except ProtocolViolation as violation:
            raise self._broken(violation) from violation
        except BaseException:
            # Otherwise a late answer would be used as the answer to the next request.
            self.close()
            raise

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    # -- inner workings

    def _answer(self, deadline_s: float) -> memoryview:
        """Raises `OSError` and `ProtocolViolation`."""
        while (answer := self._client.next_answer()) is None:
            self._socket.settimeout(_left_s(deadline_s))
            count = self._socket.recv_into(self._client.get_buffer())
            if not count:
                raise ConnectionResetError(f"{self} closed the connection")
            self._client.buffer_updated(count)
        return answer.body

    def _broken(self, why: Exception) -> WireError:
        self.close()
        return ProtocolError(
            f"{self} does not answer like a Kafka broker ({why})",
            "check that option bootstrap.servers names a listener of the cluster",
        )

    def _too_old(self, none: NoCommonVersion, lowest: int) -> ProtocolError:
        """The error if the broker supports no common version."""
        spoken = "none" if none.spoken is None else f"{none.spoken[0]} to {none.spoken[1]}"
        return ProtocolError(
            f"no common version of {APIS[none.key].name} with {self}: it speaks {spoken}",
            f"use brokers that speak at least version {lowest}",
        )

    def _open(self, login: Login | None) -> None:
        """Request the broker's versions, and log in if required. Raises `OSError` and
        `WireError`."""
        steps, answer = opening(self._client, scram_of(login) if login else None), None
        try:
            while True:
                answer = self.send_request(*steps.send(answer))
        except StopIteration:
            return
        except NoCommonVersion as none:
            raise self._too_old(none, APIS[none.key].min_served) from none
        except OpeningRefused as no:
            if login is None or no.key is ApiKey.API_VERSIONS:
                raise self._broken(no) from no
            raise refused(login, self._refusal(login, no)) from no
        except AuthenticationFailed as failed:
            assert login is not None, "nobody logs in"
            raise refused(login, f"{self}: {failed}") from failed

    def _refusal(self, login: Login, no: OpeningRefused) -> str:
        if no.key is ApiKey.SASL_HANDSHAKE:
            return f"{self} does not support {login.mechanism.value}: {no.code.name}"
        return f"{self} says {no.code.name}"


def scram_of(login: Login) -> Callable[[], ScramClient]:
    """Reads the password when it is needed. The result raises `NotAuthorized`."""

    def make() -> ScramClient:
        password = password_in(login)
        nonce = new_nonce(token_bytes)
        try:
            return ScramClient(login.mechanism, login.username, saslprep(password), nonce)
        except ValueError as error:
            raise refused(login, str(error)) from None

    return make


def password_in(login: Login) -> str:
    """The first line of the password file. Raises `NotAuthorized`; its message never contains the
    content."""
    try:
        text = Path(login.password_file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise refused(login, f"{login.password_file}: {why}") from None
    return text.partition("\n")[0].rstrip("\r")


def refused(login: Login, why: str) -> NotAuthorized:
    return NotAuthorized(
        f"login of user {login.username} failed ({why})",
        "check options sasl.username, sasl.password.file and sasl.mechanism",
    )


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s
