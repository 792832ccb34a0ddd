"""Users log in to a broker, and what ends their connections."""

import asyncio
import gc
import hashlib
import logging
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security import plain
from chiplog_broker.security.plain import Derivations, name_and_password
from chiplog_broker.security.users import Users
from chiplog_broker.server.gate import LOGIN_TIMEOUT_S
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import (
    AuthenticationFailed,
    Mechanism,
    ScramClient,
    ScramCredential,
    ScramKeys,
)
from tests.authorization.people import peer
from tests.security.logins_kit import (
    ALICE,
    OK,
    SHA_256,
    SHA_512,
    WRONG,
    alter,
    asking,
    authenticate,
    by_plain,
    by_scram,
    closes_soon,
    deletion,
    handshake,
    upsertion,
)

if TYPE_CHECKING:
    from tests.conftest import Kit


class Rng:
    def token(self, size_bytes: int) -> bytes:
        return b"r" * size_bytes


def test_a_user_logs_in_by_each_mechanism(kit: "Kit") -> None:
    async def scenario() -> None:
        both = ALICE, ALICE.replace("512", "256")
        async with asking(kit, *both):
            for mechanism in Mechanism:
                client = await kit.client("sasl")
                assert await by_scram(client, "alice", "alice-secret", mechanism) is OK
                await client.metadata()
                assert peer(kit, client).principal == "User:alice"
                assert not peer(kit, client).is_internal
            client = await kit.client("sasl")
            assert await by_plain(client, "alice", "alice-secret") is OK
            await client.metadata()
            assert peer(kit, client).principal == "User:alice"

    kit.run(scenario)


@pytest.mark.parametrize("user", [("alice", "wrong"), ("nobody", "alice-secret")])
@pytest.mark.parametrize("log_in", [by_scram, by_plain])
def test_a_failed_login_is_answered_late_closed_and_audited_once(
    kit: "Kit", user: tuple[str, str], log_in: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE):
            for _ in range(3):
                client = await kit.client("sasl")
                began_s = time.monotonic()
                assert await log_in(client, *user) is WRONG
                assert time.monotonic() - began_s > 0.09
                assert await client.is_closed()

    kit.run(scenario)
    (line,) = [one for one in caplog.records if one.message == "login_failed"]
    assert line.name == "chiplog.audit"
    assert (line.__dict__["user"], line.__dict__["listener"]) == (user[0], "sasl")
    assert not any("alice-secret" in str(one.__dict__) for one in caplog.records)


