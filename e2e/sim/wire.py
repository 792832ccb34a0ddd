"""A Kafka client's connections: who leads what, and one connection to each broker.

Requests are kio's; Produce and ListOffsets name topics, Fetch says their ids. Frames and answers
go through the broker's own client half (`peers.connection`).
"""

import importlib
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.serial import entity_reader

from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.errors import PeerError
from chiplog_broker.ports.net import SystemNet
from chiplog_broker.protocol.apis import ApiKey
from chiplog_broker.protocol.codec import outgoing, schema
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.records.batch import check_crc, read_header
from chiplog_broker.records.errors import CorruptBatchError
from chiplog_broker.records.reader import read_records

TIMEOUT_S: Final = 5.0
PORT: Final = 9092
MAX_BYTES: Final = 1 << 20
VERSIONS: Final = {
    ApiKey.METADATA: 12,
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 13,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.INIT_PRODUCER_ID: 4,
}
LATEST: Final = -1
EARLIEST: Final = -2
UNREACHED: Final = (PeerError, OSError, TimeoutError)


class TopicPartition(NamedTuple):
    """One partition; the same number under a name that was given anew is another one."""

    topic: str
    number: int
    topic_id: UUID

    def __str__(self) -> str:
        """The label of histories."""
        return f"{self.topic}-{self.number}/{self.topic_id.hex[2:10]}"


class Fetched(NamedTuple):
    """What a Fetch said of one partition."""

    partition: TopicPartition
    error: int
    records: list[tuple[int, str]]


@cache
def types(key: ApiKey) -> Any:
    """The module of the request's classes."""
    return importlib.import_module(f"kio.schema.{key.name.lower()}.v{VERSIONS[key]}.request")


