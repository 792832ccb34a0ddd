"""Admin operations through the status: asked, answered, seen; or nobody knows."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.metadata.kubernetes import admin_requests
from chiplog_broker.metadata.operations import Outcome
from chiplog_core.admin.bodies import from_body
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import (
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
)
from chiplog_core.limits import MAX_REQUESTER_LENGTH, MAX_USERNAME_LENGTH
from chiplog_core.throttle.copying import Copying
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from chiplog_core.admin.operations import Request
    from tests.metadata.kubernetes.conftest import MemberKit

USER = "User:ada"
LISTED = Copying(leader_is_listed=True)


async def requested(member: "MemberKit", operation: "Request") -> "asyncio.Task[Outcome]":
    """Submit it, and wait until the operator sees it."""
    task: asyncio.Task[Outcome] = asyncio.create_task(member.store.submit(operation, USER))
    await member.eventually(lambda: member.operator.status.requests)
    return task


def test_success_is_reported_when_the_topic_of_that_owner_has_leaders(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            operation = CreateTopic(name="orders", partitions=2)
            task = await requested(member, operation)
            (request,) = member.operator.status.requests
            assert request.principal == USER
            assert from_body(request.op, request.body).name == "orders"
            member.operator.answer(request.id)
            leaderless = [member.partition(1, 0, leader=None), member.partition(1, 0, index=1)]
            member.operator.write_map("orders", leaderless)
            await asyncio.sleep(0.05)
            assert not task.done(), "one partition has no leader yet"
            whole = [member.partition(1, 1), member.partition(1, 0, index=1)]
            member.operator.write_map("orders", whole, ownerUID="somebody-else")
            await asyncio.sleep(0.05)
            assert not task.done(), "it is another's topic"
            member.operator.write_map("orders", whole)
            outcome = await task
            assert outcome.code is ErrorCode.none
            assert outcome.topic is not None
            assert len(outcome.topic.partitions) == 2
            await member.eventually(lambda: not member.operator.status.requests)

    member.run(scenario)


def test_a_refusal_is_passed_on(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            task = await requested(member, DeleteTopic(name="orders"))
            member.operator.answer(member.operator.status.requests[0].id, code=44)
            outcome = await task
            assert (outcome.code, outcome.message) == (ErrorCode.policy_violation, "told so")

    member.run(scenario)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_validated_creation_says_what_the_topic_would_be(
    member: "MemberKit", is_old: bool
) -> None:
    """An operator of the version before says only that it could be made."""

    async def scenario() -> None:
        async with member.admitted(1):
            member.operator.write_broker(config={"log.retention.hours": "2"})
            config = {"cleanup.policy": "compact"}
            task = await requested(
                member, CreateTopic(name="orders", config=config, validate_only=True)
            )
            counts = {} if is_old else {"partitions": 6, "replicas": 3}
            request_id = member.operator.status.requests[0].id
            member.operator.answer(request_id, uid=None, **counts)
            outcome = await task
            assert outcome.code is ErrorCode.none
            assert outcome.topic is None
            if is_old:
                assert outcome.planned is None
                return
            assert outcome.planned is not None
            assert (outcome.planned.partitions, outcome.planned.replicas) == (6, 3)
            values = {one.name: one.value for one in outcome.planned.config.entries(3)}
            assert (values["cleanup.policy"], values["retention.ms"]) == ("compact", "7200000")
            assert values["min.insync.replicas"] == "2"

    member.run(scenario)


def test_deleted_is_reported_when_the_topic_is_gone(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            task = await requested(member, DeleteTopic(name="orders"))
            member.operator.answer(member.operator.status.requests[0].id, uid=None)
            await asyncio.sleep(0.05)
            assert not task.done()
            grave = {"topicId": "BBBBBBBBBBBBBBBBBBBBBQ", "brokers": [1]}
            member.operator.write_map("orders", None, tombstones=[grave])
            assert (await task).code is ErrorCode.none

    member.run(scenario)


def test_grown_is_reported_when_the_new_partitions_have_leaders(member: "MemberKit") -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            task = await requested(member, GrowTopic(name="orders", partitions=2))
            member.operator.answer(member.operator.status.requests[0].id)
            await asyncio.sleep(0.05)
            assert not task.done()
            member.operator.write_map(
                "orders", [member.partition(1, 0), member.partition(1, 0, index=1)]
            )
            assert (await task).code is ErrorCode.none

    member.run(scenario)


@pytest.mark.parametrize("value", ["5000", "6000"])
def test_a_configuration_is_reported_when_it_is_seen_or_was_overwritten(
    member: "MemberKit", value: str
) -> None:
    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            changes = (ConfigChange(Change.SET, "retention.ms", "5000"),)
            task = await requested(member, ConfigureTopic(name="orders", changes=changes))
            member.operator.answer(member.operator.status.requests[0].id)
            await asyncio.sleep(0.05)
            assert not task.done()
            member.operator.write_map(
                "orders", [member.partition(1, 0)], config={"retention.ms": value}
            )
            assert (await task).code is ErrorCode.none

    member.run(scenario)


def test_lists_of_throttled_replicas_are_seen_in_the_map(member: "MemberKit") -> None:
    key = "leader.replication.throttled.replicas"

    async def scenario() -> None:
        member.operator.write_map("orders", [member.partition(1, 0)])
        async with member.admitted(1):
            changes = (ConfigChange(Change.SET, key, "0:1, 0:2"),)
            task = await requested(member, ConfigureTopic(name="orders", changes=changes))
            member.operator.answer(member.operator.status.requests[0].id)
            await asyncio.sleep(0.05)
            assert not task.done()
            listed = {key: "0:1,0:2"}
            member.operator.write_map("orders", [member.partition(1, 0)], clientConfig=listed)
            outcome = await task
            assert outcome.code is ErrorCode.none
            assert outcome.topic is not None
            assert outcome.topic.config.own == listed

    member.run(scenario)


def test_a_rate_is_in_force_when_its_request_is_answered(member: "MemberKit") -> None:
    key = "leader.replication.throttled.rate"

    async def scenario() -> None:
        async with member.admitted(1):
            operation = ConfigureBroker(broker_id=1, changes=(ConfigChange(Change.SET, key, "7"),))
            task = await requested(member, operation)
            (request,) = member.operator.status.requests
            assert from_body(request.op, request.body) == operation
            member.operator.write_broker(config={key: "7"})
            member.operator.answer(request.id, uid=None)
            assert (await task).code is ErrorCode.none
            assert member.broker.throttle.leader_bytes(LISTED) == 7

    member.run(scenario)


def test_nobody_answers_in_time(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            task = await requested(member, CreateTopic(name="orders", timeout_ms=150))
            assert (await task).code is ErrorCode.request_timed_out
            await member.eventually(lambda: not member.operator.status.requests)

    member.run(scenario)


def test_the_api_server_is_away(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            member.api.away = True
            outcome = await member.store.submit(CreateTopic(name="orders", timeout_ms=150), USER)
            assert outcome.code is ErrorCode.request_timed_out
            member.api.away = False

    member.run(scenario)


def test_no_more_wait_than_fit_into_the_status(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin_requests, "MAX_ADMIN_REQUESTS", 1)

    async def scenario() -> None:
        async with member.admitted(1):
            task = await requested(member, CreateTopic(name="orders", timeout_ms=5000))
            outcome = await member.store.submit(CreateTopic(name="more"), USER)
            assert outcome.code is ErrorCode.throttling_quota_exceeded
            # A broker that stops keeps nobody waiting.
            await member.broker._membership.drain()
            assert (await task).code is ErrorCode.request_timed_out

    member.run(scenario)


def test_a_long_principal_does_not_keep_the_status_from_being_written(member: "MemberKit") -> None:
    """The API server refuses the whole status otherwise, with all that the broker reports."""

    async def scenario() -> None:
        async with member.admitted(1):
            operation = CreateTopic(name="orders", partitions=1)
            principal = "User:" + "a" * MAX_USERNAME_LENGTH
            task = asyncio.create_task(member.store.submit(operation, principal))
            await member.eventually(lambda: member.operator.status.requests)
            (request,) = member.operator.status.requests
            assert request.principal == principal[:MAX_REQUESTER_LENGTH]
            task.cancel()

    member.run(scenario)


def test_all_requests_together_leave_room_in_the_object(
    member: "MemberKit", monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            first = await requested(member, CreateTopic(name="orders", partitions=1))
            (request,) = member.operator.status.requests
            room = admin_requests.stored_bytes(request)
            assert room > len(request.body)
            # Its deadline is shorter where it falls on a whole second.
            too_little = 2 * room - len(".000000Z")
            monkeypatch.setattr(admin_requests, "MAX_ADMIN_REQUESTS_BYTES", too_little - 1)
            refused = await member.store.submit(CreateTopic(name="orders", partitions=1), USER)
            assert refused is admin_requests.TOO_LARGE
            assert len(member.operator.status.requests) == 1
            first.cancel()

    member.run(scenario)


def test_requests_of_the_process_before_go_with_its_registration(member: "MemberKit") -> None:
    async def scenario() -> None:
        async with member.admitted(1):
            task = await requested(member, CreateTopic(name="orders", partitions=1))
            left = member.api.objects["brokers", "c1-1"]["status"]["requests"]
            task.cancel()
            await member.eventually(lambda: not member.operator.status.requests)
        member.api.objects["brokers", "c1-1"]["status"]["requests"] = left
        member.api.patches.clear()
        before = member.operator.status.incarnation
        async with member.starting():
            await member.eventually(lambda: member.operator.status.incarnation != before)
            (first, *_) = [patch for kind, patch in member.api.patches if kind == "brokers"]
            assert {"incarnation", "requests"} <= set(first["status"])  # type: ignore[call-overload]
            assert not member.operator.status.requests

    member.run(scenario)
