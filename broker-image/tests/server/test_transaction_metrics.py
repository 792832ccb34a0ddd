"""The metrics of transactions: what is open, what waits for markers, and what hangs."""

import asyncio
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.partitions.marker import Marker
from chiplog_broker.server.exposition import transactions
from chiplog_broker.transactions.figures import figures
from chiplog_core.config.transaction_keys import TRANSACTION_MAX_TIMEOUT_MS
from chiplog_core.groups.at import At
from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from tests.server.exposition_kit import Samples, told
from tests.transaction_coordinator.transactions_kit import (
    OK,
    Producing,
    at_rest,
    loaded,
    running,
    shard_of,
)

if TYPE_CHECKING:
    from tests.conftest import Kit

OPEN, OLDEST, IDS, COMMITTED, ABORTED, TIMED_OUT, LATE = (
    ("chiplog_broker_transactions_open",),
    ("chiplog_broker_transactions_oldest_open_seconds",),
    ("chiplog_broker_transactional_ids",),
    ("chiplog_broker_transactions_committed_total",),
    ("chiplog_broker_transactions_aborted_total",),
    ("chiplog_broker_transactions_timed_out_total",),
    ("kafka_server_replicamanager_partitionswithlatetransactionscount",),
)


def of(samples: Samples, *names: tuple[str, ...]) -> list[float]:
    return [samples[name] for name in names]


def stored(
    state: TransactionState, *, start_ms: int = -1, update_ms: int = 0, partitions: int = 1
) -> StoredTransaction:
    return StoredTransaction(
        producer_id=1,
        producer_epoch=0,
        transaction_timeout_ms=1_000,
        state=state,
        partitions=frozenset(At("orders", index) for index in range(partitions)),
        last_update_timestamp_ms=update_ms,
        start_timestamp_ms=start_ms,
    )


def test_a_transaction_is_counted_as_it_begins_and_ends(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await loaded(kit)
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready()
            assert of(await told(kit.broker), IDS, OPEN, OLDEST) == [1, 0, 0]
            await producing.add(producer, ("orders", 0))
            await asyncio.sleep(0.01)
            found = await told(kit.broker)
            assert of(found, IDS, OPEN, COMMITTED) == [1, 1, 0]
            assert 0.01 <= found[OLDEST] < 60
            await producing.end(producer)
            await at_rest(kit)
            assert of(await told(kit.broker), OPEN, OLDEST, COMMITTED, ABORTED) == [0, 0, 1, 0]
            await producing.add(producer, ("orders", 0))
            assert (await producing.end(producer, commit=False))[0] is OK
            await at_rest(kit)
            assert of(await told(kit.broker), COMMITTED, ABORTED, TIMED_OUT) == [1, 1, 0]

    kit.run(scenario)


def test_a_transaction_that_times_out_is_counted(kit: "Kit") -> None:
    async def scenario() -> None:
        async with running(kit) as client:
            await loaded(kit)
            await client.create("orders")
            producing = Producing(client)
            producer = await producing.ready(timeout_ms=1)
            await producing.add(producer, ("orders", 0))
            await asyncio.sleep(0.01)
            await kit.broker._transactions.abort_timed_out()
            while shard_of(kit).unfinished():  # noqa: ASYNC110 - nothing notifies of it
                await asyncio.sleep(0.001)
            assert of(await told(kit.broker), OPEN, ABORTED, TIMED_OUT) == [0, 1, 1]

    kit.run(scenario)


def test_a_partition_with_a_hanging_transaction(
    kit: "Kit", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody coordinates it: a record that arrived after the end of its transaction."""

    async def scenario() -> None:
        async with running(kit) as client:
            await client.create("orders", 2)
            partition = kit.broker._replicas.get("orders", 0)
            assert partition is not None
            sender = Producer(producer_id=7, epoch=0, base_sequence=0)
            options = BatchOptions(producer=sender, transactional=True)
            batch = build_batch([NewRecord(b"late", timestamp_ms=1)], options)
            verified = partition.verifications.begin(sender.producer_id)
            partition.append(memoryview(batch), 1, acks_all=True, verification=verified)
            partition.verifications.end(verified)
            # Its timestamp is of 1970, and does not count.
            assert of(await told(kit.broker), LATE) == [0]
            longest_ms = TRANSACTION_MAX_TIMEOUT_MS.default
            assert longest_ms is not None
            monkeypatch.setattr(transactions, "LATE_MS", -longest_ms)
            await asyncio.sleep(0.01)
            assert of(await told(kit.broker), LATE) == [1]
            marker = Marker(producer_id=7, producer_epoch=0, is_commit=False, coordinator_epoch=0)
            partition.append_marker(marker, 1)
            assert of(await told(kit.broker), LATE) == [0]

    kit.run(scenario)


def test_decided_transactions_wait_for_their_markers() -> None:
    unfinished = [
        stored(TransactionState.ONGOING, start_ms=900),
        stored(TransactionState.ONGOING, start_ms=2_000),
        stored(TransactionState.PREPARE_ABORT, start_ms=1, update_ms=400),
        stored(TransactionState.PREPARE_COMMIT, start_ms=1, update_ms=700),
    ]
    found = figures(ids=9, unfinished=unfinished, unwritten_markers=3, now_ms=1_000)
    assert (found.ids, found.open, found.oldest_open_ms) == (9, 2, 100)
    assert (found.decided, found.oldest_decided_ms, found.unwritten_markers) == (2, 600, 3)
    found = figures(ids=0, unfinished=[], unwritten_markers=0, now_ms=1_000)
    assert found == (0, 0, 0, 0, 0, 0)
