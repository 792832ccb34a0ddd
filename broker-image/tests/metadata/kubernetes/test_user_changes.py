"""Clients change ACLs and passwords: what the operator is asked, and when clients hear of it."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from chiplog_broker.metadata.kubernetes import admin_requests, user_changes
from chiplog_broker.metadata.kubernetes.user_changes import MAX_SALT_BYTES, chunks
from chiplog_core.admin.bodies import from_body, to_body
from chiplog_core.admin.operations import AlterAcls, AlterScram
from chiplog_core.admin.request_keys import credential_place, request_key
from chiplog_core.authorizer.acls import Acl, Operation, PatternType, Permission, ResourceType
from chiplog_core.ids import Incarnation
from chiplog_core.limits import MAX_ACLS_PER_USER
from chiplog_core.model.acl_rules import entries_of
from chiplog_core.model.admin import AdminRequest
from chiplog_kube.kinds import ACCESS_LISTS
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import Mechanism, derived_keys, salted_password
from chiplog_wire.sealing import unseal
from chiplog_wire.verifiers import read_verifier
from tests.authorization.people import acl_of, create
from tests.metadata.kubernetes.test_access import READ_ALL, Users, becomes, users
from tests.security.logins_kit import (
    OK,
    SHA_256,
    WRONG,
    alter,
    by_scram,
    deletion,
    described,
    upsertion,
)

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit

__all__ = ["users"]  # a fixture

T = TypeVar("T")
POLICY = ErrorCode.policy_violation
ORDERS = {"resourceType": "topic", "name": "orders", "operations": ["Read"]}
READ_ORDERS = acl_of("read topic orders")


async def asked(member: "MemberKit", count: int = 1) -> tuple[AdminRequest, ...]:
    """The requests in the broker's status, once there are so many."""
    await member.eventually(lambda: len(member.operator.status.requests) >= count)
    return member.operator.status.requests


def answer(member: "MemberKit", *answered: AdminRequest, code: int = 0, why: str = "") -> None:
    answers = [{"id": one.id, "errorCode": code, "errorMessage": why} for one in answered]
    member.operator.write_broker(answers=answers)


async def in_background(
    member: "MemberKit", started: Awaitable[T], act: Callable[[AdminRequest], None]
) -> T:
    """Have the operator act on the one request that follows."""
    task = asyncio.ensure_future(started)
    (request,) = await asked(member)
    await asyncio.sleep(0.05)
    assert not task.done(), "the operator has not answered"
    act(request)
    return await task


async def delete(client: "Client", principal: str | None = None, name: str | None = None) -> Any:
    """DeleteAcls with one filter."""
    types = client.types(ApiKey.DELETE_ACLS)
    one = types.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=name,
        pattern_type_filter=1,
        principal_filter=principal,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    answer = await client.ask(ApiKey.DELETE_ACLS, types.DeleteAclsRequest(filters=(one,)))
    (result,) = answer.filter_results
    assert result.error_code is OK
    return result.matching_acls