class Wire:
    """Of one client."""

    def __init__(self, bootstrap: Sequence[str], chance: random.Random, name: str) -> None:
        self._bootstrap = bootstrap
        self._chance = chance
        self._name = name
        self.fetch_wait_ms = 500
        self._connections: dict[tuple[str, int], PeerConnection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        """The newest reign of each partition that was heard of."""

    async def ask(self, at: tuple[str, int], key: ApiKey, message: object) -> Any:
        """Raises one of `UNREACHED`."""
        connection = self._connections.get(at)
        if connection is None or not connection.is_open:
            connection = PeerConnection(self._name)
            self._connections[at] = connection
            await SystemNet().connect(connection, *at)
        try:
            return await exchange(connection, key, message)
        except BaseException:
            connection.close()
            raise

    async def learn(self) -> None:
        """Ask somebody who leads. Raises one of `UNREACHED`."""
        request = schema.request_class(ApiKey.METADATA, VERSIONS[ApiKey.METADATA])(
            topics=None, allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        answer = await self.ask(self.anybody(), ApiKey.METADATA, request)
        self._brokers = {int(one.node_id): (one.host, int(one.port)) for one in answer.brokers}
        for topic in answer.topics:
            for one in topic.partitions:
                if topic.topic_id is not None:
                    number = int(one.partition_index)
                    self._learned(TopicPartition(str(topic.name), number, topic.topic_id), one)

    def _learned(self, partition: TopicPartition, one: Any) -> None:
        """What an older reign says of itself is not believed, as Java's client does it."""
        epoch = int(one.leader_epoch)
        if one.error_code == 0 and epoch >= self.epochs.get(partition, -1):
            self.leaders[partition], self.epochs[partition] = int(one.leader_id), epoch
        elif epoch >= self.epochs.get(partition, -1):
            self.leaders.pop(partition, None)

    def anybody(self) -> tuple[str, int]:
        return self._chance.choice(self._bootstrap), PORT

    def leader(self, partition: TopicPartition) -> tuple[str, int] | None:
        return self._brokers.get(self.leaders.get(partition, -1))

    def address(self, broker_id: int) -> tuple[str, int] | None:
        return self._brokers.get(broker_id)

    async def new_producer_id(self) -> tuple[int, int]:
        """(id, epoch). Raises one of `UNREACHED`, also for an answer with an error."""
        request = schema.request_class(ApiKey.INIT_PRODUCER_ID, VERSIONS[ApiKey.INIT_PRODUCER_ID])(
            transactional_id=None,
            transaction_timeout=timedelta(0),
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = await self.ask(self.anybody(), ApiKey.INIT_PRODUCER_ID, request)
        if answer.error_code:
            raise PeerError(answer.error_code.name)
        return int(answer.producer_id), int(answer.producer_epoch)

    async def produce(
        self, at: tuple[str, int], partition: TopicPartition, batch: bytes, acks: int
    ) -> tuple[int, int]:
        """(error, base offset). Raises one of `UNREACHED`."""
        kio = types(ApiKey.PRODUCE)
        request = kio.ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout=timedelta(milliseconds=4000),
            topic_data=(
                kio.TopicProduceData(
                    name=partition.topic,
                    partition_data=(
                        kio.PartitionProduceData(index=partition.number, records=batch),
                    ),
                ),
            ),
        )
        answer = await self.ask(at, ApiKey.PRODUCE, request)
        one = answer.responses[0].partition_responses[0]
        return int(one.error_code), int(one.base_offset)

    async def fetch(self, at: tuple[str, int], wanted: dict[TopicPartition, int]) -> list[Fetched]:
        """Raises one of `UNREACHED`."""
        kio = types(ApiKey.FETCH)
        topics = {one.topic_id: one.topic for one in wanted}
        request = kio.FetchRequest(
            replica_id=-1,
            max_wait=timedelta(milliseconds=self.fetch_wait_ms),
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=1,
            session_id=0,
            session_epoch=-1,
            topics=tuple(
                kio.FetchTopic(
                    topic_id=topic_id,
                    partitions=tuple(
                        kio.FetchPartition(
                            partition=one.number,
                            current_leader_epoch=self.epochs.get(one, -1),
                            fetch_offset=offset,
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            partition_max_bytes=MAX_BYTES,
                        )
                        for one, offset in wanted.items()
                        if one.topic_id == topic_id
                    ),
                )
                for topic_id in topics
            ),
            forgotten_topics_data=(),
            rack_id="",
        )
        answer = await self.ask(at, ApiKey.FETCH, request)
        return [
            fetched(
                TopicPartition(topics[topic.topic_id], int(one.partition_index), topic.topic_id),
                int(one.error_code),
                bytes(one.records or b""),
            )
            for topic in answer.responses
            if topic.topic_id in topics
            for one in topic.partitions
        ]

    async def offset(
        self, at: tuple[str, int], partition: TopicPartition, timestamp_ms: int = LATEST
    ) -> tuple[int, int]:
        """(error, offset), of the next record or the first. Raises one of `UNREACHED`."""
        kio = types(ApiKey.LIST_OFFSETS)
        request = kio.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1,
            topics=(
                kio.ListOffsetsTopic(
                    name=partition.topic,
                    partitions=(
                        kio.ListOffsetsPartition(
                            partition_index=partition.number,
                            current_leader_epoch=self.epochs.get(partition, -1),
                            timestamp=timestamp_ms,
                        ),
                    ),
                ),
            ),
        )
        answer = await self.ask(at, ApiKey.LIST_OFFSETS, request)
        one = answer.topics[0].partitions[0]
        return int(one.error_code), int(one.offset)


async def exchange(connection: PeerConnection, key: ApiKey, message: object) -> Any:
    """kio's own reader for answers: the broker's reads no records."""
    version = VERSIONS[key]
    body = await connection.exchange(key, version, [outgoing.encode_request(message)], TIMEOUT_S)
    answer, _ = _answer_reader(key)(bytes(body), 0)
    return answer


@cache
def _answer_reader(key: ApiKey) -> Callable[[bytes, int], tuple[Any, int]]:
    return entity_reader(schema.response_class(key, VERSIONS[key]))


def fetched(partition: TopicPartition, error: int, records: bytes) -> Fetched:
    """Clients check checksums, and what is damaged they did not get."""
    try:
        return Fetched(partition, error, records_in(records))
    except CorruptBatchError:
        return Fetched(partition, int(ErrorCode.corrupt_message), [])


def records_in(data: bytes) -> list[tuple[int, str]]:
    """(offset, value) of all records of whole batches. Raises `CorruptBatchError`."""
    found: list[tuple[int, str]] = []
    view, position = memoryview(data), 0
    while len(view) - position >= 61:
        header = read_header(view[position:])
        if position + header.size_bytes > len(view):
            break
        batch = view[position : position + header.size_bytes]
        check_crc(batch, header)
        found += [(one.offset, (one.value or b"").decode()) for one in read_records(batch, header)]
        position += header.size_bytes
    return found
