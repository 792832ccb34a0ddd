"""An AddPartitionsToTxn with very many partitions does not keep the broker from other work."""

import threading
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.handlers import markers, transactions
from chiplog_broker.handlers.authorized import transactions as authorized
from chiplog_broker.server.dispatch import LARGE_ANSWER
from chiplog_core.groups.at import At
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import run_steps
from tests.authorization.people import people
from tests.coordinator.groups_kit import make
from tests.transaction_coordinator.transactions_kit import (
    OK,
    Producing,
    at_rest,
    codes,
    running,
    topics,
)

if TYPE_CHECKING:
    from chiplog_core.transactions.producer import Producer
    from tests.conftest import Kit

ORDERS = At("orders", 0)
VERSION = 3


def adding(client: Any, producer: "Producer", *partitions: At) -> Any:
    types = client.types(ApiKey.ADD_PARTITIONS_TO_TXN, VERSION)
    return types.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=topics(types, partitions),
    )


@pytest.fixture
def on_loop(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of answers that were made on the event loop's thread."""
    made: list[int] = []
    sound = transactions.added_response

    def noted(results: Any) -> object:
        if threading.current_thread() is threading.main_thread():
            made.extend(map(len, results.values()))
        return sound(results)

    monkeypatch.setattr(transactions, "added_response", noted)
    monkeypatch.setattr(authorized, "added_response", noted)
    return made


def test_many_partitions_take_several_slices(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch, on_loop: list[int]
) -> None:
    slices: list[int] = []

    def whole(steps: Any) -> Any:
        found = run_steps(steps)
        slices.extend(len(one.partitions) for one in found)
        return found

    monkeypatch.setattr(transactions, "run_steps", whole)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 400)
            producing = Producing(client, version=4)
            producer = await producing.ready()
            many = [At("orders", index) for index in range(400)]
            unknown = [At("other", index) for index in range(5_000)]
            found = await producing.add(producer, *many, *unknown)
            assert found == {
                **dict.fromkeys(many, ErrorCode.operation_not_attempted),
                **dict.fromkeys(unknown, ErrorCode.unknown_topic_or_partition),
            }
            assert await producing.add(producer, *many) == dict.fromkeys(many, OK)
            assert await producing.add(producer, ORDERS) == {ORDERS: OK}
            assert slices == on_loop == [1], "the small one only"
            assert (await producing.end(producer))[0] is OK
            assert (await at_rest(kit)).state == "CompleteCommit"

    kit.run(scenario)


def test_nothing_overtakes_them(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", LARGE_ANSWER + 1)
            producer = await Producing(client, version=4).ready()
            many = [At("orders", index) for index in range(LARGE_ANSWER + 1)]
            await client.send(
                ApiKey.ADD_PARTITIONS_TO_TXN, adding(client, producer, *many), VERSION
            )
            end = make(
                client.types(ApiKey.END_TXN, VERSION).EndTxnRequest,
                transactional_id="t",
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                committed=False,
            )
            await client.send(ApiKey.END_TXN, end, VERSION)
            added = codes((await client.receive()).results_by_topic_v3_and_below)
            assert added == dict.fromkeys(many, OK)
            assert (await client.receive()).error_code == OK

    kit.run(scenario)


def test_a_denied_request_is_not_answered_on_the_event_loop(kit: "Kit", on_loop: list[int]) -> None:
    async def scenario() -> None:
        async with people(kit) as they:
            await they.admin.create("orders", LARGE_ANSWER + 1)
            alice = Producing(they.alice, version=4)
            many = [At("orders", index) for index in range(LARGE_ANSWER + 1)]
            producer = await Producing(they.admin, version=4).ready()
            code = ErrorCode.transactional_id_authorization_failed
            assert await alice.add(producer, *many) == dict.fromkeys(many, code)
            await they.allow("write transactional_id t")
            code = ErrorCode.topic_authorization_failed
            assert await alice.add(producer, *many) == dict.fromkeys(many, code)
            assert on_loop == []
            assert await alice.add(producer, ORDERS) == {ORDERS: code}

    kit.run(scenario)


def marking(client: Any, *partitions: int) -> Any:
    types = client.types(ApiKey.WRITE_TXN_MARKERS, 1)
    topic = types.WritableTxnMarkerTopic(name="orders", partition_indexes=partitions)
    marker = types.WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=False,
        topics=(topic,),
        coordinator_epoch=0,
    )
    return types.WriteTxnMarkersRequest(markers=(marker,))


def test_markers_are_denied_beside_the_event_loop(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    sound = authorized.markers_denied

    def noted(message: Any) -> object:
        threads.append(threading.current_thread())
        return sound(message)

    monkeypatch.setattr(authorized, "markers_denied", noted)
    monkeypatch.setattr(markers, "MAX_NAMED", 1_000)

    async def scenario() -> None:
        async with people(kit) as they:
            many = marking(they.alice, *range(900))
            answer = await they.alice.ask(ApiKey.WRITE_TXN_MARKERS, many, 1)
            (topic,) = answer.markers[0].topics
            found = {ErrorCode(one.error_code) for one in topic.partitions}
            assert (len(topic.partitions), found) == (
                900,
                {ErrorCode.cluster_authorization_failed},
            )
            assert threads
            assert threading.main_thread() not in threads
            for client in (they.alice, they.admin):
                await client.send(ApiKey.WRITE_TXN_MARKERS, marking(client, *range(1_001)), 1)
                assert await client.is_closed()

    kit.run(scenario)


@pytest.mark.parametrize(
    "many",
    [
        [At("orders", index) for index in range(10)],
        [At(f"orders-{index}", 0) for index in range(10)],
    ],
)
def test_there_is_a_limit(kit: "Kit", monkeypatch: pytest.MonkeyPatch, many: list[At]) -> None:
    monkeypatch.setattr(transactions, "MAX_NAMED", 10)

    async def scenario() -> None:
        async with people(kit) as they:
            producer = await Producing(they.admin, version=4).ready()
            for client in (they.alice, they.admin):
                request = adding(client, producer, *many)
                await client.send(ApiKey.ADD_PARTITIONS_TO_TXN, request, VERSION)
                assert await client.is_closed()

    kit.run(scenario)