def test_an_acl_exists_when_this_broker_sees_it(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob")
        async with member.admitted(1) as client:
            task = asyncio.ensure_future(create(client, READ_ORDERS))
            (request,) = await asked(member)
            assert request.principal == "User:ANONYMOUS"
            assert from_body(request.op, request.body) == AlterAcls(
                name="User:alice", acls=entries_of([READ_ORDERS])
            )
            answer(member, request)
            await asyncio.sleep(0.1)
            assert not task.done(), "this broker has not got the list yet"
            write_list_with_orders(users)
            assert await task == [OK]
            await member.eventually(lambda: not member.operator.status.requests)

    member.run(scenario)


def write_list_with_orders(users: Users) -> None:
    """alice, who may read orders; bob."""
    users.write_list("bob")
    meta, spec = (
        users.member.api.objects["accesslists", "c1"][one] for one in ("metadata", "spec")
    )
    alice = {"name": "alice", "principal": "User:alice", "acls": [ORDERS]}
    manifest = {**users.member.api.objects["accesslists", "c1"], "metadata": meta}
    users.member.api.put(
        ACCESS_LISTS, {**manifest, "spec": {**spec, "users": [*spec["users"], alice]}}
    )


def test_the_acls_that_match_are_deleted_and_named(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(bob="b")
        write_list_with_orders(users)
        async with member.admitted(1) as client:

            def act(request: AdminRequest) -> None:
                assert from_body(request.op, request.body) == AlterAcls(
                    name="User:alice", acls=entries_of([READ_ORDERS]), is_deletion=True
                )
                answer(member, request)
                users.write_list("bob")

            (match,) = await in_background(member, delete(client, "User:alice"), act)
            assert (match.error_code, match.resource_name, match.principal) == (
                OK,
                "orders",
                "User:alice",
            )
            assert await delete(client, "User:nobody") == ()

    member.run(scenario)


def test_a_refusal_is_that_of_the_acls_of_one_user(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob")
        found = member.api.objects["accesslists", "c1"]
        for name in ("alice", "carol"):
            one = {"name": name, "principal": f"User:{name}", "acls": [ORDERS]}
            found["spec"]["users"].append(one)
        member.api.put(ACCESS_LISTS, found)
        async with member.admitted(1) as client:
            task = asyncio.ensure_future(delete(client, name="orders"))
            requests = await asked(member, 2)
            (of_alice,) = (one for one in requests if "User:alice" in one.body)
            (of_carol,) = (one for one in requests if "User:carol" in one.body)
            answers = [{"id": of_alice.id, "errorCode": 44, "errorMessage": "argo"}]
            member.operator.write_broker(answers=[*answers, {"id": of_carol.id}])
            spec = member.api.objects["accesslists", "c1"]["spec"]
            spec["users"] = [one for one in spec["users"] if one["name"] != "carol"]
            member.api.put(ACCESS_LISTS, member.api.objects["accesslists", "c1"])
            matches = {one.principal: one for one in await task}
            assert {name: one.error_code for name, one in matches.items()} == {
                "User:alice": POLICY,
                "User:carol": OK,
            }
            assert matches["User:alice"].error_message == "argo"

    member.run(scenario)


def test_an_acl_that_no_user_can_have_is_not_asked_for(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob")
        async with member.admitted(1) as client:
            strange = READ_ORDERS._replace(resource_type=ResourceType.DELEGATION_TOKEN)
            assert await create(client, strange) == [POLICY]
            assert not member.operator.status.requests

    member.run(scenario)


def test_a_change_that_is_not_seen_in_time_says_where_to_look(
    member: "MemberKit", users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_requests, "LONGEST_TIMEOUT_MS", 300)
    monkeypatch.setattr(admin_requests, "SHORTEST_TIMEOUT_MS", 300)

    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob")
        async with member.admitted(1) as client:
            assert await create(client, READ_ORDERS) == [ErrorCode.request_timed_out]

    member.run(scenario)


def test_the_operator_gets_what_verifies_a_password_and_nobody_can_read_it(
    member: "MemberKit", users: Users, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    salted = salted_password(Mechanism.SCRAM_SHA_512, "s3cret", b"salt", 4096)
    keys = derived_keys(Mechanism.SCRAM_SHA_512, salted)

    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob")
        async with member.admitted(1) as client:

            def act(request: AdminRequest) -> None:
                operation = from_body(request.op, request.body)
                assert isinstance(operation, AlterScram)
                assert operation.sealed is not None
                incarnation = Incarnation(member.operator.status.incarnation or "")
                key = request_key(incarnation, request.id)
                place = credential_place("ns", "c1", key, "alice")
                text = unseal(["the secret of the cluster's processes"], place, operation.sealed)
                (credential,) = read_verifier(text).values()
                assert credential.keys == (keys,)
                status = json.dumps(member.api.objects["brokers", "c1-1"])
                for one in (b"s3cret", salted, keys.stored_key, keys.server_key):
                    for shown in (b64encode(one).decode(), one.hex()):
                        assert shown not in status
                        assert shown not in caplog.text
                answer(member, request)
                users.write_entries(alice=text)
                users.write_list("bob", "alice")

            store = [upsertion(client, "alice", "s3cret")]
            found = await in_background(member, alter(client, store=store), act)
            assert found == {"alice": (OK, None)}
            assert await by_scram(await users.client(), "alice", "s3cret") is OK

    member.run(scenario)


def test_who_is_overtaken_by_another_client_has_an_answer(
    member: "MemberKit", users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both passwords were stored, and this broker sees only the last one."""
    monkeypatch.setattr(user_changes, "SEEN_WITHIN_S", 0.05)

    async def scenario() -> None:
        users.write_secret(alice="a", bob="b")
        users.write_list("alice", "bob")
        async with member.admitted(1) as client:

            def act(request: AdminRequest) -> None:
                answer(member, request)
                users.write_secret(alice="of another client", bob="b")
                users.write_list("alice", "bob")

            store = alter(client, store=[upsertion(client, "alice", "mine")])
            assert await in_background(member, store, act) == {"alice": (OK, None)}

    member.run(scenario)


def test_a_password_is_deleted(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a", bob="b")
        users.write_list("alice", "bob")
        async with member.admitted(1) as client:

            def act(request: AdminRequest) -> None:
                assert from_body(request.op, request.body) == AlterScram(username="alice")
                answer(member, request)
                users.write_secret(bob="b")
                users.write_list("alice", "bob")

            delete_it = alter(client, delete=[deletion(client, "alice")])
            assert await in_background(member, delete_it, act) == {"alice": (OK, None)}
            assert await by_scram(await users.client(), "alice", "a") is WRONG

    member.run(scenario)


@pytest.mark.parametrize(
    ("name", "more", "code"),
    [
        ("alice", {"mechanism": SHA_256}, ErrorCode.unsupported_sasl_mechanism),
        ("alice", {"salt": bytes(MAX_SALT_BYTES + 1)}, ErrorCode.unacceptable_credential),
        ("CN=alice", {}, ErrorCode.unacceptable_credential),
        ("*", {}, ErrorCode.unacceptable_credential),
        ("ANONYMOUS", {}, ErrorCode.unacceptable_credential),
    ],
)
def test_a_credential_that_no_user_can_have_is_not_asked_for(
    member: "MemberKit", users: Users, name: str, more: dict[str, Any], code: ErrorCode
) -> None:
    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob")
        async with member.admitted(1) as client:
            found = await alter(client, store=[upsertion(client, name, "x", **more)])
            assert found[name][0] is code
            assert found[name][1]
            assert not member.operator.status.requests

    member.run(scenario)


def test_without_logins_no_password_is_stored(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1) as client:
            code, message = (await alter(client, store=[upsertion(client, "alice", "x")]))["alice"]
            assert code is POLICY
            assert "scram-sha-512" in (message or "")
            assert await described(client) == {}

    member.run(scenario)


def test_a_login_name_need_not_be_that_of_the_object(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(**{"user-alice-1": "a"})
        users.write_list("bob")
        spec = member.api.objects["accesslists", "c1"]["spec"]
        spec["users"].append(
            {"name": "user-alice-1", "principal": "User:Alice_1", "acls": [READ_ALL]}
        )
        async with member.admitted(1):

            async def logs_in() -> bool:
                return await users.logs_in("Alice_1", "a")

            await becomes(logs_in)
            assert not await users.logs_in("user-alice-1", "a")

    member.run(scenario)


def test_a_verifier_of_a_user_with_a_certificate_lets_nobody_in(
    member: "MemberKit", users: Users
) -> None:
    """The user had a password before: its entry is still there for a moment."""

    async def scenario() -> None:
        users.write_secret(alice="a", bob="b")
        users.write_list("bob")
        spec = member.api.objects["accesslists", "c1"]["spec"]
        spec["users"].append({"name": "alice", "principal": "User:CN=alice", "acls": [READ_ALL]})
        async with member.admitted(1):

            async def bob_logs_in() -> bool:
                return await users.logs_in("bob", "b")

            await becomes(bob_logs_in)
            assert not await users.logs_in("CN=alice", "a")
            assert not await users.logs_in("alice", "a")

    member.run(scenario)


def test_who_does_not_log_in_is_not_disconnected_with_its_last_rule(
    member: "MemberKit", users: Users
) -> None:
    """Otherwise the client that deletes it would not hear of that."""
    member.config["super.users"] = "User:ANONYMOUS"

    async def scenario() -> None:
        users.write_secret(bob="b")
        users.write_list("bob", superUsers=["User:ANONYMOUS"])
        async with member.admitted(1) as client:

            def act(request: AdminRequest) -> None:
                answer(member, request)
                found = member.api.objects["accesslists", "c1"]
                shown = [one for one in found["spec"]["users"] if one["name"] == "bob"]
                member.api.put(ACCESS_LISTS, {**found, "spec": {**found["spec"], "users": shown}})

            matches = await in_background(member, delete(client, "User:ANONYMOUS"), act)
            assert {one.error_code for one in matches} == {OK}
            assert await delete(client, "User:ANONYMOUS") == ()

    member.run(scenario)


def test_requests_are_no_larger_than_the_operator_reads() -> None:
    def acl(number: int, principal: str, operation: Operation) -> Acl:
        return Acl(
            ResourceType.TOPIC,
            f"{number:04d}" + "ü" * 1_020,
            PatternType.LITERAL,
            principal,
            "ü" * 1_024 if number % 2 else "*",
            operation,
            Permission.ALLOW,
        )

    every = [
        acl(number, principal, operation)
        for number in range(60)
        for principal in ("User:a", "User:" + "ü" * 1_000)
        for operation in (Operation.READ, Operation.WRITE)
    ]
    every += [
        READ_ORDERS._replace(name=f"t{number}") for number in range(2 * MAX_ACLS_PER_USER + 1)
    ]
    found = list(chunks(every))
    assert sorted(one for chunk in found for one in chunk) == sorted(every)
    for chunk in found:
        assert len({one.principal for one in chunk}) == 1
        entries = entries_of(chunk)
        assert len(entries) <= MAX_ACLS_PER_USER
        to_body(AlterAcls(name=chunk[0].principal, acls=entries))
