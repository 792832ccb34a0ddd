"""A listener that asks who its clients are: what is answered before they say so, and after."""

import asyncio
import io
import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kio.serial import entity_reader, entity_writer

from chiplog_broker.handlers.sasl import SaslHandlers
from chiplog_broker.handlers.table import api_versions
from chiplog_broker.metadata.listeners import Listener, internal_listener
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.audit import AuditLog
from chiplog_broker.security.credentials import Credentials, FixedCredentials, Keyring
from chiplog_broker.server.call import Call, Handler
from chiplog_broker.server.dispatch import Dispatcher
from chiplog_broker.server.gate import (
    LOGIN_TIMEOUT_S,
    MAX_CLIENT_ID_BYTES,
    MAX_REQUEST_BYTES,
)
from chiplog_broker.server.limits import ConnectionLimits, ConnectionQuota
from chiplog_broker.server.listening import Acceptor
from chiplog_broker.server.metrics import RequestMetrics
from chiplog_broker.server.peer import Peer
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.framing import UNAUTHENTICATED_MAX_BYTES
from chiplog_wire.protocol.messages import MetadataResponse
from chiplog_wire.scram import Mechanism, ScramClient

SHA_512 = Mechanism.SCRAM_SHA_512
PLAIN = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)
LIMITS = ConnectionLimits(99, 99, 2**20, 600.0)


def internal() -> Listener:
    keyring = Keyring(FixedCredentials(Credentials("chiplog", "secret")), SystemRng())
    return internal_listener("127.0.0.1", keyring, host="127.0.0.1", port=0)


