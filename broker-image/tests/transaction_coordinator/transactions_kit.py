"""A client of the APIs of transactions, in any version, and the shard that answers it."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from chiplog_broker.transaction_coordinator.shard import TransactionShard
from chiplog_core.groups.at import At
from chiplog_core.transactions.producer import Producer
from chiplog_core.transactions.states import PREPARED
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.coordinator.groups_kit import make

if TYPE_CHECKING:
    from tests.conftest import Client, Kit

OK = ErrorCode.none
BUSY = ErrorCode.concurrent_transactions
FENCED = ErrorCode.producer_fenced
STATE = "__transaction_state"
TIMEOUT_MS = 60_000


def running(kit: "Kit", **config: str) -> "AbstractAsyncContextManager[Client]":
    return kit.running(**config)


def shard_of(kit: "Kit", index: int = 0) -> TransactionShard:
    return kit.broker._transactions._led.by_index[index]


async def loaded(kit: "Kit", index: int = 0) -> TransactionShard:
    while not shard_of(kit, index).is_loaded:  # noqa: ASYNC110 - nothing notifies of it
        await asyncio.sleep(0.001)
    return shard_of(kit, index)


async def at_rest(kit: "Kit", transactional_id: str = "t") -> StoredTransaction:
    """The state, once the markers of the last transaction are written."""
    while True:
        present = shard_of(kit)._log.present(transactional_id)
        stored = present.stored
        if stored is not None and not present.is_pending and stored.state not in PREPARED:
            return stored
        await asyncio.sleep(0.001)


@dataclass
class Producing:
    """One client's view of a transactional id. `version` is spoken where an API has it, else the
    nearest."""

    client: "Client"
    transactional_id: str = "t"
    version: int = 3

    def _version(self, key: ApiKey) -> int:
        return max(min(self.version, APIS[key].max_version), APIS[key].min_version)

    async def ask(self, key: ApiKey, **values: Any) -> Any:
        version = self._version(key)
        types = self.client.types(key, version)
        request = make(getattr(types, f"{APIS[key].name}Request"), **values)
        return await self.client.ask(key, request, version)

    async def init(
        self, producer: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> tuple[ErrorCode, Producer]:
        given = producer or Producer(-1, -1)
        answer = await self.ask(
            ApiKey.INIT_PRODUCER_ID,
            transactional_id=self.transactional_id,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
            producer_id=given.producer_id,
            producer_epoch=given.epoch,
        )
        found = Producer(answer.producer_id, answer.producer_epoch)
        return ErrorCode(answer.error_code), found

    async def ready(self, **options: Any) -> Producer:
        """The producer, after as many requests as it takes."""
        while True:
            code, producer = await self.init(**options)
            if code is OK:
                return producer
            assert code in {BUSY, ErrorCode.coordinator_load_in_progress}, code
            await asyncio.sleep(0.001)

    async def add(self, producer: Producer, *partitions: tuple[str, int]) -> dict[At, ErrorCode]:
        """Add partitions, in a version for clients."""
        key, version = ApiKey.ADD_PARTITIONS_TO_TXN, min(self.version, 3)
        types = self.client.types(key, version)
        request = types.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics(types, partitions),
        )
        answer = await self.client.ask(key, request, version)
        return codes(answer.results_by_topic_v3_and_below)

    async def add_as_broker(
        self, producer: Producer, *partitions: tuple[str, int], verify_only: bool, version: int = 5
    ) -> dict[At, ErrorCode]:
        """Add or verify partitions, in a version for brokers."""
        key = ApiKey.ADD_PARTITIONS_TO_TXN
        types = self.client.types(key, version)
        transaction = types.AddPartitionsToTxnTransaction(
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify_only,
            topics=topics(types, partitions),
        )
        request = types.AddPartitionsToTxnRequest(transactions=(transaction,))
        answer = await self.client.ask(key, request, version)
        assert answer.error_code == OK
        (result,) = answer.results_by_transaction
        return codes(result.topic_results)

    async def add_offsets(self, producer: Producer, group_id: str = "g") -> ErrorCode:
        answer = await self.ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        return ErrorCode(answer.error_code)

    async def end(
        self, producer: Producer, *, commit: bool = True
    ) -> tuple[ErrorCode, Producer | None]:
        """The code, and with version 5 the producer that continues."""
        answer = await self.ask(
            ApiKey.END_TXN,
            transactional_id=self.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=commit,
        )
        is_second = self._version(ApiKey.END_TXN) >= 5
        found = Producer(answer.producer_id, answer.producer_epoch) if is_second else None
        return ErrorCode(answer.error_code), found


def topics(types: Any, partitions: Iterable[tuple[str, int]]) -> tuple[Any, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    return tuple(
        types.AddPartitionsToTxnTopic(name=name, partitions=tuple(indexes))
        for name, indexes in by_topic.items()
    )


def codes(results: Iterable[Any]) -> dict[At, ErrorCode]:
    return {
        At(topic.name, one.partition_index): ErrorCode(one.partition_error_code)
        for topic in results
        for one in topic.results_by_partition
    }
