"""OAUTHBEARER as clients see it: on a whole broker, whose issuer is in the test."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.first_users import first_user
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.security.oauth.bearer import MAX_MESSAGE_BYTES, first_message
from chiplog_broker.security.oauth.settings import TokenSettings
from chiplog_core.config.listener_keys import OF_THE_API_SERVER
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import AuthenticationFailed
from tests.authorization.people import peer
from tests.security.logins_kit import (
    ALICE,
    OK,
    SHA_512,
    WRONG,
    authenticate,
    by_scram,
    handshake,
    listener,
)
from tests.security.tokens_kit import (
    AUDIENCE,
    BOUND,
    Issuer,
    by_hmac,
    first,
    jwk,
    pem,
    rsa_key,
    signed,
    unsigned,
)

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

KEY = rsa_key("a")
ACCOUNT, OTHER = "system:serviceaccount:shop:orders", "system:serviceaccount:shop:other"
INVALID = b'{"status":"invalid_token"}'
SETTINGS = TokenSettings(OF_THE_API_SERVER, "", (AUDIENCE,), "sub", 0.0, None)


def now_s() -> int:
    return int(SystemClock().now_ms() / 1000)


def token(
    account: str = ACCOUNT, valid_s: float = 600, *, bound: bool = True, **more: Any
) -> bytes:
    """As the API server signs it; `more` are claims."""
    _, _, namespace, name = account.split(":")
    details = {**BOUND, "namespace": namespace, "serviceaccount": {"name": name, "uid": "1"}}
    fields = {
        "sub": account,
        "exp": now_s() + valid_s,
        "iat": now_s(),
        "kubernetes.io": details if bound else None,
        **more,
    }
    return signed(KEY, **fields)


@asynccontextmanager
async def running(
    kit: "Kit", issuer: Issuer | None = None, session_s: float | None = None
) -> AsyncIterator[Issuer]:
    """A broker whose listener `tokens` accepts tokens of ServiceAccounts and passwords. It has no
    TLS, which is possible here only: a configuration that asks for it is refused."""
    tokens = listener("tokens", "OAUTHBEARER", SHA_512.value, session_s=session_s)
    broker = kit.new_broker({}, [listener("PLAINTEXT"), replace(tokens, tokens=SETTINGS)])
    broker.first_users = [first_user(ALICE, SystemRng())]
    issuer = issuer or Issuer(jwk(KEY))
    broker.api_server_keys = issuer
    await broker.start()
    try:
        yield issuer
    finally:
        kit.close_clients()
        await broker.stop()


async def log_in(client: "Client", first_message_: bytes) -> Any:
    """The answer to the first message."""
    assert await handshake(client, "OAUTHBEARER") is OK
    return await authenticate(client, first_message_)


async def is_refused(client: "Client", first_message_: bytes) -> bool:
    """As RFC 7628 has it: the server says what is wrong, the client says that it has read it, and
    the login fails."""
    answer = await log_in(client, first_message_)
    assert (answer.error_code, answer.auth_bytes) == (OK, INVALID)
    assert answer.session_lifetime.total_seconds() == 0
    last = await authenticate(client, b"\x01")
    assert ErrorCode(last.error_code) is WRONG
    return await client.is_closed()


def test_a_pod_logs_in_with_its_token_and_is_its_account(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            client = await kit.client("tokens")
            answer = await log_in(client, first(token()))
            assert (answer.error_code, answer.auth_bytes) == (OK, b"")
            assert 590 < answer.session_lifetime.total_seconds() <= 600
            await client.metadata()
            assert peer(kit, client).principal == f"User:{ACCOUNT}"
            assert peer(kit, client).login is None

    kit.run(scenario)


def test_the_same_listener_may_take_passwords(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            assert await by_scram(await kit.client("tokens"), "alice", "alice-secret") is OK

    kit.run(scenario)


def test_wrong_tokens_are_refused_alike_and_the_log_says_why(
    kit: "Kit", caplog: pytest.LogCaptureFixture
) -> None:
    wrong = {
        "another audience": token(aud="https://kubernetes.default.svc"),
        "another issuer": token(iss="https://other.example"),
        "has expired": token(valid_s=-1),
        "not valid yet": token(nbf=now_s() + 600),
        "no exp": token(exp=None),
        "not bound": token(bound=False),
        "the signature": signed(rsa_key("attacker"), sub=ACCOUNT),
        "no key with the id": signed(rsa_key("attacker"), key_id="two", sub=ACCOUNT),
        "an algorithm that is not accepted": by_hmac(pem(KEY)),
        "malformed": b"x" * 100,
        "more than 16384 bytes": b"x" * 17_000,
    }

    async def scenario() -> None:
        async with running(kit):
            for one in (*wrong.values(), unsigned()):
                assert await is_refused(await kit.client("tokens"), first(one))

    with caplog.at_level(logging.WARNING, "chiplog.audit"):
        kit.run(scenario)
    failed = [one.__dict__ for one in caplog.records if one.message == "login_failed"]
    assert failed[0]["mechanism"] == "OAUTHBEARER"
    assert next(iter(wrong)) in failed[0]["reason"]
    for one in wrong.values():
        assert one[-40:].decode() not in caplog.text


@pytest.mark.parametrize("reason_of", [b"\x01", b"", b"more", first(token())])
def test_nothing_helps_a_client_whose_token_was_refused(kit: "Kit", reason_of: bytes) -> None:
    async def scenario() -> None:
        async with running(kit):
            client = await kit.client("tokens")
            await log_in(client, first(token(aud="other")))
            last = await authenticate(client, reason_of)
            assert ErrorCode(last.error_code) is WRONG
            assert await client.is_closed()

    kit.run(scenario)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer a.b.c\x01\x01",
        b"n,,\x01auth=Basic a.b.c\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        first(b"t" * MAX_MESSAGE_BYTES),
        first(b"a.b.c", "\xff"),
    ],
)
def test_a_malformed_message_fails_at_once(kit: "Kit", message: bytes) -> None:
    async def scenario() -> None:
        async with running(kit):
            client = await kit.client("tokens")
            answer = await log_in(client, message)
            assert ErrorCode(answer.error_code) is WRONG
            assert await client.is_closed()

    if message == first(b"a.b.c", "\xff"):
        message = message.replace("\xff".encode(), b"\xff")
    kit.run(scenario)


def test_nobody_acts_as_somebody_else(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            assert (
                await log_in(await kit.client("tokens"), first(token(), ACCOUNT))
            ).error_code is OK
            client = await kit.client("tokens")
            assert (await log_in(client, first(token(), OTHER))).error_code is WRONG
            assert await client.is_closed()

    kit.run(scenario)


def test_extensions_are_ignored(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit):
            message = first(token(), extensions="traceId=123\x01sub=admin\x01")
            client = await kit.client("tokens")
            assert (await log_in(client, message)).error_code is OK
            await client.metadata()
            assert peer(kit, client).principal == f"User:{ACCOUNT}"

    kit.run(scenario)


def test_a_login_ends_with_its_token_and_goes_on_with_the_next_one(
    kit: "Kit", caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(kit):
            client = await kit.client("tokens")
            for _ in range(3):
                assert (await log_in(client, first(token(valid_s=1.5)))).error_code is OK
                await client.metadata()
                await asyncio.sleep(1)
            await asyncio.sleep(1)
            await client.send(
                ApiKey.METADATA, client.types(ApiKey.METADATA, 1).MetadataRequest(topics=()), 1
            )
            assert await client.is_closed()

    kit.run(scenario)
    reasons = [one.__dict__.get("reason", "") for one in caplog.records]
    assert "the login has expired, and the client has not logged in again" in reasons


def test_the_shorter_of_both_limits_counts(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, session_s=60):
            found = []
            for valid_s in (600, 30):
                client = await kit.client("tokens")
                answer = await log_in(client, first(token(valid_s=valid_s)))
                found.append(answer.session_lifetime.total_seconds())
            assert found[0] == 60
            assert 20 < found[1] <= 30

    kit.run(scenario)


def test_who_logs_in_again_stays_who_they_are(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit, session_s=60):
            for again in ("another account", "a wrong token", "another mechanism"):
                client = await kit.client("tokens")
                assert (await log_in(client, first(token()))).error_code is OK
                if again == "another mechanism":
                    assert await by_scram(client, "alice", "alice-secret") is WRONG
                elif again == "a wrong token":
                    assert await is_refused(client, first(token(aud="other")))
                else:
                    answer = await log_in(client, first(token(OTHER)))
                    assert ErrorCode(answer.error_code) is WRONG
                assert await client.is_closed()

    kit.run(scenario)


def test_while_no_keys_are_known_the_connection_is_closed_without_an_answer(kit: "Kit") -> None:
    async def scenario() -> None:
        issuer = Issuer(jwk(KEY))
        issuer.error = OSError("no route")
        async with running(kit, issuer):
            client = await kit.client("tokens")
            assert await handshake(client, "OAUTHBEARER") is OK
            types = client.types(ApiKey.SASL_AUTHENTICATE)
            request = types.SaslAuthenticateRequest(auth_bytes=first(token()))
            await client.send(ApiKey.SASL_AUTHENTICATE, request)
            assert await client.is_closed()

    kit.run(scenario)


def test_a_standalone_broker_has_no_accounts(kit: "Kit") -> None:
    from chiplog_broker.errors import CannotStart  # noqa: PLC0415

    async def scenario() -> None:
        tokens = listener("tokens", "OAUTHBEARER")
        broker = kit.new_broker({}, [replace(tokens, tokens=SETTINGS)])
        with pytest.raises(CannotStart, match="needs a broker with --cluster"):
            await broker.start()

    kit.run(scenario)


@given(
    st.lists(
        st.sampled_from([b"n,", b"a=", b",", b"\x01", b"auth=", b"Bearer ", b"x", b"=2C", b"\xff"]),
        max_size=12,
    )
)
def test_no_message_breaks_it(parts: list[bytes]) -> None:
    message = b"".join(parts)
    try:
        identity, found = first_message(message)
    except AuthenticationFailed:
        return
    assert found in message
    assert "\0" not in identity
