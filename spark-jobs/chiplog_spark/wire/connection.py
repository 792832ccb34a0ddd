"""One connection to one broker, with a deadline for each request and its answer.

If a request or an answer is not complete in time, this raises `OSError` (`TimeoutError` is one);
the connection is closed then. `chiplog_wire.client` implements the protocol; this module has the
socket and the clock.
"""

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from secrets import token_bytes
from types import TracebackType
from typing import Any, Final

from chiplog_spark.wire.access import Access, Address, Login, Tls
from chiplog_spark.wire.errors import NotAuthorized, ProtocolError, WireError
from chiplog_wire.client.connection import ClientConnection, decoded, encoded
from chiplog_wire.client.errors import NoCommonVersion, OpeningRefused
from chiplog_wire.client.opening import opening
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.scram import AuthenticationFailed, ScramClient, new_nonce, saslprep

MAX_ANSWER_BYTES: Final = 100 * 2**20
"""The same as Kafka's `socket.request.max.bytes`; requests of this client never ask for as much."""
# Version 13 and higher have topic ids; 15 moves the replica id to a field of its own (KIP-903).
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
        """Connect and log in. Raises `OSError` and `WireError`."""
        self.address = address
        self._timeout_s = access.request_timeout_ms / 1000
        self._client = ClientConnection(access.client_id, MAX_ANSWER_BYTES)
        self._socket = socket.create_connection(address, self._timeout_s)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if access.tls is not None:
                self._socket = _encrypted(self._socket, access.tls, address[0])
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
        """The highest version of a request that both sides support. Raises `ProtocolError`."""
        own_versions = _VERSIONS[key]
        try:
            return self._client.common_version(key, own_versions)
        except NoCommonVersion as missing:
            raise self._version_error(missing, own_versions[0]) from missing

    def send_request(self, key: ApiKey, version: int, message: object) -> Any:
        """Send a request, and return its answer, both as kio's messages of that version.

        Raises `OSError` and `WireError`.
        """
        body = self.exchange(key, version, encoded(message))
        try:
            return decoded(key, version, body)
        except ProtocolViolation as violation:
            raise self._not_kafka_error(violation) from violation

    def exchange(
        self, key: ApiKey, version: int, body: bytes, timeout_s: float | None = None
    ) -> memoryview:
        """Send the body of a request, and return the body of its answer.

        `timeout_s` is for both together; None means `Access.request_timeout_ms`. Raises `OSError`
        and `WireError`.
        """
        deadline_s = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        pieces = self._client.send(key, version, [body])
        try:
            self._socket.settimeout(_left_s(deadline_s))
            self._socket.sendall(b"".join(pieces))
            return self._answer(deadline_s)
        except ProtocolViolation as violation:
            raise self._not_kafka_error(violation) from violation
        except BaseException:
            # Otherwise a late answer would be used as the answer to the next request.
            self.close()
            raise

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    # -- inner workings

    def _answer(self, deadline_s: float) -> memoryview:
        """Receive until an answer is complete. Raises `OSError` and `ProtocolViolation`."""
        while (answer := self._client.next_answer()) is None:
            self._socket.settimeout(_left_s(deadline_s))
            count = self._socket.recv_into(self._client.get_buffer())
            if not count:
                raise ConnectionResetError(f"{self} closed the connection")
            self._client.buffer_updated(count)
        return answer.body

    def _not_kafka_error(self, why: Exception) -> WireError:
        """Close the connection, and return the error for an invalid answer."""
        self.close()
        return ProtocolError(
            f"{self} does not answer like a Kafka broker ({why})",
            "check that option bootstrap.servers names a listener of the cluster",
        )

    def _version_error(self, missing: NoCommonVersion, lowest: int) -> ProtocolError:
        """The error if the broker supports no version of a request from `lowest` on."""
        spoken = missing.spoken
        supported = "none" if spoken is None else f"{spoken[0]} to {spoken[1]}"
        return ProtocolError(
            f"no common version of {APIS[missing.key].name} with {self}: it supports {supported}",
            f"use brokers that speak at least version {lowest}",
        )

    def _open(self, login: Login | None) -> None:
        """Request the broker's versions, and log in if there is a login.

        Raises `OSError` and `WireError`.
        """
        # The generator yields one request after the other, and gets the answer of each.
        steps, answer = opening(self._client, scram_of(login) if login else None), None
        try:
            while True:
                answer = self.send_request(*steps.send(answer))
        except StopIteration:
            return
        except NoCommonVersion as missing:
            raise self._version_error(missing, APIS[missing.key].min_served) from missing
        except OpeningRefused as refusal:
            if login is None or refusal.key is ApiKey.API_VERSIONS:
                raise self._not_kafka_error(refusal) from refusal
            raise refused(login, self._refusal_message(login, refusal)) from refusal
        except AuthenticationFailed as failed:
            assert login is not None, "nobody logs in"
            raise refused(login, f"{self}: {failed}") from failed

    def _refusal_message(self, login: Login, refusal: OpeningRefused) -> str:
        """Why the broker refused the login."""
        if refusal.key is ApiKey.SASL_HANDSHAKE:
            return f"{self} does not support {login.mechanism.value}: {refusal.code.name}"
        return f"{self} answers {refusal.code.name}"


def _encrypted(connected: socket.socket, tls: Tls, host: str) -> socket.socket:
    """The connection with TLS. Raises `OSError`; `ssl.SSLError` is one. A file that cannot be read
    is the error's `filename`."""
    for path in (tls.ca_file, tls.certificate_file, tls.key_file):
        if path is not None:
            Path(path).open("rb").close()  # the errors of the module ssl do not name the file
    context = ssl.create_default_context(cafile=tls.ca_file)
    # As other Kafka clients: since Python 3.13 the default refuses CAs without key identifiers.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if tls.certificate_file is not None:
        # Without a password OpenSSL would ask for that of an encrypted key at the terminal.
        context.load_cert_chain(tls.certificate_file, tls.key_file, password="")
    return context.wrap_socket(connected, server_hostname=host)


def scram_of(login: Login) -> Callable[[], ScramClient]:
    """A function that reads the password, and returns the client side of the login.

    It raises `NotAuthorized` if the password cannot be read or used.
    """

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
    """The error for a login that failed."""
    return NotAuthorized(
        f"login of user {login.username} failed ({why})",
        "check options sasl.username, sasl.password.file and sasl.mechanism",
    )


def _left_s(deadline_s: float) -> float:
    """The seconds until a time of the monotonic clock; raises `TimeoutError` when it has passed."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("no answer in time")
    return left_s