def test_plain_without_headers(kit: "Kit") -> None:
    """SaslHandshake 0, after which tokens are bare (KIP-43)."""

    async def scenario() -> None:
        async with asking(kit, ALICE):
            for password in ("alice-secret", "wrong"):
                client = await kit.client("sasl")
                types = client.types(ApiKey.SASL_HANDSHAKE, 0)
                await client.ask(
                    ApiKey.SASL_HANDSHAKE, types.SaslHandshakeRequest(mechanism="PLAIN"), 0
                )
                token = f"\0alice\0{password}".encode()
                client.writer.write(struct.pack(">i", len(token)) + token)
                if token.endswith(b"wrong"):
                    assert await client.is_closed()
                else:
                    assert await client.reader.readexactly(4) == bytes(4)
                    await client.metadata()

    kit.run(scenario)


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"alice",
        b"\0alice\0",
        b"\0\0secret",
        b"bob\0alice\0secret",
        b"\0a\0b\0c",
        b"\0a\0b" * 2000,
        b"\0\xff\0secret",
    ],
)
def test_a_malformed_plain_token_is_refused(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        name_and_password(token)


def test_an_identity_may_be_that_of_the_user() -> None:
    assert name_and_password(b"alice\0alice\0s\xc3\xa9") == ("alice", b"s\xc3\xa9")


def test_passwords_of_plain_do_not_hold_up_the_loop(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most two are derived at once, whatever the number of clients; whose time for the login is
    over is left out."""
    running, most, derived = 0, 0, 0
    threads: set[int] = set()

    def slow(*_: Any) -> bytes:
        nonlocal running, most, derived
        running += 1
        most, derived = max(most, running), derived + 1
        threads.add(threading.get_ident())
        time.sleep(0.05)
        running -= 1
        return hashlib.sha512().digest()

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", slow)

    async def scenario() -> None:
        async with asking(kit, "SCRAM-SHA-512=[name=a,salt=c2FsdA==,saltedpassword=c2FsdA==]"):
            clients = [await kit.client("sasl") for _ in range(20)]
            for client in clients:
                await handshake(client, "PLAIN")
                types = client.types(ApiKey.SASL_AUTHENTICATE)
                request = types.SaslAuthenticateRequest(auth_bytes=b"\0a\0b")
                await client.send(ApiKey.SASL_AUTHENTICATE, request)
            await asyncio.sleep(0.1)
            now_s = SystemClock().monotonic_s()
            kit.broker.acceptors[1].sweep(now_s + LOGIN_TIMEOUT_S)
            for client in clients:
                assert await client.is_closed()

    kit.run(scenario)
    assert most == plain.MAX_AT_ONCE
    assert 2 <= derived < 20
    assert threading.get_ident() not in threads


async def longest_turn(duration_s: float) -> float:
    """The longest time that the event loop computed without a pause."""
    end_s, longest_s, before_s = time.monotonic() + duration_s, 0.0, time.thread_time()
    while time.monotonic() < end_s:
        await asyncio.sleep(0)
        now_s = time.thread_time()
        longest_s, before_s = max(longest_s, now_s - before_s), now_s
    return longest_s


def test_a_deleted_user_is_disconnected_at_once(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE, ALICE.replace("alice", "bob")) as admin:
            alice, other, bob = [await kit.client("sasl") for _ in range(3)]
            assert await by_scram(alice, "alice", "alice-secret") is OK
            assert await by_plain(other, "alice", "alice-secret") is OK
            assert await by_scram(bob, "bob", "bob-secret") is OK
            assert await alter(admin, delete=[deletion(admin, "alice")]) == {"alice": (OK, None)}
            assert await closes_soon(alice)
            assert await closes_soon(other)
            await bob.metadata()
            again = await kit.client("sasl")
            assert await by_scram(again, "alice", "alice-secret") is WRONG

    kit.run(scenario)


def test_another_password_disconnects_and_another_mechanism_does_not(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE) as admin:
            alice = await kit.client("sasl")
            assert await by_scram(alice, "alice", "alice-secret") is OK
            await alter(admin, store=[upsertion(admin, "alice", "x", SHA_256)])
            await alice.metadata()
            await alter(admin, store=[upsertion(admin, "alice", "other")])
            assert await closes_soon(alice)
            again = await kit.client("sasl")
            assert await by_scram(again, "alice", "other") is OK

    kit.run(scenario)


def test_who_is_deleted_during_the_login_is_not_let_in(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE) as admin:
            client = await kit.client("sasl")
            await handshake(client, SHA_512.value)
            scram = ScramClient(SHA_512, "alice", "alice-secret", b"nonce")
            first = await authenticate(client, scram.first())
            await alter(admin, delete=[deletion(admin, "alice")])
            last = await authenticate(client, scram.final(first.auth_bytes))
            assert last.error_code is WRONG
            assert await client.is_closed()

    kit.run(scenario)


def test_who_is_deleted_while_a_login_becomes_complete_is_not_let_in(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the check of the password, before the connection continues with the next service."""

    async def matches(*_: Any) -> bool:
        # It runs when the task of the login has ended, before the callbacks of that.
        asyncio.get_running_loop().call_soon(kit.broker.users.replace, {})
        return True

    monkeypatch.setattr(Derivations, "matches", matches)

    async def scenario() -> None:
        async with asking(kit, ALICE):
            client = await kit.client("sasl")
            await handshake(client, "PLAIN")
            types = client.types(ApiKey.SASL_AUTHENTICATE)
            request = types.SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret")
            await client.send(ApiKey.SASL_AUTHENTICATE, request)
            async with asyncio.timeout(2):
                await client.reader.read()  # to the end of the connection

    kit.run(scenario)


def test_the_principal_of_a_deleted_user_is_disconnected_whatever_it_logged_in_with(
    kit: "Kit",
) -> None:
    """As with a client's certificate."""

    async def scenario() -> None:
        async with asking(kit) as admin:
            secured, other = await kit.client(), await kit.client()
            for client in (secured, other):
                await client.metadata()
            peer(kit, secured).principal = "User:CN=alice"
            peer(kit, other).principal = "User:CN=unknown"
            kit.broker.users.replace({}, {"User:CN=alice", "User:bob"})
            await secured.metadata()
            kit.broker.users.replace({}, {"User:bob"})
            assert await closes_soon(secured)
            await other.metadata()
            await admin.metadata()

    kit.run(scenario)


def test_names_that_do_not_exist_look_like_names_that_do() -> None:
    users = Users(Rng())
    known = ScramCredential(b"s" * 16, 8192, (ScramKeys(b"a", b"b"),))
    users.replace({(SHA_256, "alice"): known})
    first, again, other = (users.find(SHA_256, name) for name in ("bob", "bob", "carol"))
    assert first == again
    assert first.salt != other.salt
    assert (len(first.salt), first.iterations) == (16, 8192)
    assert users.find_for_plain("bob")[0] is SHA_256
    assert users.find_for_plain("alice") == (SHA_256, known)
    assert users.find(SHA_512, "alice").iterations == 4096


def test_a_salt_of_a_name_that_does_not_exist_is_as_long_as_that_of_a_user() -> None:
    """Kafka's clients make salts of 25 or 26 bytes."""
    users = Users(Rng())
    known = {
        (SHA_512, "alice"): ScramCredential(b"s" * 26, 4096, (ScramKeys(b"a", b"b"),)),
        (SHA_512, "bob"): ScramCredential(b"s" * 200, 8192, (ScramKeys(b"a", b"b"),)),
    }
    users.replace(known)
    found = [users.find(SHA_512, f"nobody-{number}") for number in range(50)]
    assert {(len(one.salt), one.iterations) for one in found} == {(26, 4096), (200, 8192)}
    assert len({one.salt for one in found}) == 50


def test_plain_compares_a_name_that_does_not_exist_by_the_mechanism_of_any_user() -> None:
    """A hash of one mechanism takes longer than that of the other."""
    users = Users(Rng())
    one = ScramCredential(b"s" * 16, 4096, (ScramKeys(b"a", b"b"),))
    users.replace({(SHA_512, "alice"): one, (SHA_256, "alice"): one, (SHA_256, "bob"): one})
    found = {users.find_for_plain(f"nobody-{number}")[0] for number in range(50)}
    assert found == {SHA_512, SHA_256}
    users.replace({(SHA_512, "alice"): one, (SHA_256, "alice"): one})
    assert {users.find_for_plain(f"nobody-{number}")[0] for number in range(50)} == {SHA_512}


def test_frames_before_a_login_cost_little(kit: "Kit") -> None:
    """The largest tokens, of each mechanism."""

    async def scenario() -> None:
        async with asking(kit, ALICE):
            for mechanism in ("PLAIN", SHA_512.value):
                client = await kit.client("sasl")
                await handshake(client, mechanism)
                types = client.types(ApiKey.SASL_AUTHENTICATE)
                token = b"n,,n=" + b"," * 24_000
                request = types.SaslAuthenticateRequest(auth_bytes=token)
                gc.collect()
                await client.send(ApiKey.SASL_AUTHENTICATE, request)
                assert await longest_turn(0.05) < 0.005
                assert (await client.receive()).error_code is WRONG
                assert await client.is_closed()

    kit.run(scenario)


def test_who_never_logs_in_keeps_nobody_out_of_another_listener(kit: "Kit") -> None:
    """The limit of connections is that of all listeners of clients together."""

    async def scenario() -> None:
        async with asking(kit, ALICE, max_connections="3"):
            idle = [await kit.client("sasl") for _ in range(2)]
            alice = await kit.client("timed")
            assert await by_scram(alice, "alice", "alice-secret") is OK
            assert await closes_soon(idle[0])
            assert await handshake(idle[1], SHA_512.value) is OK

    kit.run(scenario)


def test_derivations_end_with_the_broker() -> None:
    async def scenario() -> None:
        derivations = Derivations()
        credential = ScramCredential(b"s", 4096, (ScramKeys(b"a", b"b"),))
        assert not await derivations.matches(SHA_512, b"password", credential)
        derivations.close()

    asyncio.run(scenario())


def test_a_login_is_not_possible_for_who_is_logged_in(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE):
            client = await kit.client("sasl")
            assert await by_scram(client, "alice", "alice-secret") is OK
            assert await handshake(client, SHA_512.value) is ErrorCode.illegal_sasl_state

    kit.run(scenario)


def test_the_log_has_no_password(kit: "Kit", caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario() -> None:
        async with asking(kit, ALICE):
            client = await kit.client("sasl")
            assert await by_plain(client, "alice", "another-secret") is WRONG

    kit.run(scenario)
    assert not any("secret" in str(one.__dict__) for one in caplog.records)
