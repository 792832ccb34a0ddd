"""The requests of a producer to its coordinator, in every version that changes something."""

from typing import TYPE_CHECKING

import pytest

from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_core.transactions.states import TransactionState
from chiplog_wire.protocol.errors import ErrorCode
from tests.transaction_coordinator.fake_partition import Written, markers_are_noted
from tests.transaction_coordinator.transactions_kit import (
    BUSY,
    FENCED,
    OK,
    Producing,
    at_rest,
    running,
)

if TYPE_CHECKING:
    from tests.conftest import Kit


@pytest.mark.parametrize("version", [0, 2, 3])
def test_a_transaction_of_the_first_generation(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    written = markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing = Producing(client, version=version)
            producer = await producing.ready()
            assert producer.epoch == 0
            orders = At("orders", 0), At("orders", 1)
            assert await producing.add(producer, *orders) == dict.fromkeys(orders, OK)
            assert await producing.add_offsets(producer) is OK
            assert await producing.end(producer, commit=True) == (OK, None)
            stored = await at_rest(kit)
            assert stored.state is TransactionState.COMPLETE_COMMIT
            assert stored.producer == producer
            offsets = At("__consumer_offsets", 0)
            assert written == {Written(at, producer, True) for at in (*orders, offsets)}
            # The next one is aborted.
            written.clear()
            assert await producing.add(producer, orders[0]) == {orders[0]: OK}
            assert await producing.end(producer, commit=False) == (OK, None)
            assert (await at_rest(kit)).state is TransactionState.COMPLETE_ABORT
            assert written == {Written(orders[0], producer, False)}

    kit.run(scenario)


def test_a_transaction_of_the_second_generation(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    written = markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing, at = Producing(client, version=5), At("orders", 0)
            producer = await producing.ready()
            added = await producing.add_as_broker(producer, at, verify_only=False)
            assert added == {at: OK}
            raised = Producer(producer.producer_id, 1)
            assert await producing.end(producer) == (OK, raised)
            assert (await at_rest(kit)).producer == raised
            assert written == {Written(at, raised, True, is_raised=True)}
            # A repeated EndTxn gets the same answer, one of another producer does not.
            assert await producing.end(producer) == (OK, raised)
            assert await producing.end(Producer(producer.producer_id, 9)) == (
                FENCED,
                Producer(-1, -1),
            )
            # Without a transaction there is nothing to commit; an abort raises the epoch.
            assert (await producing.end(raised))[0] is ErrorCode.invalid_txn_state
            again = Producer(producer.producer_id, 2)
            assert await producing.end(raised, commit=False) == (OK, again)

    kit.run(scenario)


def test_a_new_producer_fences_the_one_before(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    written = markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing, at = Producing(client, version=4), At("orders", 0)
            first = await producing.ready()
            await producing.add(first, at)
            assert (await producing.init())[0] is BUSY, "its transaction is aborted first"
            second = await producing.ready()
            assert second.producer_id == first.producer_id
            assert second.epoch == first.epoch + 2, "one for the abort, one for the new producer"
            raised = Producer(first.producer_id, first.epoch + 1)
            assert written == {Written(at, raised, False, is_raised=True)}
            assert await producing.add(first, at) == {at: FENCED}
            assert (await producing.end(first))[0] is FENCED
            assert await producing.add_offsets(first) is FENCED
            # Clients of old versions do not know this code.
            old = Producing(client, version=1)
            assert await old.add(first, at) == {at: ErrorCode.invalid_producer_epoch}
            assert (await old.end(first))[0] is ErrorCode.invalid_producer_epoch
            # A producer that continues keeps its id, and gets another epoch.
            assert await producing.init(second) == (OK, Producer(second.producer_id, 3))
            assert (await producing.init(first))[0] is FENCED
            assert (await Producing(client, version=3).init(first))[0] is (
                ErrorCode.invalid_producer_epoch
            )

    kit.run(scenario)


def test_requests_that_are_refused(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders")
            producing, at = Producing(client, version=4), At("orders", 0)
            producer = await producing.ready()
            nobody = Producing(client, "", version=4)
            assert (await nobody.init())[0] is ErrorCode.invalid_request
            assert await nobody.add(producer, at) == {at: ErrorCode.invalid_request}
            assert (await nobody.end(producer))[0] is ErrorCode.invalid_request
            assert await nobody.add_offsets(producer) is ErrorCode.invalid_request
            assert (await producing.init(Producer(5, -1)))[0] is ErrorCode.invalid_request
            for timeout_ms in (0, 900_001):
                code, _ = await producing.init(timeout_ms=timeout_ms)
                assert code is ErrorCode.invalid_transaction_timeout
            assert await producing.add_offsets(producer, "") is ErrorCode.invalid_group_id
            # All partitions are added, or none.
            absent = At("absent", 0), At("orders", 7)
            assert await producing.add(producer, at, *absent) == {
                at: ErrorCode.operation_not_attempted,
                **dict.fromkeys(absent, ErrorCode.unknown_topic_or_partition),
            }
            internal = At("__consumer_offsets", 0)
            assert await producing.add(producer, at, internal) == {
                at: ErrorCode.operation_not_attempted,
                internal: ErrorCode.topic_authorization_failed,
            }
            assert (await producing.end(producer))[0] is ErrorCode.invalid_txn_state
            # Markers in the coordinators' own logs are not for clients to order.
            for internal in (At("__transaction_state", 0), At("__consumer_offsets", 0)):
                assert await producing.add(producer, at, internal) == {
                    at: ErrorCode.operation_not_attempted,
                    internal: ErrorCode.topic_authorization_failed,
                }
            assert (await producing.end(producer))[0] is ErrorCode.invalid_txn_state
            stranger = Producing(client, "other", version=4)
            code = ErrorCode.invalid_producer_id_mapping
            assert await stranger.add(producer, at) == {at: code}
            assert (await stranger.end(producer))[0] is code

    kit.run(scenario)


def test_brokers_verify_partitions(kit: "Kit", monkeypatch: pytest.MonkeyPatch) -> None:
    markers_are_noted(monkeypatch)

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            producing, here, other = Producing(client), At("orders", 0), At("orders", 1)
            producer = await producing.ready()
            await producing.add(producer, here)
            for version, refused in (
                (5, ErrorCode.transaction_abortable),
                (4, ErrorCode.invalid_txn_state),
            ):
                found = await producing.add_as_broker(
                    producer, here, other, verify_only=True, version=version
                )
                assert found == {here: OK, other: refused}
                # As in Kafka, nothing is verified beside a partition that does not exist.
                absent = At("absent", 0)
                found = await producing.add_as_broker(
                    producer, here, absent, verify_only=True, version=version
                )
                assert found == {
                    here: ErrorCode.operation_not_attempted,
                    absent: ErrorCode.unknown_topic_or_partition,
                }

    kit.run(scenario)
