"""Logins that expire, and clients that log in again on their open connections (KIP-368)."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import ScramClient
from tests.authorization.people import peer
from tests.security.logins_kit import (
    ALICE,
    OK,
    SESSION_S,
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
)

if TYPE_CHECKING:
    from tests.conftest import Kit

BOTH = ALICE, ALICE.replace("512", "256"), ALICE.replace("alice", "bob")


def test_the_last_answer_says_how_long_a_login_is_valid(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE):
            client = await kit.client("timed")
            await handshake(client, SHA_512.value)
            scram = ScramClient(SHA_512, "alice", "alice-secret", b"nonce")
            first = await authenticate(client, scram.first())
            assert first.session_lifetime.total_seconds() == 0
            last = await authenticate(client, scram.final(first.auth_bytes))
            assert last.session_lifetime.total_seconds() == SESSION_S
            client = await kit.client("timed")
            await handshake(client, "PLAIN")
            answer = await authenticate(client, b"\0alice\0alice-secret")
            assert answer.session_lifetime.total_seconds() == SESSION_S

    kit.run(scenario)


def test_a_connection_is_closed_with_the_next_request_after_the_time(
    kit: "Kit", caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE):
            client = await kit.client("timed")
            assert await by_scram(client, "alice", "alice-secret") is OK
            await client.metadata()
            await asyncio.sleep(SESSION_S)
            types = client.types(ApiKey.DESCRIBE_CLUSTER)
            request = types.DescribeClusterRequest(
                include_cluster_authorized_operations=False,
                endpoint_type=1,
                include_fenced_brokers=False,
            )
            await client.send(ApiKey.DESCRIBE_CLUSTER, request)
            assert await client.is_closed()

    kit.run(scenario)
    reasons = [one.__dict__.get("reason", "") for one in caplog.records]
    assert "the login has expired, and the client has not logged in again" in reasons


@pytest.mark.parametrize("log_in", [by_scram, by_plain])
def test_a_client_that_logs_in_again_stays(kit: "Kit", log_in: object) -> None:
    async def scenario() -> None:
        assert callable(log_in)
        async with asking(kit, ALICE) as admin:
            client = await kit.client("timed")
            for _ in range(3):
                assert await log_in(client, "alice", "alice-secret") is OK
                await asyncio.sleep(SESSION_S * 0.7)
                await client.metadata()
            # Also after the time, if it is the first thing that it does.
            await asyncio.sleep(SESSION_S)
            assert await log_in(client, "alice", "alice-secret") is OK
            await client.metadata()
            assert peer(kit, client).sasl is None
            await alter(admin, delete=[deletion(admin, "alice")])
            assert await closes_soon(client)

    kit.run(scenario)


def test_nobody_becomes_somebody_else(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, *BOTH):
            client = await kit.client("timed")
            assert await by_scram(client, "alice", "alice-secret") is OK
            assert await by_scram(client, "bob", "bob-secret") is WRONG
            assert await client.is_closed()
            client = await kit.client("timed")
            assert await by_scram(client, "alice", "alice-secret") is OK
            assert await by_scram(client, "alice", "alice-secret", SHA_256) is WRONG
            assert await client.is_closed()
            client = await kit.client("timed")
            assert await by_scram(client, "alice", "alice-secret") is OK
            assert await by_scram(client, "alice", "wrong") is WRONG
            assert await client.is_closed()

    kit.run(scenario)


def test_nothing_else_is_answered_during_another_login(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE):
            client = await kit.client("timed")
            assert await by_scram(client, "alice", "alice-secret") is OK
            assert await handshake(client, SHA_512.value) is ErrorCode.none
            types = client.types(ApiKey.METADATA, 1)
            await client.send(ApiKey.METADATA, types.MetadataRequest(topics=()), 1)
            assert await client.is_closed()

    kit.run(scenario)


def test_who_logs_in_again_does_not_make_room_for_new_connections(kit: "Kit") -> None:
    """Clients that are not logged in could disconnect those that are, otherwise."""

    async def scenario() -> None:
        async with asking(kit, ALICE, max_connections="3"):
            client = await kit.client("timed")
            assert await by_scram(client, "alice", "alice-secret") is OK
            assert await handshake(client, SHA_512.value) is OK
            never_logs_in, other = await kit.client("timed"), await kit.client("timed")
            assert await closes_soon(never_logs_in)
            scram = ScramClient(SHA_512, "alice", "alice-secret", b"nonce")
            first = await authenticate(client, scram.first())
            last = await authenticate(client, scram.final(first.auth_bytes))
            assert last.error_code is OK
            assert await handshake(other, SHA_512.value) is OK

    kit.run(scenario)
