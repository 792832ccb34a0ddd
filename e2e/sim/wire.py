"""A Kafka client's connections: who leads what, and one connection to each broker.

Requests are kio's; Produce and ListOffsets name topics, Fetch says their ids.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.errors import PeerError
from chiplog_broker.ports.net import SystemNet
from chiplog_wire.client.connection import encoded
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import check_crc, read_header
from chiplog_wire.records.errors import CorruptBatchError
from chiplog_wire.records.reader import Record, read_records
from e2e.kafka.messages import request, response

TIMEOUT_S: Final = 5.0
PORT: Final = 9092
PRODUCE_TIMEOUT_MS: Final = 4000
MAX_BYTES: Final = 1 << 20
VERSIONS: Final = {
    ApiKey.METADATA: 12,
    ApiKey.PRODUCE: 9,
    ApiKey.FETCH: 13,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.INIT_PRODUCER_ID: 4,
}
OLDEST: Final = {
    ApiKey.METADATA: 10,
    ApiKey.PRODUCE: 7,
    ApiKey.FETCH: 10,
    ApiKey.LIST_OFFSETS: 4,
    ApiKey.INIT_PRODUCER_ID: 0,
}
"""What a client may speak that learns topic ids, says epochs where it reads, and knows zstd."""
NAME_HEADER: Final = "name"
"""What a record is called that has no value."""
LATEST: Final = -1
EARLIEST: Final = -2


class ErrorAnswered(Exception):  # noqa: N818 - a name for what happened
    """The broker was reached, and answered with an error."""


UNREACHED: Final = (ErrorAnswered, OSError, PeerError)


class TopicPartition(NamedTuple):
    """One partition; the same number of a topic that was created again is another one."""

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
    read_at: int = -1
    """The broker that the consumer should rather ask (KIP-392)."""
    next_offset: int = -1
    """Where reading goes on; -1 where there was no whole batch."""


class Wire:
    """The connections and metadata of one client."""

    def __init__(self, bootstrap: Sequence[str], chance: random.Random, name: str) -> None:
        self._bootstrap = bootstrap
        self._chance = chance
        self._name = name
        self.fetch_wait_ms = 500
        self._versions: dict[ApiKey, int] = dict(VERSIONS)
        self._connections: dict[tuple[str, int], PeerConnection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self.partitions: list[TopicPartition] = []
        """All that the last answer to a Metadata request named, led by somebody or not."""
        self.leaders: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        """The highest leader epoch of each partition in answers so far."""

    def grow_old(self) -> None:
        """Speak some version of each request, as clients of all ages do."""
        self._versions = {
            key: self._chance.randint(oldest, APIS[key].max_version)
            for key, oldest in OLDEST.items()
        }

    async def say(
        self,
        at: tuple[str, int],
        key: ApiKey,
        version: int,
        values: Mapping[str, Any],
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """A request in any version, as `messages` makes it. Raises one of `UNREACHED`."""
        return await self.ask(at, key, request(key, version, values), version, timeout_s)

    async def ask(
        self,
        at: tuple[str, int],
        key: ApiKey,
        message: object,
        version: int = -1,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Raises one of `UNREACHED`."""
        connection = self._connections.get(at)
        if connection is None or not connection.is_open:
            connection = PeerConnection(self._name)
            # Before it is connected: of requests at the same time the last one's stays.
            self._connections[at] = connection
            await SystemNet().connect(connection, *at)
        try:
            return await exchange(connection, key, message, version, timeout_s)
        except BaseException:
            connection.close()
            raise

    async def learn(self) -> None:
        """Ask somebody which partitions there are, and who leads. Raises one of `UNREACHED`.

        What is not named any more is forgotten, as Java's client does it.
        """
        answer = await self._said(self.anybody(), ApiKey.METADATA, {"topics": None})
        self._brokers = {int(one.node_id): (one.host, int(one.port)) for one in answer.brokers}
        named = {
            TopicPartition(str(topic.name), int(one.partition_index), topic.topic_id): one
            for topic in answer.topics
            if topic.topic_id is not None
            for one in topic.partitions
        }
        self.partitions = list(named)
        for gone in self.epochs.keys() - named.keys():
            self.leaders.pop(gone, None)
            del self.epochs[gone]
        for partition, one in named.items():
            self._learned(partition, one)

    async def _said(self, at: tuple[str, int], key: ApiKey, values: Mapping[str, Any]) -> Any:
        return await self.say(at, key, self._versions[key], values)

    def _learned(self, partition: TopicPartition, one: Any) -> None:
        """Metadata of an older leader epoch is ignored, as Java's client does it."""
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
        values = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        answer = await self._said(self.anybody(), ApiKey.INIT_PRODUCER_ID, values)
        if answer.error_code:
            raise ErrorAnswered(answer.error_code.name)
        return int(answer.producer_id), int(answer.producer_epoch)

    async def produce(
        self, at: tuple[str, int], partition: TopicPartition, batch: bytes, acks: int
    ) -> tuple[int, int]:
        """(error, base offset). Raises one of `UNREACHED`."""
        one = {"index": partition.number, "records": batch}
        topic = {"name": partition.topic, "partition_data": [one]}
        values = {"acks": acks, "timeout": PRODUCE_TIMEOUT_MS, "topic_data": [topic]}
        answer = await self._said(at, ApiKey.PRODUCE, values)
        found = answer.responses[0].partition_responses[0]
        return int(found.error_code), int(found.base_offset)

    async def fetch(
        self,
        at: tuple[str, int],
        wanted: dict[TopicPartition, int],
        max_bytes: int = MAX_BYTES,
        rack: str = "",
    ) -> list[Fetched]:
        """Raises one of `UNREACHED`."""
        ids = {one.topic_id: one.topic for one in wanted}
        names = {one.topic: one.topic_id for one in wanted}
        values = {
            "replica_id": -1,
            "max_wait": self.fetch_wait_ms,
            "min_bytes": 1,
            "max_bytes": MAX_BYTES,
            "isolation_level": 1,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {
                    "topic": ids[topic_id],
                    "topic_id": topic_id,
                    "partitions": [
                        {
                            "partition": one.number,
                            "current_leader_epoch": self.epochs.get(one, -1),
                            "fetch_offset": offset,
                            "last_fetched_epoch": -1,
                            "log_start_offset": -1,
                            "partition_max_bytes": max_bytes,
                        }
                        for one, offset in wanted.items()
                        if one.topic_id == topic_id
                    ],
                }
                for topic_id in ids
            ],
            "rack_id": rack,
        }
        answer = await self._said(at, ApiKey.FETCH, values)
        return [
            fetched(
                TopicPartition(ids[topic_id], int(one.partition_index), topic_id),
                int(one.error_code),
                bytes(one.records or b""),
                int(getattr(one, "preferred_read_replica", -1)),
            )
            for topic in answer.responses
            for topic_id in (_id_of(topic, names),)
            if topic_id in ids
            for one in topic.partitions
        ]

    async def offset(
        self, at: tuple[str, int], partition: TopicPartition, timestamp_ms: int = LATEST
    ) -> tuple[int, int]:
        """(error, offset), of the next record or the first. Raises one of `UNREACHED`."""
        one = {
            "partition_index": partition.number,
            "current_leader_epoch": self.epochs.get(partition, -1),
            "timestamp": timestamp_ms,
        }
        topic = {"name": partition.topic, "partitions": [one]}
        values = {"replica_id": -1, "isolation_level": 1, "topics": [topic]}
        answer = await self._said(at, ApiKey.LIST_OFFSETS, values)
        found = answer.topics[0].partitions[0]
        return int(found.error_code), int(found.offset)


