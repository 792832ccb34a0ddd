"""A Kafka client's connections to brokers, and its metadata: leaders, epochs and addresses.

Requests and responses are objects of the library kio. Produce and ListOffsets refer to topics by
name, Fetch by topic id.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from chiplog_broker.peers.connection import PeerConnection
from chiplog_broker.peers.errors import PeerError
from chiplog_broker.ports.net import SystemNet
from chiplog_wire.client.connection import encoded
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import HEADER_BYTES, BatchHeader, check_crc, read_header
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
"""The oldest versions for a client that needs topic ids, leader epochs in reads, and zstd."""
NAME_HEADER: Final = "name"
"""Header of a tombstone with the unique text that other records have as their value."""
LATEST: Final = -1
EARLIEST: Final = -2


class ErrorAnswered(Exception):  # noqa: N818 - a name for what happened
    """The broker was reached, and answered with an error."""


UNREACHED: Final = (ErrorAnswered, OSError, PeerError)
"""Exceptions after which a client asks again, perhaps another broker."""


class TopicPartition(NamedTuple):
    """One partition of one topic id: a topic that is created again has other partitions."""

    topic: str
    number: int
    topic_id: UUID

    def __str__(self) -> str:
        """The unique label by which histories name this partition."""
        return f"{self.topic}-{self.number}/{self.topic_id.hex[2:10]}"


class Fetched(NamedTuple):
    """One partition's part of a Fetch response; `records` are (offset, value)."""

    partition: TopicPartition
    error: int
    records: list[tuple[int, str]]
    read_at: int = -1
    """The preferred read replica, from which the consumer should fetch (KIP-392); -1 for none."""
    next_offset: int = -1
    """Offset of the next fetch; -1 if the response has no complete batch."""


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
        """All partitions in the last Metadata response, with a leader or without."""
        self.leaders: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        """The highest leader epoch of each partition in answers so far."""

    def grow_old(self) -> None:
        """Choose a random supported version of each request, as clients of any age use them."""
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
        """Send the request with these field values to the broker at `at`; returns its response.

        Raises one of `UNREACHED`.
        """
        return await self.ask(at, key, request(key, version, values), version, timeout_s)

    async def ask(
        self,
        at: tuple[str, int],
        key: ApiKey,
        message: object,
        version: int = -1,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """Send kio's request `message` to the broker at `at`; returns kio's response.

        Version -1 stands for the one in `VERSIONS`. Raises one of `UNREACHED`.
        """
        connection = self._connections.get(at)
        if connection is None or not connection.is_open:
            connection = PeerConnection(self._name)
            # Stored before it is connected: of simultaneous requests each connects, and the last
            # one's connection is used again.
            self._connections[at] = connection
            await SystemNet().connect(connection, *at)
        try:
            return await exchange(connection, key, message, version, timeout_s)
        except BaseException:
            connection.close()
            raise

    async def learn(self) -> None:
        """Refresh the metadata of all topics from any broker. Raises one of `UNREACHED`.

        Partitions that are missing in the response are forgotten, as by Java's client.
        """
        answer = await self._send_own_version(self.anybody(), ApiKey.METADATA, {"topics": None})
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
            self._store_leader(partition, one)

    async def _send_own_version(
        self, at: tuple[str, int], key: ApiKey, values: Mapping[str, Any]
    ) -> Any:
        """Send a request in this client's own version of it; returns the response."""
        return await self.say(at, key, self._versions[key], values)

    def _store_leader(self, partition: TopicPartition, one: Any) -> None:
        """Store the leader of a partition, `one` being its part of a Metadata response.

        Metadata of an older leader epoch is ignored, as by Java's client.
        """
        epoch = int(one.leader_epoch)
        if one.error_code == 0 and epoch >= self.epochs.get(partition, -1):
            self.leaders[partition], self.epochs[partition] = int(one.leader_id), epoch
        elif epoch >= self.epochs.get(partition, -1):
            self.leaders.pop(partition, None)

    def anybody(self) -> tuple[str, int]:
        """The address of a random broker."""
        return self._chance.choice(self._bootstrap), PORT

    def leader(self, partition: TopicPartition) -> tuple[str, int] | None:
        """The address of the partition's leader; None if it is not known."""
        return self._brokers.get(self.leaders.get(partition, -1))

    def address(self, broker_id: int) -> tuple[str, int] | None:
        return self._brokers.get(broker_id)

    async def new_producer_id(self) -> tuple[int, int]:
        """A new (producer id, producer epoch). Raises one of `UNREACHED`, also for an error code
        in the response."""
        values = {"transactional_id": None, "producer_id": -1, "producer_epoch": -1}
        answer = await self._send_own_version(self.anybody(), ApiKey.INIT_PRODUCER_ID, values)
        if answer.error_code:
            raise ErrorAnswered(answer.error_code.name)
        return int(answer.producer_id), int(answer.producer_epoch)

    async def produce(
        self, at: tuple[str, int], partition: TopicPartition, batch: bytes, acks: int
    ) -> tuple[int, int]:
        """Send one batch; returns (error code, base offset). Raises one of `UNREACHED`."""
        one = {"index": partition.number, "records": batch}
        topic = {"name": partition.topic, "partition_data": [one]}
        values = {"acks": acks, "timeout": PRODUCE_TIMEOUT_MS, "topic_data": [topic]}
        answer = await self._send_own_version(at, ApiKey.PRODUCE, values)
        found = answer.responses[0].partition_responses[0]
        return int(found.error_code), int(found.base_offset)

    async def fetch(
        self,
        at: tuple[str, int],
        wanted: dict[TopicPartition, int],
        max_bytes: int = MAX_BYTES,
        rack: str = "",
    ) -> list[Fetched]:
        """Read each partition in `wanted` from its offset on. Raises one of `UNREACHED`.

        `max_bytes` limits each partition; `rack` is the client's rack, empty for none.
        """
        return [
            fetched(
                partition,
                int(one.error_code),
                bytes(one.records or b""),
                int(getattr(one, "preferred_read_replica", -1)),
            )
            for partition, one in await self.fetch_parts(at, wanted, max_bytes, rack)
        ]

    async def fetch_parts(
        self, at: tuple[str, int], wanted: dict[TopicPartition, int], max_bytes: int, rack: str
    ) -> list[tuple[TopicPartition, Any]]:
        """As `fetch`, with each partition's part of the response as kio has it."""
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
        answer = await self._send_own_version(at, ApiKey.FETCH, values)
        return [
            (TopicPartition(ids[topic_id], int(one.partition_index), topic_id), one)
            for topic in answer.responses
            for topic_id in (_id_of(topic, names),)
            if topic_id in ids
            for one in topic.partitions
        ]

    async def offset(
        self,
        at: tuple[str, int],
        partition: TopicPartition,
        timestamp_ms: int = LATEST,
        isolation_level: int = 1,
    ) -> tuple[int, int]:
        """(error code, offset): for `LATEST` the last stable offset, which is the high watermark
        where no transaction is open, or with isolation level 0 always the high watermark; for
        `EARLIEST` the log start offset. Raises one of `UNREACHED`."""
        one = {
            "partition_index": partition.number,
            "current_leader_epoch": self.epochs.get(partition, -1),
            "timestamp": timestamp_ms,
        }
        topic = {"name": partition.topic, "partitions": [one]}
        values = {"replica_id": -1, "isolation_level": isolation_level, "topics": [topic]}
        answer = await self._send_own_version(at, ApiKey.LIST_OFFSETS, values)
        found = answer.topics[0].partitions[0]
        return int(found.error_code), int(found.offset)


def _id_of(topic: Any, names: Mapping[str, UUID]) -> UUID | None:
    """The topic id in a Fetch response; before version 13 the response has the name instead."""
    return topic.topic_id if hasattr(topic, "topic_id") else names.get(str(topic.topic))


async def exchange(
    connection: PeerConnection,
    key: ApiKey,
    message: object,
    version: int = -1,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """Send kio's request `message`; returns kio's response. Version -1 is that in `VERSIONS`."""
    version = VERSIONS[key] if version < 0 else version
    body = await connection.exchange(key, version, [encoded(message)], timeout_s)
    return response(key, version, body)


def fetched(partition: TopicPartition, error: int, records: bytes, read_at: int) -> Fetched:
    """A partition's part of a Fetch response, with its batches decoded.

    Clients verify checksums: damaged batches give the error `corrupt_message` and no records.
    """
    try:
        found, next_offset = records_in(records)
        return Fetched(partition, error, found, read_at, next_offset)
    except CorruptBatchError:
        return Fetched(partition, int(ErrorCode.corrupt_message), [])


def records_in(data: bytes) -> tuple[list[tuple[int, str]], int]:
    """All (offset, value) in the complete batches of `data`, and the offset after them.

    The second is -1 if there is no complete batch. Raises `CorruptBatchError`.
    """
    found: list[tuple[int, str]] = []
    next_offset = -1
    for header, batch in batches_in(data):
        found += [(one.offset, named(one).decode()) for one in read_records(batch, header)]
        next_offset = header.last_offset + 1
    return found, next_offset


def batches_in(data: bytes) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The complete batches of `data`, with their headers. Raises `CorruptBatchError`."""
    view, position = memoryview(data), 0
    while len(view) - position >= HEADER_BYTES:
        header = read_header(view[position:])
        if position + header.size_bytes > len(view):
            return
        batch = view[position : position + header.size_bytes]
        check_crc(batch, header)
        position += header.size_bytes
        yield header, batch


def named(record: Record) -> bytes:
    """The unique text of a record: its value, or a tombstone's header `NAME_HEADER`."""
    if record.value is not None:
        return record.value
    return next((one.value or b"" for one in record.headers if one.key == NAME_HEADER), b"")
