"""Quotas of a cluster's users: its AccessList has them, and clients cannot change them."""

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.handlers.test_client_quotas import alter, described, entry
from tests.metadata.kubernetes.test_access import ANYBODY, READ_ALL, Users, becomes
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
            change = entry(alice, (("user", "alice"),), producer_byte_rate=2.0)
            ((code, message),) = await alter(alice, change)
            assert code is ErrorCode.policy_violation
            assert message is not None
            assert "change the User object" in message
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
