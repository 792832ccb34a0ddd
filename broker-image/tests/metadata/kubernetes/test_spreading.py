"""A client is told of a new topic when the other brokers know it, too; but it is told."""

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.view import TopicView
from chiplog_broker.peers import spreading
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run

if TYPE_CHECKING:
    from tests.conftest import Client

OK = ErrorCode.none


async def create(client: "Client", brokers: Brokers) -> "asyncio.Task[Any]":
    """Ask broker 1 for the topic that the operator is about to make."""
    types = client.types(ApiKey.CREATE_TOPICS)
    topic = types.CreatableTopic(
        name="orders", num_partitions=1, replication_factor=3, assignments=(), configs=()
    )
    request = types.CreateTopicsRequest(
        topics=(topic,), timeout=brokers.kit.milliseconds(20_000), validate_only=False
    )
    requested = asyncio.create_task(client.ask(ApiKey.CREATE_TOPICS, request))
    await brokers.eventually(lambda: brokers.status(1).requests)
    return requested


def hold_back(brokers: Brokers, broker_id: int) -> asyncio.Event:
    """This broker learns of no topic before the event."""
    replicas, may_go = brokers.up[broker_id].broker._replicas, asyncio.Event()
    apply = replicas.apply

    async def later(topic: TopicView) -> None:
        await may_go.wait()
        await apply(topic)

    replicas.apply = later  # type: ignore[method-assign]
    return may_go


async def made(brokers: Brokers) -> None:
    """The operator carries it out, and broker 1 has seen it."""
    brokers.operator.answer(brokers.status(1).requests[0].id)
    brokers.lead(1)
    await brokers.eventually(lambda: brokers.leads(1) and brokers.follows(2))


def test_success_is_reported_when_the_other_brokers_know_the_topic(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "WITHIN_S", 60.0)

    async def scenario() -> None:
        brokers.wait_for_others = True
        await brokers.start(*ALL)
        may_go = hold_back(brokers, 3)
        requested = await create(await brokers.client(1), brokers)
        await made(brokers)
        was_done = await done_soon(requested)
        may_go.set()
        answer = await requested
        assert not was_done, "broker 3 did not know it"
        assert [one.error_code for one in answer.topics] == [OK]
        assert brokers.up[3].broker._cluster.topic("orders") is not None

    run(brokers, scenario)


def test_a_broker_that_never_learns_of_it_holds_nobody_up(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "WITHIN_S", 0.2)

    async def scenario() -> None:
        brokers.wait_for_others = True
        await brokers.start(*ALL)
        may_go = hold_back(brokers, 3)
        requested = await create(await brokers.client(1), brokers)
        await made(brokers)
        answer = await requested
        assert [one.error_code for one in answer.topics] == [OK]
        may_go.set()

    run(brokers, scenario)


def test_a_broker_that_cannot_be_reached_holds_nobody_up(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreading, "WITHIN_S", 60.0)

    async def scenario() -> None:
        brokers.wait_for_others = True
        await brokers.start(*ALL)
        await brokers.stop(3)
        requested = await create(await brokers.client(1), brokers)
        await made(brokers)
        answer = await requested
        assert [one.error_code for one in answer.topics] == [OK]

    run(brokers, scenario)


async def done_soon(requested: "asyncio.Task[Any]") -> bool:
    done, _ = await asyncio.wait([requested], timeout=0.3)
    return bool(done)
