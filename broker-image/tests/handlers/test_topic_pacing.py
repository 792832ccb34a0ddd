"""Clients that make and delete partitions faster than the quota says (KIP-599)."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers.pacing import STOP_CHECK_S, THROTTLE_FROM_VERSION, Pace
from chiplog_core.client_quotas.mutation_quota import MutationQuota
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK, EXCEEDED = ErrorCode.none, ErrorCode.throttling_quota_exceeded
SLOW = {"chiplog_controller_mutation_rate": "1"}
"""A burst of 11 partitions, then one a second."""


async def create(client: "Client", name: str, partitions: int) -> tuple[ErrorCode, timedelta]:
    types = client.types(ApiKey.CREATE_TOPICS)
    topic = types.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    request = types.CreateTopicsRequest(topics=(topic,))
    answer = await client.ask(ApiKey.CREATE_TOPICS, request)
    return ErrorCode(answer.topics[0].error_code), answer.throttle_time


async def grow(client: "Client", name: str, count: int) -> tuple[ErrorCode, timedelta]:
    types = client.types(ApiKey.CREATE_PARTITIONS)
    topic = types.CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = types.CreatePartitionsRequest(
        topics=(topic,),
        timeout=client.fetch_request(None, wait_ms=5000).max_wait,
        validate_only=False,
    )
    answer = await client.ask(ApiKey.CREATE_PARTITIONS, request)
    return ErrorCode(answer.results[0].error_code), answer.throttle_time


async def delete(client: "Client", name: str) -> tuple[ErrorCode, timedelta]:
    types = client.types(ApiKey.DELETE_TOPICS)
    request = types.DeleteTopicsRequest(
        topics=(types.DeleteTopicState(name=name, topic_id=None),),
        timeout=client.fetch_request(None, wait_ms=5000).max_wait,
    )
    answer = await client.ask(ApiKey.DELETE_TOPICS, request)
    return ErrorCode(answer.responses[0].error_code), answer.throttle_time


def test_beyond_the_quota_a_client_gets_the_time_of_a_retry(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**SLOW) as client:
            assert await create(client, "a", 100) == (OK, timedelta(0))
            for answer in (
                await create(client, "b", 1),
                await grow(client, "a", 101),
                await delete(client, "a"),
            ):
                code, throttle = answer
                assert code == EXCEEDED
                assert timedelta(seconds=60) < throttle <= timedelta(seconds=89)
            assert await client.users_topics() == ["a"]

    kit.run(scenario)


def test_a_topic_that_is_there_already_costs_nothing(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**SLOW) as client:
            assert (await create(client, "a", 100))[0] is OK
            answer = await create(client, "a", 100)
            assert answer == (ErrorCode.topic_already_exists, timedelta(0))
            assert (await create(client, "b", 1))[0] is EXCEEDED

    kit.run(scenario)


def test_a_topic_that_is_requested_is_not_made_beyond_the_quota(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**SLOW, auto_create_topics_enable="true") as client:
            assert (await create(client, "a", 100))[0] == OK
            answer = await client.metadata("by-asking", auto_create=True)
            assert answer.topics[0].error_code == ErrorCode.unknown_topic_or_partition
            assert await client.users_topics() == ["a"]

    kit.run(scenario)


class Clock:
    """One that only sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.mark.parametrize(
    ("longest_wait_s", "code", "waited_s"),
    [(90.0, None, 89), (88.0, ErrorCode.request_timed_out, 0)],
)
def test_a_version_that_does_not_know_the_error_waits(
    longest_wait_s: float, code: ErrorCode | None, waited_s: float
) -> None:
    async def scenario() -> None:
        clock, quota = Clock(), MutationQuota(1)
        assert quota.spend("here", 100, clock.monotonic_s()) == 0
        pace = Pace(partial(quota.spend, "here"), clock, longest_wait_s)
        outcome = await pace.spend(1)
        assert (outcome and outcome.code) == code
        assert clock.now_s == pytest.approx(waited_s, abs=1)
        assert pace.throttle_time == timedelta(0)

    asyncio.run(scenario())


def test_nobody_waits_for_a_quota_when_the_broker_stops(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**SLOW) as client:
            await create(client, "a", 35)
            received = kit.broker.requests.apis[ApiKey.CREATE_TOPICS]
            before_bytes = received.bytes_in
            old = client.types(ApiKey.CREATE_TOPICS, 5)
            topic = old.CreatableTopic(
                name="b", num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            request = old.CreateTopicsRequest(
                topics=(topic,), timeout=timedelta(minutes=10), validate_only=False
            )
            await client.send(ApiKey.CREATE_TOPICS, request, 5)
            while received.bytes_in == before_bytes:  # noqa: ASYNC110 - nobody is told of it
                await asyncio.sleep(0.001)
            stopping = asyncio.create_task(kit.broker.stop())
            answer = await asyncio.wait_for(client.receive(), 5 * 2 * STOP_CHECK_S)
            assert answer.topics[0].error_code == ErrorCode.request_timed_out
            await stopping

    kit.run(scenario)


@pytest.mark.parametrize(
    ("key", "told"),
    [(ApiKey.CREATE_TOPICS, 6), (ApiKey.DELETE_TOPICS, 5), (ApiKey.CREATE_PARTITIONS, 3)],
)
def test_the_versions_that_carry_the_error_are_kafkas(key: ApiKey, told: int) -> None:
    assert THROTTLE_FROM_VERSION[key] == told
    assert APIS[key].serves(told)


def test_the_number_of_topics_and_partitions_has_a_limit(kit: "Kit") -> None:
    async def scenario() -> None:
        limits: dict[str, Any] = {"chiplog_max_topics": "2", "chiplog_max_partitions": "10"}
        async with kit.running(**limits) as client:
            assert (await create(client, "a", 9))[0] == OK
            assert (await create(client, "b", 2))[0] == ErrorCode.policy_violation
            assert (await create(client, "b", 1))[0] == OK
            assert (await create(client, "c", 1))[0] == ErrorCode.policy_violation
            assert (await grow(client, "b", 2))[0] == ErrorCode.policy_violation
            assert (await delete(client, "a"))[0] == OK
            assert (await create(client, "c", 9))[0] == OK

    kit.run(scenario)


def test_what_was_there_before_the_limit_runs_on(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            for name in ("a", "b", "c"):
                assert (await create(client, name, 5))[0] == OK
        async with kit.running(chiplog_max_topics="1", chiplog_max_partitions="1") as client:
            assert await client.users_topics() == ["a", "b", "c"]
            (produced,) = await client.produce("a", kit.batch(b"1"))
            assert produced.error_code == OK
            assert (await create(client, "d", 1))[0] == ErrorCode.policy_violation

    kit.run(scenario)
