"""Quotas of a cluster's users: its AccessList has them, and the operator changes them for
clients."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_core.admin.bodies import from_body
from chiplog_core.admin.operations import AlterQuotas
from chiplog_core.client_quotas.entities import Quota
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.handlers.test_client_quotas import ALICE, Named, alter, described, entry
from tests.metadata.kubernetes.test_access import ANYBODY, READ_ALL, Users, becomes
from tests.metadata.kubernetes.test_user_changes import answer, asked, in_background
from tests.security.logins_kit import OK, by_scram

if TYPE_CHECKING:
    from tests.conftest import Client
    from tests.metadata.kubernetes.conftest import MemberKit

CLUSTER = {**READ_ALL, "resourceType": "cluster", "name": "kafka-cluster"}


@pytest.fixture
def users(member: "MemberKit") -> Users:
    return Users(member)


def write_quotas(users: Users, rate: int) -> None:
    acls = [READ_ALL, CLUSTER]
    alice = {"name": "alice", "principal": "User:alice", "acls": acls}
    users.write_list(users=[ANYBODY, alice | {"quotas": {"producerByteRate": rate}}])


async def throttle_time(client: "Client", users: Users) -> timedelta:
    values = users.member.kit.batch(b"x" * 50_000)
    answer = await client.ask(ApiKey.PRODUCE, client.produce_request("orders", values))
    found: timedelta = answer.throttle_time
    return found


def test_the_quotas_of_the_list_hold_and_its_changes_take_effect(
    member: "MemberKit", users: Users
) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        users.write_secret(alice="a")
        write_quotas(users, 1_000)
        async with member.admitted(1):
            alice = await users.client()
            assert await by_scram(alice, "alice", "a") is OK
            assert await described(alice) == {(("user", "alice"),): {"producer_byte_rate": 1_000}}
            assert await throttle_time(alice, users) > timedelta(seconds=10)
            # The connection is not read for a minute, unless the quota is raised.
            await alice.send(
                ApiKey.METADATA,
                alice.types(ApiKey.METADATA).MetadataRequest(
                    topics=(),
                    allow_auto_topic_creation=False,
                    include_topic_authorized_operations=False,
                ),
            )
            write_quotas(users, 10**9)
            assert (await alice.receive()).throttle_time == timedelta(0)
            assert await throttle_time(alice, users) == timedelta(0)
            other = await users.client()
            assert await by_scram(other, "alice", "a") is OK
            users.write_list("alice")

            async def is_gone() -> bool:
                return not users.member.kit.broker.quotas.table

            await becomes(is_gone)
            assert await throttle_time(other, users) == timedelta(0)

    member.kit.run(scenario)


PRODUCER, CONSUMER = Quota.PRODUCER_BYTE_RATE, Quota.CONSUMER_BYTE_RATE


def test_a_quota_is_set_when_this_broker_sees_it(member: "MemberKit", users: Users) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1) as client:
            change = entry(client, ALICE, producer_byte_rate=1_000.0000001, consumer_byte_rate=None)
            task = asyncio.ensure_future(alter(client, change))
            (request,) = await asked(member)
            assert request.principal == "User:ANONYMOUS"
            assert from_body(request.op, request.body) == AlterQuotas(
                username="alice", values={PRODUCER: 1_000.0000001, CONSUMER: None}
            )
            answer(member, request)
            await asyncio.sleep(0.1)
            assert not task.done(), "this broker has not got the list yet"
            write_quotas(users, 1_000)
            assert await task == [(OK, None)]
            assert await described(client) == {ALICE: {"producer_byte_rate": 1_000}}
            await member.eventually(lambda: not member.operator.status.requests)

            def act(request: Any) -> None:
                answer(member, request)
                users.write_list("alice")

            removal = alter(client, entry(client, ALICE, producer_byte_rate=None))
            assert await in_background(member, removal, act) == [(OK, None)]
            assert await described(client) == {}

    member.run(scenario)


def test_each_user_has_a_request_and_an_answer_of_its_own(
    member: "MemberKit", users: Users
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1) as client:
            entries = [
                entry(client, (("user", name),), producer_byte_rate=1_000.0)
                for name in ("alice", "carol")
            ]
            task = asyncio.ensure_future(alter(client, *entries))
            requests = await asked(member, 2)
            (of_alice,) = (one for one in requests if "alice" in one.body)
            (of_carol,) = (one for one in requests if "carol" in one.body)
            refusal = {"id": of_carol.id, "errorCode": 44, "errorMessage": "argo"}
            member.operator.write_broker(answers=[{"id": of_alice.id}, refusal])
            write_quotas(users, 1_000)
            assert await task == [(OK, None), (ErrorCode.policy_violation, "argo")]

    member.run(scenario)


def test_a_validation_is_the_operators_and_waits_for_no_change(
    member: "MemberKit", users: Users
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1) as client:

            def acts(code: int, why: str) -> Callable[[Any], None]:
                def act(request: Any) -> None:
                    operation = from_body(request.op, request.body)
                    assert isinstance(operation, AlterQuotas)
                    assert operation.validate_only
                    answer(member, request, code=int(code), why=why)

                return act

            change = entry(client, ALICE, producer_byte_rate=5.0)
            for code, why in ((OK, ""), (ErrorCode.policy_violation, "argo")):
                validation = alter(client, change, validate_only=True)
                found = await in_background(member, validation, acts(code, why))
                assert found == [(code, why or None)]
                await member.eventually(lambda: not member.operator.status.requests)

    member.run(scenario)


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    "entity",
    [
        (("user", None),),
        (("user", "*"),),
        (("client-id", "app"),),
        (("client-id", None),),
        (("user", "alice"), ("client-id", "app")),
        (("user", None), ("client-id", None)),
    ],
)
def test_an_entity_that_is_no_user_is_not_asked_for(
    member: "MemberKit", users: Users, entity: Named, validate_only: bool
) -> None:
    async def scenario() -> None:
        users.write_secret(alice="a")
        users.write_list("alice")
        async with member.admitted(1) as client:
            change = entry(client, entity, producer_byte_rate=5.0)
            ((code, message),) = await alter(client, change, validate_only=validate_only)
            assert code is ErrorCode.policy_violation
            assert "name one user" in (message or "")
            assert not member.operator.status.requests

    member.run(scenario)


def test_brokers_that_read_no_users_say_so(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1) as client:
            ((code, message),) = await alter(client, entry(client, ALICE, producer_byte_rate=5.0))
            assert code is ErrorCode.policy_violation
            assert "spec.authorization.type" in (message or "")
            assert await described(client) == {}

    member.run(scenario)
