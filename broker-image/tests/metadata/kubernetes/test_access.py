"""The users of a cluster: the AccessList and the Secret that its operator writes."""

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.kubernetes import access, store
from chiplog_broker.ports.clock import SystemClock
from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_core.naming import labels
from chiplog_kube.api import Manifest
from chiplog_kube.kinds import ACCESS_LISTS, SECRETS, Kind
from chiplog_operator.users.verifiers import Verifier
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.authorization.people import peer
from tests.metadata.kubernetes.conftest import Held
from tests.security.logins_kit import (
    OK,
    WRONG,
    by_scram,
    closes_soon,
    handshake,
    listener,
)

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit

NO_TOPIC = ErrorCode.topic_authorization_failed
READ_ALL = {"resourceType": "topic", "name": "*", "operations": ["All"]}
ANYBODY = {
    "name": "anybody",
    "principal": "User:ANONYMOUS",
    "acls": [READ_ALL, {**READ_ALL, "resourceType": "cluster", "name": "kafka-cluster"}],
}


def verifier(password: str) -> str:
    """The entry of the Secret, as the operator writes it."""
    return Verifier.of(password).text()


class Users:
    """What the operator has written."""

    def __init__(self, member: "MemberKit") -> None:
        self.member = member
        self.digests = 0
        member.more_listeners = [listener("sasl", "SCRAM-SHA-512")]
        member.config = {"authorizer.class.name": STANDARD_AUTHORIZER}

    def write_secret(self, **passwords: str) -> None:
        self.write_entries(**{name: verifier(password) for name, password in passwords.items()})

    def write_entries(self, **entries: str) -> None:
        self.digests += 1
        data = {name: b64encode(text.encode()).decode() for name, text in entries.items()}
        meta = {"name": "c1-scram-credentials", "namespace": "ns"}
        self.member.api.put(SECRETS, {"metadata": meta, "data": data})

    def write_list(self, *names: str, **spec: Any) -> None:
        users = [{"name": one, "principal": f"User:{one}", "acls": [READ_ALL]} for one in names]
        meta = {"name": "c1", "namespace": "ns", "labels": {labels.CLUSTER: "c1"}}
        self.member.api.put(
            ACCESS_LISTS,
            {
                "apiVersion": "chiplog.dev/v1alpha1",
                "kind": "AccessList",
                "metadata": meta,
                "spec": {
                    "users": [ANYBODY, *users],
                    "credentialsDigest": f"{self.digests:064x}",
                    **spec,
                },
            },
        )

    async def client(self) -> "Client":
        await self.member.client()
        return await self.member.kit.client("sasl")

    async def logs_in(self, name: str, password: str) -> bool:
        client = await self.client()
        found = await by_scram(client, name, password)
        assert found in (OK, WRONG)
        return found is OK


@pytest.fixture
def users(member: "MemberKit", monkeypatch: pytest.MonkeyPatch) -> Users:
    monkeypatch.setattr(access, "RETRY_S", 0.05)
    return Users(member)


async def becomes(holds: Any) -> None:
    """Wait until a coroutine function returns True."""
    async with asyncio.timeout(5):
        while not await holds():
            await SystemClock().sleep(0.01)


async def sees(client: "Client") -> ErrorCode:
    (topic,) = (await client.metadata("orders")).topics
    return ErrorCode(topic.error_code)


