"""One connection to one broker: a request out, its answer in, a deadline on both.

What cannot be sent or read in time raises `OSError` (`TimeoutError` is one); the connection is
of no use then and is closed. Answers are read by the broker's own bounded reader.
"""

import socket
import struct
import time
from base64 import b64encode
from pathlib import Path
from secrets import token_bytes
from types import TracebackType
from typing import Any, Final

from chiplog_spark.wire.access import Access, Address, Login
from chiplog_spark.wire.errors import NotAuthorized, ProtocolError, WireError
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import outgoing, schema
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.reader import MALFORMED, Reader
from chiplog_wire.protocol.writer import NO_TAGS, string
from chiplog_wire.scram import AuthenticationFailed, ScramClient, prepared

MAX_ANSWER_BYTES: Final = 100 * 2**20
"""As Kafka's `socket.request.max.bytes`: more than one answer of ours ever asks for."""
_SIZE: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">ihhi")
_SMALL_BYTES: Final = 64 * 1024
_NONCE_BYTES: Final = 18
# In every broker's range for good: it is asked before anything is agreed.
_API_VERSIONS_VERSION: Final = 0
_HANDSHAKE_VERSION: Final = 1
# Topic ids, and a consumer's own replica id (KIP-903).
_FETCH_VERSIONS: Final = (15, 16)
_VERSIONS: Final[dict[ApiKey, tuple[int, int]]] = {
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.FETCH: _FETCH_VERSIONS,
    ApiKey.LIST_OFFSETS: (4, 7),
    ApiKey.METADATA: (10, 12),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (3, 4),
    ApiKey.SASL_AUTHENTICATE: (0, 2),
}


class Connection:
    """Both halves of the conversation with one broker, logged in where that is wanted."""

    def __init__(self, address: Address, access: Access) -> None:
        """Raises `OSError` and `WireError`."""
        self.address = address
        self._timeout_s = access.request_timeout_ms / 1000
        self._client_id = string(access.client_id)
        self._correlation_id = 0
        self._socket = socket.create_connection(address, self._timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._learn_versions()
            if access.login is not None:
                self._log_in(access.login)
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
        """The highest version that both ends speak. Raises `ProtocolError`."""
        lowest, highest = self._versions.get(key, (0, -1))
        our_lowest, our_highest = _VERSIONS[key]
        version = min(highest, our_highest)
        if version < max(lowest, our_lowest):
            spoken = f"it speaks {lowest} to {highest}" if highest >= 0 else "it speaks none"
            raise ProtocolError(
                f"no common version of {APIS[key].name} with {self}: {spoken}",
                f"brokers have to speak {our_lowest}",
            )
        return version

    def ask(self, key: ApiKey, version: int, message: object) -> Any:
        """kio's messages of that version. Raises `OSError` and `WireError`."""
        body = self.exchange(key, version, outgoing.encode_request(message), self._timeout_s)
        try:
            return outgoing.decode_response(key, version, body)
        except ProtocolViolation as violation:
            raise self._broken(violation) from violation

    def exchange(
        self, key: ApiKey, version: int, body: bytes, timeout_s: float | None = None
    ) -> memoryview:
        """The body of the answer. Raises `OSError` and `WireError`."""
        deadline_s = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        api = APIS[key]
        self._correlation_id += 1
        tags = NO_TAGS if api.is_flexible(version) else b""
        size = _HEADER.size - 4 + len(self._client_id) + len(tags) + len(body)
        header = _HEADER.pack(size, key, version, self._correlation_id)
        try:
            self._socket.settimeout(_left_s(deadline_s))
            self._socket.sendall(b"".join([header, self._client_id, tags, body]))
            frame = self._frame(deadline_s)
        except BaseException:
            # An answer that may still come would be taken for the next one's.
            self.close()
            raise
        reader = Reader(frame, compact=api.response_header_version(version) == 1)
        try:
            correlation_id = reader.int32()
            if reader.compact:
                reader.skip_tagged_fields()
        except (*MALFORMED, ProtocolViolation) as error:
            raise self._broken(error) from error
        if correlation_id != self._correlation_id:
            raise self._broken(ProtocolViolation("an answer to another request"))
        return frame[reader.position :]

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    # -- inner workings

    def _frame(self, deadline_s: float) -> memoryview:
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size, deadline_s))
        if not _SIZE.size <= size <= MAX_ANSWER_BYTES:
            raise self._broken(ProtocolViolation(f"an answer of {size} bytes"))
        return self._exactly(size, deadline_s)

    def _exactly(self, size: int, deadline_s: float) -> memoryview:
        # Grows with what comes, not with what is announced.
        buffer = bytearray(min(size, _SMALL_BYTES))
        filled = 0
        while filled < size:
            if filled == len(buffer):
                buffer.extend(bytes(min(size - filled, len(buffer))))
            self._socket.settimeout(_left_s(deadline_s))
            with memoryview(buffer) as view:
                count = self._socket.recv_into(view[filled:])
            if not count:
                raise ConnectionResetError(f"{self} closed the connection")
            filled += count
        return memoryview(buffer)

    def _broken(self, why: Exception) -> WireError:
        self.close()
        return ProtocolError(
            f"{self} does not answer as a broker does ({why})",
            "check that option bootstrap.servers names a listener of the cluster",
        )

    def _learn_versions(self) -> None:
        request = schema.request_class(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION)()
        answer = self.ask(ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, request)
        if answer.error_code:
            raise self._broken(ProtocolViolation(answer.error_code.name))
        self._versions = {
            one.api_key: (one.min_version, one.max_version) for one in answer.api_keys
        }

    def _log_in(self, login: Login) -> None:
        password = password_in(login)
        nonce = b64encode(token_bytes(_NONCE_BYTES))
        try:
            client = ScramClient(login.mechanism, login.username, prepared(password), nonce)
        except ValueError as error:
            raise refused(login, str(error)) from None
        name = login.mechanism.value
        handshake = schema.request_class(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION)
        answer = self.ask(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, handshake(mechanism=name))
        if answer.error_code:
            raise refused(login, f"{self} does not take {name}: {answer.error_code.name}")
        try:
            client.verify(self._token(login, client.final(self._token(login, client.first()))))
        except AuthenticationFailed as failed:
            raise refused(login, f"{self}: {failed}") from failed

    def _token(self, login: Login, token: bytes) -> bytes:
        version = self.version(ApiKey.SASL_AUTHENTICATE)
        request = schema.request_class(ApiKey.SASL_AUTHENTICATE, version)(auth_bytes=token)
        answer = self.ask(ApiKey.SASL_AUTHENTICATE, version, request)
        if answer.error_code is not ErrorCode.none:
            raise refused(login, f"{self} says {answer.error_code.name}")
        return bytes(answer.auth_bytes)


def password_in(login: Login) -> str:
    """The first line of the password's file. Raises `NotAuthorized`; never says what is in it."""
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