class Conversation:
    """A client that may say anything."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def frame(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    def say(self, frame: bytes) -> None:
        self.writer.write(struct.pack(">i", len(frame)) + frame)

    def request(self, key: ApiKey, version: int, message: Any) -> None:
        body = io.BytesIO()
        entity_writer(type(message))(body, message)
        tags = b"\x00" if APIS[key].is_flexible(version) else b""
        self.say(struct.pack(">hhih", key, version, 7, -1) + tags + body.getvalue())

    async def answer(self, key: ApiKey, version: int) -> Any:
        frame = await self.frame()
        start = 5 if APIS[key].response_header_version(version) else 4
        return entity_reader(schema.response_class(key, version))(frame, start)[0]

    async def ask(self, key: ApiKey, version: int, **fields: Any) -> Any:
        self.request(key, version, schema.request_class(key, version)(**fields))
        return await self.answer(key, version)

    async def handshake(self, mechanism: str = SHA_512.value, version: int = 1) -> Any:
        return await self.ask(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)

    async def authenticate(self, token: bytes, version: int = 2) -> Any:
        return await self.ask(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=token)

    async def log_in(self, version: int = 2) -> Any:
        """The last answer."""
        client = ScramClient(SHA_512, "chiplog", "secret", b"nonce")
        assert (await self.handshake()).error_code is ErrorCode.none
        first = await self.authenticate(client.first(), version)
        assert first.error_code is ErrorCode.none
        last = await self.authenticate(client.final(first.auth_bytes), version)
        if last.error_code is ErrorCode.none:
            client.verify(last.auth_bytes)
        return last

    async def topics(self) -> Any:
        fields = {"topics": (), "allow_auto_topic_creation": False}
        return await self.ask(ApiKey.METADATA, 4, **fields)

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


class Kit:
    """A listener with next to nothing behind it."""

    def __init__(self, listener: Listener) -> None:
        self.peers: list[Peer] = []
        self.metrics = RequestMetrics()
        sasl = SaslHandlers(SystemClock())
        handlers: dict[ApiKey, Handler] = {
            ApiKey.API_VERSIONS: api_versions,
            ApiKey.SASL_HANDSHAKE: sasl.handshake,
            ApiKey.SASL_AUTHENTICATE: sasl.authenticate,
            ApiKey.METADATA: self._metadata,
        }
        dispatcher = Dispatcher(handlers, self.metrics)
        self.acceptor = Acceptor(
            listener,
            dispatcher,
            ConnectionQuota(LIMITS),
            SystemClock(),
            self.metrics,
            AuditLog(SystemClock().monotonic_s),
        )
        self.port = 0

    def _metadata(self, call: Call[Any]) -> MetadataResponse:
        self.peers.append(call.peer)
        return MetadataResponse((), "cluster", 1, ())

    async def connect(self) -> Conversation:
        return Conversation(*await asyncio.open_connection("127.0.0.1", self.port))


@asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[tuple[Kit, Conversation]]:
    kit = Kit(listener)
    kit.port = (await kit.acceptor.bind()).port
    await kit.acceptor.accept()
    client = await kit.connect()
    try:
        async with asyncio.timeout(10):
            yield kit, client
    finally:
        client.writer.close()
        await kit.acceptor.close()


def test_who_logs_in_is_served_and_known() -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            versions = await client.ask(ApiKey.API_VERSIONS, 0)
            assert len(versions.api_keys) == len(APIS)
            last = await client.log_in()
            assert last.session_lifetime.total_seconds() == 0
            await client.topics()
            (peer,) = kit.peers
            assert (peer.principal, peer.is_internal, peer.sasl) == ("User:chiplog", True, None)

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_authenticate_logs_in(version: int) -> None:
    async def scenario() -> None:
        async with listening(internal()) as (_, client):
            assert (await client.log_in(version)).error_code is ErrorCode.none
            await client.topics()

    asyncio.run(scenario())


def test_a_login_without_headers() -> None:
    """SaslHandshake 0: what follows are bare tokens (KIP-43)."""

    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            assert (await client.handshake(version=0)).mechanisms == (SHA_512.value,)
            scram = ScramClient(SHA_512, "chiplog", "secret", b"nonce")
            client.say(scram.first())
            client.say(scram.final(await client.frame()))
            scram.verify(await client.frame())
            await client.topics()
            assert kit.peers[0].is_internal

    asyncio.run(scenario())


@pytest.mark.parametrize("bare", [False, True])
def test_a_wrong_password_is_answered_late_and_then_nothing_is(
    bare: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            loop = asyncio.get_running_loop()
            scram = ScramClient(SHA_512, "chiplog", "wrong", b"nonce")
            if bare:
                await client.handshake(version=0)
                client.say(scram.first())
                last = scram.final(await client.frame())
                began_s = loop.time()
                client.say(last)
            else:
                await client.handshake()
                last = scram.final((await client.authenticate(scram.first())).auth_bytes)
                began_s = loop.time()
                answer = await client.authenticate(last)
                assert answer.error_code is ErrorCode.sasl_authentication_failed
                assert answer.auth_bytes == b""
            client.request(
                ApiKey.METADATA,
                1,
                schema.request_class(ApiKey.METADATA, 1)(topics=()),
            )
            assert await client.is_closed()
            assert loop.time() - began_s >= 0.09
            assert kit.peers == []

    asyncio.run(scenario())
    assert [one.message for one in caplog.records if one.levelno >= logging.WARNING] == [
        "login_failed"
    ]
    assert "wrong password" in caplog.records[-1].__dict__["reason"]


def test_an_unknown_user_gets_the_same_answer_as_one_with_a_wrong_password() -> None:
    async def attempt(name: str) -> list[Any]:
        async with listening(internal()) as (_, client):
            scram = ScramClient(SHA_512, name, "wrong", b"nonce")
            await client.handshake()
            first = await client.authenticate(scram.first())
            last = await client.authenticate(scram.final(first.auth_bytes))
            return [first.error_code, last.error_code, last.error_message, last.auth_bytes]

    async def scenario() -> None:
        assert await attempt("chiplog") == await attempt("nobody")

    asyncio.run(scenario())


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "", "GSSAPI"])
@pytest.mark.parametrize("version", [0, 1])
def test_another_mechanism_is_answered_with_ours(mechanism: str, version: int) -> None:
    async def scenario() -> None:
        async with listening(internal()) as (_, client):
            answer = await client.handshake(mechanism, version)
            assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
            assert answer.mechanisms == (SHA_512.value,)
            assert await client.is_closed()

    asyncio.run(scenario())


def metadata(client: Conversation) -> None:
    client.request(ApiKey.METADATA, 1, schema.request_class(ApiKey.METADATA, 1)(topics=()))


def authenticate(client: Conversation) -> None:
    request = schema.request_class(ApiKey.SASL_AUTHENTICATE, 2)
    client.request(ApiKey.SASL_AUTHENTICATE, 2, request(auth_bytes=b"n,,n=chiplog,r=abc"))


def handshake(client: Conversation) -> None:
    request = schema.request_class(ApiKey.SASL_HANDSHAKE, 1)
    client.request(ApiKey.SASL_HANDSHAKE, 1, request(mechanism=SHA_512.value))


def versions(client: Conversation) -> None:
    client.request(ApiKey.API_VERSIONS, 0, schema.request_class(ApiKey.API_VERSIONS, 0)())


@pytest.mark.parametrize(
    ("before", "then", "name"),
    [
        ([], metadata, "Metadata"),
        ([versions], metadata, "Metadata"),
        ([], authenticate, "SaslAuthenticate"),
        ([handshake], metadata, "Metadata"),
        ([handshake], handshake, "SaslHandshake"),
        ([handshake], versions, "ApiVersions"),
        ([handshake, authenticate], versions, "ApiVersions"),
    ],
)
def test_nothing_but_the_login_is_answered_before_it(
    before: list[Any], then: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            for step in before:
                step(client)
                await client.frame()
            then(client)
            assert await client.is_closed()
            assert kit.peers == []
            assert kit.metrics.violations_total == 1

    asyncio.run(scenario())
    (line,) = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert line.message == "connection_closed"
    assert line.__dict__["reason"] == f"{name} was sent before the login was complete"


def test_api_versions_of_the_future_is_answered_before_a_login() -> None:
    async def scenario() -> None:
        async with listening(internal()) as (_, client):
            client.say(struct.pack(">hhih", ApiKey.API_VERSIONS, 99, 7, -1))
            answer = await client.answer(ApiKey.API_VERSIONS, 0)
            assert answer.error_code is ErrorCode.unsupported_version
            await client.log_in()

    asyncio.run(scenario())


def test_frames_are_small_before_a_login_and_large_after() -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            await client.log_in()
            names = ("x" * 200,) * (UNAUTHENTICATED_MAX_BYTES // 100)
            request = schema.request_class(ApiKey.METADATA, 1)
            topic = schema.shapes(request)["topics"].element
            assert not isinstance(topic, str)
            large = request(topics=tuple(topic(name=name) for name in names))
            client.request(ApiKey.METADATA, 1, large)
            await client.answer(ApiKey.METADATA, 1)
            stranger = await kit.connect()
            stranger.writer.write(struct.pack(">i", UNAUTHENTICATED_MAX_BYTES + 1))
            assert await stranger.is_closed()
            stranger.writer.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("client_id_bytes", "frame_bytes"),
    [(MAX_CLIENT_ID_BYTES + 1, 0), (-1, MAX_REQUEST_BYTES)],
)
def test_what_would_take_much_memory_is_refused_before_it_is_decoded(
    client_id_bytes: int, frame_bytes: int
) -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            head = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 7, client_id_bytes)
            client.say(head + b"a" * max(client_id_bytes, frame_bytes))
            assert await client.is_closed()
            assert kit.metrics.violations_total == 1
            longest = struct.pack(">hhih", ApiKey.API_VERSIONS, 0, 7, MAX_CLIENT_ID_BYTES)
            other = await kit.connect()
            other.say(longest + b"a" * MAX_CLIENT_ID_BYTES)
            assert (await other.answer(ApiKey.API_VERSIONS, 0)).error_code is ErrorCode.none
            assert (await other.log_in()).error_code is ErrorCode.none
            other.writer.close()

    asyncio.run(scenario())


def test_the_login_and_what_follows_may_come_in_one_piece() -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            versions(client)
            handshake(client)
            scram = ScramClient(SHA_512, "chiplog", "secret", b"nonce")
            request = schema.request_class(ApiKey.SASL_AUTHENTICATE, 2)
            client.request(ApiKey.SASL_AUTHENTICATE, 2, request(auth_bytes=scram.first()))
            await client.answer(ApiKey.API_VERSIONS, 0)
            await client.answer(ApiKey.SASL_HANDSHAKE, 1)
            first = await client.answer(ApiKey.SASL_AUTHENTICATE, 2)
            final = request(auth_bytes=scram.final(first.auth_bytes))
            client.request(ApiKey.SASL_AUTHENTICATE, 2, final)
            metadata(client)
            scram.verify((await client.answer(ApiKey.SASL_AUTHENTICATE, 2)).auth_bytes)
            await client.answer(ApiKey.METADATA, 1)
            assert kit.peers[0].is_internal

    asyncio.run(scenario())


def test_a_stranger_has_not_much_time() -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, known):
            await known.log_in()
            stranger = await kit.connect()
            await stranger.ask(ApiKey.API_VERSIONS, 0)
            now_s = SystemClock().monotonic_s()
            kit.acceptor.sweep(now_s + LOGIN_TIMEOUT_S - 1)
            await stranger.ask(ApiKey.API_VERSIONS, 0)
            kit.acceptor.sweep(now_s + LOGIN_TIMEOUT_S + 1)
            assert await stranger.is_closed()
            await known.topics()
            stranger.writer.close()

    asyncio.run(scenario())


def test_strangers_do_not_keep_out_who_can_log_in() -> None:
    """Else whoever reaches a broker's internal listener could keep its followers away."""

    async def scenario() -> None:
        async with listening(internal()) as (kit, known):
            await known.log_in()
            strangers = [await kit.connect() for _ in range(LIMITS.max_connections - 1)]
            for stranger in strangers:
                await stranger.ask(ApiKey.API_VERSIONS, 0)
            newcomer = await kit.connect()
            assert (await newcomer.log_in()).error_code is ErrorCode.none
            assert await strangers[0].is_closed()
            assert kit.metrics.connections == LIMITS.max_connections
            await strangers[1].ask(ApiKey.API_VERSIONS, 0)
            await known.topics()
            for other in (*strangers, newcomer):
                other.writer.close()

    asyncio.run(scenario())


def test_without_a_login_there_is_nothing_to_log_in_to() -> None:
    async def scenario() -> None:
        async with listening(PLAIN) as (kit, client):
            await nothing_to_log_in_to(client)
            assert kit.peers[0].principal == "User:ANONYMOUS"
            assert not kit.peers[0].is_internal

    asyncio.run(scenario())


def test_nobody_logs_in_twice() -> None:
    async def scenario() -> None:
        async with listening(internal()) as (kit, client):
            await client.log_in()
            await nothing_to_log_in_to(client)
            assert kit.peers[0].principal == "User:chiplog"

    asyncio.run(scenario())


async def nothing_to_log_in_to(client: Conversation) -> None:
    for version in (0, 1):
        answer = await client.handshake(version=version)
        assert (answer.error_code, answer.mechanisms) == (ErrorCode.illegal_sasl_state, ())
    for version in (0, 1, 2):
        answer = await client.authenticate(b"n,,n=chiplog,r=abc", version)
        assert answer.error_code is ErrorCode.illegal_sasl_state
    await client.topics()


def test_an_internal_listener_needs_a_keyring() -> None:
    with pytest.raises(AssertionError):
        Listener("internal", "127.0.0.1", 0, "127.0.0.1", 0, is_internal=True)