def _id_of(topic: Any, names: Mapping[str, UUID]) -> UUID | None:
    """Before version 13 topics have names."""
    return topic.topic_id if hasattr(topic, "topic_id") else names.get(str(topic.topic))


async def exchange(
    connection: PeerConnection,
    key: ApiKey,
    message: object,
    version: int = -1,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """kio's answer to kio's message."""
    version = VERSIONS[key] if version < 0 else version
    body = await connection.exchange(key, version, [encoded(message)], timeout_s)
    return response(key, version, body)


def fetched(partition: TopicPartition, error: int, records: bytes, read_at: int) -> Fetched:
    """Clients check checksums, and what is damaged they did not get."""
    try:
        found, next_offset = records_in(records)
        return Fetched(partition, error, found, read_at, next_offset)
    except CorruptBatchError:
        return Fetched(partition, int(ErrorCode.corrupt_message), [])


def records_in(data: bytes) -> tuple[list[tuple[int, str]], int]:
    """(offset, value) of all records of whole batches, and where these end; -1 where there is
    none. Raises `CorruptBatchError`."""
    found: list[tuple[int, str]] = []
    view, position, next_offset = memoryview(data), 0, -1
    while len(view) - position >= 61:
        header = read_header(view[position:])
        if position + header.size_bytes > len(view):
            break
        batch = view[position : position + header.size_bytes]
        check_crc(batch, header)
        found += [(one.offset, named(one).decode()) for one in read_records(batch, header)]
        position += header.size_bytes
        next_offset = header.last_offset + 1
    return found, next_offset


def named(record: Record) -> bytes:
    """Its value, or what a header says where it deletes its key."""
    if record.value is not None:
        return record.value
    return next((one.value or b"" for one in record.headers if one.key == NAME_HEADER), b"")
