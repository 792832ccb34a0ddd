"""aiokafka: the first generation of transactions, with the oldest request versions."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Self, TypeVar

from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    AIOKafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.errors import KafkaError, ProducerFenced  # type: ignore[import-untyped]

from e2e.clients.by_aiokafka import Aiokafka
from e2e.transactions.client import (
    LIMIT_S,
    MAX_POLL_RECORDS,
    TRANSACTION_TIMEOUT_MS,
    Input,
    Isolation,
    Producer,
    Source,
    TransactionalClient,
    errors_of,
    inputs,
)

T = TypeVar("T")
Wait = Callable[[Coroutine[Any, Any, Any]], Any]
CLOSE_LIMIT_S = 5


its_errors = partial(errors_of, KafkaError, ProducerFenced)
"""Turns the library's errors into those of the interface."""


class AiokafkaSource(Source):
    def __init__(self, wait: Wait, bootstrap: str, group: str, topic: str) -> None:
        self.wait, self.group = wait, group

        async def start() -> Any:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level=Isolation.COMMITTED.value,
            )
            await consumer.start()
            return consumer

        self.consumer = wait(start())

    def poll(self) -> list[Input]:
        return inputs(
            self.wait(self.consumer.getmany(timeout_ms=500, max_records=MAX_POLL_RECORDS))
        )

    def positions(self) -> dict[Any, int]:
        """The next offset of each partition."""

        async def find() -> dict[Any, int]:
            return {one: await self.consumer.position(one) for one in self.consumer.assignment()}

        found: dict[Any, int] = self.wait(find())
        return found

    def rewind(self) -> None:
        async def seek() -> None:
            for one in self.consumer.assignment():
                self.consumer.seek(one, await self.consumer.committed(one) or 0)

        self.wait(seek())

    def close(self) -> None:
        self.wait(self.consumer.stop())


class AiokafkaProducer(Producer):
    def __init__(self, wait: Wait, bootstrap: str, transactional_id: str, timeout_ms: int) -> None:
        self.wait = wait
        self.sent: list[Any] = []

        async def start() -> Any:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        with its_errors():
            self.producer = wait(start())

    def begin(self) -> None:
        self.sent = []
        with its_errors():
            self.wait(self.producer.begin_transaction())

    def send(self, topic: str, partition: int, values: Sequence[bytes]) -> None:
        with its_errors():
            for value in values:
                self.sent.append(self.wait(self.producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        async def all_answered() -> None:
            await asyncio.gather(*self.sent)

        with its_errors():
            self.wait(all_answered())

    def send_offsets(self, source: Source) -> None:
        assert isinstance(source, AiokafkaSource)
        with its_errors():
            self.wait(self.producer.send_offsets_to_transaction(source.positions(), source.group))

    def send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str
    ) -> None:
        position = {TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata)}
        with its_errors():
            self.wait(self.producer.send_offsets_to_transaction(position, group))

    def commit(self) -> None:
        with its_errors():
            self.wait(self.producer.commit_transaction())

    def abort(self) -> None:
        with its_errors():
            self.wait(self.producer.abort_transaction())

    def close(self) -> None:
        async def stop() -> None:
            # After an error it may wait for the end of a transaction that does not come.
            with suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(CLOSE_LIMIT_S):
                    await self.producer.stop()
            for one in self.sent:
                if one.done() and not one.cancelled():
                    one.exception()  # the caller knows by the commit

        self.wait(stop())


class TransactionalAiokafka(TransactionalClient):
    """The library, on an event loop in a thread of its own."""

    name: ClassVar[str] = "aiokafka"

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run it on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(LIMIT_S)

    def producer(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> AiokafkaProducer:
        return AiokafkaProducer(self._wait, bootstrap, transactional_id, timeout_ms)

    def source(self, bootstrap: str, group: str, topic: str) -> AiokafkaSource:
        return AiokafkaSource(self._wait, bootstrap, group, topic)

    def read(
        self, bootstrap: str, topic: str, partition: int, count: int, isolation: Isolation
    ) -> list[bytes]:
        client = Aiokafka({"isolation_level": isolation.value})
        found = client.consume(bootstrap, topic, partition, count)
        return [one.record.value or b"" for one in found]