def test_users_log_in_and_may_do_what_the_list_says(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        users.write_secret(alice="a", bob="b")
        users.write_list("alice", "bob")
        async with member.admitted(1):
            alice = await users.client()
            assert await by_scram(alice, "alice", "a") is OK
            assert await sees(alice) is OK
            assert not await users.logs_in("alice", "b")
            assert not await users.logs_in("carol", "a")
            # An ACL takes effect on the next request, and the connection stays.
            denied = {"name": "alice", "principal": "User:alice", "acls": []}
            users.write_list(users=[denied])
            await becomes(lambda: equal(sees(alice), NO_TOPIC))
            users.write_list(superUsers=["User:alice"], users=[denied])
            await becomes(lambda: equal(sees(alice), OK))

    member.run(scenario)


async def equal(found: Any, wanted: ErrorCode) -> bool:
    return await found is wanted


def test_a_user_that_is_added_logs_in_and_one_that_is_deleted_is_disconnected(
    member: "MemberKit", users: Users
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1) as secured:
            users.write_secret(alice="a", bob="b")
            users.write_list("alice", "bob")
            await becomes(lambda: users.logs_in("bob", "b"))
            alice, bob = await users.client(), await users.client()
            assert await by_scram(alice, "alice", "a") is OK
            assert await by_scram(bob, "bob", "b") is OK
            await secured.metadata()
            peer(member.kit, secured).principal = "User:anybody"
            # The Secret still has its verifier: the list decides.
            users.write_list("bob")
            assert await closes_soon(alice)
            assert not await users.logs_in("alice", "a")
            await bob.metadata()
            users.write_secret(bob="changed")
            users.write_list("bob")
            assert await closes_soon(bob)
            assert await users.logs_in("bob", "changed")
            await secured.metadata()

    member.run(scenario)


def test_the_last_known_state_goes_on_while_the_api_server_is_away(
    member: "MemberKit", users: Users
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1):
            alice = await users.client()
            assert await by_scram(alice, "alice", "a") is OK
            member.api.away = True
            users.write_secret(alice="changed")
            users.write_list("alice")
            await asyncio.sleep(0.2)
            await alice.metadata()
            assert await users.logs_in("alice", "a")
            member.api.away = False
            assert await closes_soon(alice)
            assert await users.logs_in("alice", "changed")

    member.run(scenario)


def test_what_cannot_be_read_changes_nothing(
    member: "MemberKit", users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1):
            alice = await users.client()
            assert await by_scram(alice, "alice", "a") is OK
            users.write_list(users=[{"name": "alice"}])
            await member.eventually(lambda: "access_list_unreadable" in caplog.messages)
            # A digest whose Secret is not there.
            member.api.remove(SECRETS, "c1-scram-credentials")
            users.digests += 1
            users.write_list("alice")
            await member.eventually(lambda: "credentials_not_read" in caplog.messages)
            member.api.remove(ACCESS_LISTS, "c1")
            await member.eventually(lambda: "access_list_missing" in caplog.messages)
            await alice.metadata()
            assert await users.logs_in("alice", "a")
            users.write_entries(alice="{", bob=verifier("b"))
            users.write_list("alice", "bob")
            assert await closes_soon(alice)
            assert await users.logs_in("bob", "b")

    member.run(scenario)
    assert caplog.messages.count("credentials_not_read") == 1
    (line,) = [one for one in caplog.records if one.message == "credentials_unreadable"]
    assert line.__dict__["users"] == "alice"


def test_a_secret_that_comes_late_is_read_without_another_change_of_the_list(
    member: "MemberKit", users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1):
            member.api.remove(SECRETS, "c1-scram-credentials")
            users.digests += 1
            users.write_list("alice", "bob")
            await member.eventually(lambda: "credentials_not_read" in caplog.messages)
            users.write_secret(bob="b")
            await becomes(lambda: users.logs_in("bob", "b"))

    member.run(scenario)


def test_a_deny_and_a_deletion_do_not_wait_for_the_secret(
    member: "MemberKit", users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        users.write_secret(alice="a", bob="b")
        users.write_list("alice", "bob")
        async with member.admitted(1):
            alice, bob = await users.client(), await users.client()
            assert await by_scram(alice, "alice", "a") is OK
            assert await by_scram(bob, "bob", "b") is OK
            held, answer = Held(), member.api.get

            async def get(kind: Kind, namespace: str, name: str) -> Manifest:
                if kind is SECRETS:
                    await held.wait()
                return await answer(kind, namespace, name)

            monkeypatch.setattr(member.api, "get", get)
            users.write_secret(alice="changed", bob="b")
            users.write_list("alice", "bob")
            await member.eventually(held.is_reached)
            users.write_list(users=[{"name": "alice", "principal": "User:alice", "acls": []}])
            await becomes(lambda: equal(sees(alice), NO_TOPIC))
            assert await closes_soon(bob)
            held.let_go()
            assert await closes_soon(alice)
            assert await users.logs_in("alice", "changed")

    member.run(scenario)


def test_without_logins_the_secret_is_not_read(member: "MemberKit", users: Users) -> None:
    """Only brokers with logins may get it."""

    async def scenario() -> None:
        member.more_listeners = []
        users.digests += 1
        users.write_list("alice")
        async with member.admitted(1) as client:
            await client.metadata()
            watch = member.store._access
            assert watch is not None
            assert watch.known.is_set()
            assert list(watch._verifiers) == []

    member.run(scenario)


def test_before_the_first_state_nobody_may_do_anything(
    member: "MemberKit", users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "ACCESS_WAIT_S", 0.2)

    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1) as client:
            assert await sees(client) is NO_TOPIC
            stranger = await users.client()
            await handshake(stranger, "SCRAM-SHA-512")
            types = stranger.types(ApiKey.SASL_AUTHENTICATE)
            token = b"n,,n=alice,r=abc"
            await stranger.send(
                ApiKey.SASL_AUTHENTICATE, types.SaslAuthenticateRequest(auth_bytes=token)
            )
            # Closed without an answer, so that the client tries again.
            assert await stranger.reader.read() == b""
            users.write_secret(alice="a")
            users.write_list("alice")
            await becomes(lambda: equal(sees(client), OK))
            watch = member.store._access
            assert watch is not None
            await member.eventually(watch.known.is_set)
            assert await users.logs_in("alice", "a")

    member.run(scenario)


def test_without_logins_and_authorizer_there_is_no_watch(member: "MemberKit") -> None:
    """The operator writes no AccessList then."""

    async def scenario() -> None:
        async with member.admitted(1) as client:
            await client.metadata()
            assert not member.api._watchers.get("accesslists")

    member.run(scenario)


def test_a_username_gives_nobody_the_password_of_another_user(
    member: "MemberKit", users: Users
) -> None:
    """The Secret still has alice's verifier, and another User now has her username."""

    async def scenario() -> None:
        users.write_secret(alice="a", bob="b")
        users.write_list(
            users=[
                {"name": "pods", "principal": "User:alice", "acls": [READ_ALL]},
                {"name": "bob", "principal": "User:bob", "acls": [READ_ALL]},
            ]
        )
        async with member.admitted(1):
            assert await users.logs_in("bob", "b")
            assert not await users.logs_in("alice", "a")

    member.run(scenario)
