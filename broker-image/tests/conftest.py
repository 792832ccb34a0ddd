"""A whole broker in the test's process, real sockets, and a client that speaks the protocol."""

import asyncio
import errno
import importlib
import io
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.serial import entity_reader, entity_writer

from chiplog_broker.broker import Broker, Ports
from chiplog_broker.metadata.listeners import Listener
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.disk import DiskUsage, File
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_wire.buffer import Buffer
from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch

PLAINTEXT = Listener("PLAINTEXT", "127.0.0.1", 0, "127.0.0.1", 0)


class FaultyDisk(SystemDisk):
    """A disk whose syncs fail or hang and whose space runs out, when a test says so."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sync_error: OSError | None = None
        self.append_error: OSError | None = None
        self.replace_error: OSError | None = None
        self.make_error: OSError | None = None
        self.usage_now: DiskUsage | None = None
        self.syncs = 0
        self.may_sync = asyncio.Event()
        self.may_sync.set()

    def open(self, path: str, *, create: bool = False) -> Any:
        return FaultyFile(self, super().open(path, create=create))

    def make_directory(self, path: str) -> None:
        if self.make_error is not None:
            raise self.make_error
        super().make_directory(path)

    async def replace(self, path: str, data: bytes) -> None:
        if self.replace_error is not None:
            raise self.replace_error
        await super().replace(path, data)

    def usage(self) -> DiskUsage:
        return self.usage_now or super().usage()

    def break_syncs(self) -> None:
        self.sync_error = OSError(errno.EIO, "the device is broken")

    def fill_up(self) -> None:
        self.append_error = OSError(errno.ENOSPC, "no space left on device")


class FaultyFile:
    """A file of a `FaultyDisk`."""

    def __init__(self, disk: FaultyDisk, file: File) -> None:
        self._disk = disk
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def append(self, data: Buffer) -> int:
        if self._disk.append_error is not None:
            raise self._disk.append_error
        return self._file.append(data)

    async def sync(self) -> None:
        self._disk.syncs += 1
        await self._disk.may_sync.wait()
        if self._disk.sync_error is not None:
            raise self._disk.sync_error
        await self._file.sync()


def message_types(key: ApiKey, version: int, kind: str) -> Any:
    return importlib.import_module(f"kio.schema.{key.name.lower()}.v{version}.{kind}")


def response_class(key: ApiKey, version: int) -> Any:
    module = message_types(key, version, "response")
    return getattr(module, APIS[key].name + "Response")


class Client:
    """One connection; requests are kio's, field by field."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 0
        self._sent: list[tuple[ApiKey, int]] = []

    def types(self, key: ApiKey, version: int | None = None) -> Any:
        """kio's request module: the newest version we serve, or the one given."""
        return message_types(key, APIS[key].max_version if version is None else version, "request")

    async def send(self, key: ApiKey, request: Any, version: int | None = None) -> None:
        api = APIS[key]
        version = api.max_version if version is None else version
        body = io.BytesIO()
        entity_writer(type(request))(body, request)
        self._correlation_id += 1
        header = struct.pack(">hhih", key, version, self._correlation_id, -1)
        header += b"\x00" if api.is_flexible(version) else b""
        frame = header + body.getvalue()
        self.writer.write(struct.pack(">i", len(frame)) + frame)
        await self.writer.drain()
        self._sent.append((key, version))

    async def receive(self) -> Any:
        """The answer to the oldest request that has none yet."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        frame = await self.reader.readexactly(size)
        key, version = self._sent.pop(0)
        start = 5 if APIS[key].response_header_version(version) else 4
        answer, size = entity_reader(response_class(key, version))(frame, start)
        assert start + size == len(frame), "bytes beyond the answer"
        return answer

    async def ask(self, key: ApiKey, request: Any, version: int | None = None) -> Any:
        await self.send(key, request, version)
        return await self.receive()

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    # -- the requests that most tests need

    async def create(self, name: str, partitions: int = 1, **config: str) -> ErrorCode:
        types = self.types(ApiKey.CREATE_TOPICS)
        topic = types.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=-1,
            assignments=(),
            configs=tuple(
                types.CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in config.items()
            ),
        )
        answer = await self.ask(ApiKey.CREATE_TOPICS, types.CreateTopicsRequest(topics=(topic,)))
        return ErrorCode(answer.topics[0].error_code)

    async def delete(self, name: str) -> ErrorCode:
        types = self.types(ApiKey.DELETE_TOPICS)
        topic = types.DeleteTopicState(name=name, topic_id=None)
        request = types.DeleteTopicsRequest(topics=(topic,), timeout=milliseconds(5000))
        answer = await self.ask(ApiKey.DELETE_TOPICS, request)
        return ErrorCode(answer.responses[0].error_code)

    def produce_request(
        self,
        topic: str,
        *batches: bytes,
        acks: int = -1,
        timeout_ms: int = 5000,
        partition: int = 0,
        transactional_id: str | None = None,
    ) -> Any:
        types = self.types(ApiKey.PRODUCE)
        return types.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout=milliseconds(timeout_ms),
            topic_data=(
                types.TopicProduceData(
                    name=topic,
                    partition_data=tuple(
                        types.PartitionProduceData(index=partition, records=one) for one in batches
                    ),
                ),
            ),
        )

    async def produce(self, topic: str, *batches: bytes, **options: Any) -> list[Any]:
        """What became of each batch."""
        request = self.produce_request(topic, *batches, **options)
        answer = await self.ask(ApiKey.PRODUCE, request)
        return [one for topic in answer.responses for one in topic.partition_responses]

    def fetch_request(
        self,
        topic_id: UUID | None,
        *offsets: tuple[int, int],
        min_bytes: int = 1,
        max_bytes: int = 1 << 20,
        partition_max_bytes: int = 1 << 20,
        wait_ms: int = 0,
        session: tuple[int, int] = (0, -1),
    ) -> Any:
        types = self.types(ApiKey.FETCH)
        return types.FetchRequest(
            max_wait=milliseconds(wait_ms),
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=0,
            session_id=session[0],
            session_epoch=session[1],
            topics=(
                types.FetchTopic(
                    topic_id=topic_id,
                    partitions=tuple(
                        types.FetchPartition(
                            partition=index,
                            current_leader_epoch=-1,
                            fetch_offset=offset,
                            last_fetched_epoch=-1,
                            log_start_offset=-1,
                            partition_max_bytes=partition_max_bytes,
                        )
                        for index, offset in offsets
                    ),
                ),
            )
            if offsets
            else (),
            forgotten_topics_data=(),
            rack_id="",
        )

    async def fetch(self, topic_id: UUID | None, *offsets: tuple[int, int], **options: Any) -> Any:
        """(code, bytes) of each partition asked for."""
        request = self.fetch_request(topic_id, *offsets, **options)
        answer = await self.ask(ApiKey.FETCH, request)
        assert answer.error_code == 0
        assert answer.session_id == 0
        return [
            (ErrorCode(one.error_code), bytes(one.records or b""))
            for topic in answer.responses
            for one in topic.partitions
        ]

    async def alter(
        self, topic: str, *changes: tuple[str, int, str | None], kind: int = 2
    ) -> tuple[ErrorCode, str]:
        """Change (key, operation, value) of a topic incrementally."""
        types = self.types(ApiKey.INCREMENTAL_ALTER_CONFIGS)
        resource = types.AlterConfigsResource(
            resource_type=kind,
            resource_name=topic,
            configs=tuple(
                types.AlterableConfig(name=name, config_operation=operation, value=value)
                for name, operation, value in changes
            ),
        )
        answer = await self.ask(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            types.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False),
        )
        return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message or ""

    async def configs(
        self, name: str, *keys: str, kind: int = 2, synonyms: bool = True
    ) -> tuple[ErrorCode, dict[str, Any]]:
        """(code, key -> what DescribeConfigs says of it)."""
        types = self.types(ApiKey.DESCRIBE_CONFIGS)
        resource = types.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=keys or None
        )
        answer = await self.ask(
            ApiKey.DESCRIBE_CONFIGS,
            types.DescribeConfigsRequest(
                resources=(resource,), include_synonyms=synonyms, include_documentation=True
            ),
        )
        (result,) = answer.results
        return ErrorCode(result.error_code), {one.name: one for one in result.configs}

    async def offset(
        self, topic: str, timestamp: int, *, version: int = 8, replica_id: int = -1
    ) -> tuple[Any, ...]:
        """(code, timestamp, offset) of partition 0."""
        types = self.types(ApiKey.LIST_OFFSETS, version)
        partition: dict[str, Any] = {"partition_index": 0, "timestamp": timestamp}
        if version >= 4:
            partition["current_leader_epoch"] = -1
        level: dict[str, Any] = {"isolation_level": 1} if version >= 2 else {}
        if version >= 10:
            level["timeout"] = milliseconds(1000)
        request = types.ListOffsetsRequest(
            replica_id=replica_id,
            topics=(
                types.ListOffsetsTopic(
                    name=topic, partitions=(types.ListOffsetsPartition(**partition),)
                ),
            ),
            **level,
        )
        answer = await self.ask(ApiKey.LIST_OFFSETS, request, version)
        (one,) = answer.topics[0].partitions
        return ErrorCode(one.error_code), one.timestamp, one.offset

    async def delete_records(self, topic: str, offset: int) -> tuple[ErrorCode, int]:
        """(code, low watermark) of partition 0."""
        types = self.types(ApiKey.DELETE_RECORDS)
        request = types.DeleteRecordsRequest(
            topics=(
                types.DeleteRecordsTopic(
                    name=topic,
                    partitions=(types.DeleteRecordsPartition(partition_index=0, offset=offset),),
                ),
            ),
            timeout=milliseconds(5000),
        )
        (one,) = (await self.ask(ApiKey.DELETE_RECORDS, request)).topics[0].partitions
        return ErrorCode(one.error_code), one.low_watermark

    async def metadata(self, *names: str, auto_create: bool = False) -> Any:
        types = self.types(ApiKey.METADATA)
        return await self.ask(
            ApiKey.METADATA,
            types.MetadataRequest(
                topics=tuple(types.MetadataRequestTopic(topic_id=None, name=name) for name in names)
                if names
                else None,
                allow_auto_topic_creation=auto_create,
                include_topic_authorized_operations=False,
            ),
        )

    async def users_topics(self) -> list[str]:
        """The names of all topics but the cluster's own."""
        return [one.name for one in (await self.metadata()).topics if not one.is_internal]

    async def topic_id(self, name: str) -> UUID:
        found = (await self.metadata(name)).topics[0].topic_id
        assert isinstance(found, UUID)
        return found


def milliseconds(count: int) -> Any:
    from datetime import timedelta  # noqa: PLC0415 - kio's way to say a number

    return timedelta(milliseconds=count)


def batch(*values: bytes, producer: Producer | None = None) -> bytes:
    """One batch of these values."""
    options = BatchOptions() if producer is None else BatchOptions(producer=producer)
    return bytes(build_batch([NewRecord(value, timestamp_ms=1) for value in values], options))


class Kit:
    """What a test of the whole broker needs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.batch = batch
        self.milliseconds = milliseconds
        self.disk = FaultyDisk(directory / "data")
        self.metadata = FaultyDisk(directory / "metadata")
        self.broker: Broker
        self._clients: list[Client] = []

    def close(self) -> None:
        """Give back locks and threads."""
        self.disk.close()
        self.metadata.close()

    def new_broker(
        self, config: Mapping[str, str] | None = None, listeners: list[Listener] | None = None
    ) -> Broker:
        """A broker on this folder, as a process of its own would find it."""
        self.close()
        self.disk = FaultyDisk(self.directory / "data")
        self.metadata = FaultyDisk(self.directory / "metadata")
        ports = Ports(SystemClock(), SystemRng(), self.disk, self.metadata)
        small = {
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.num.partitions": "1",
        }
        config = {**small, **(config or {})}
        self.broker = Broker(ports, config, listeners or [PLAINTEXT], str(self.directory))
        return self.broker

    @asynccontextmanager
    async def running(self, **config: str) -> AsyncIterator[Client]:
        """A broker, and a client of it; keys are written with `_` for `.`."""
        broker = self.new_broker({key.replace("_", "."): value for key, value in config.items()})
        await broker.start()
        try:
            yield await self.client()
        finally:
            self.disk.may_sync.set()
            self.close_clients()
            await broker.stop()

    def partitions(self, topic: str) -> list[Partition]:
        """The broker's replicas of a topic, for tests that put them into trouble."""
        replicas = self.broker._replicas
        return sorted(
            (one for one in replicas if one.name.topic == topic), key=lambda one: one.name.partition
        )

    async def begin_leadership(self, topic: str, *, leader: int = 1, **changes: Any) -> None:
        """The map says that another leadership of the topic's only partition has begun, with the
        next leader epoch."""
        view = self.broker._cluster.topic(topic)
        assert view is not None
        (partition,) = view.partitions
        epoch = partition.leader_epoch + 1
        changed = replace(partition, leader_id=leader, leader_epoch=epoch, **changes)
        view = replace(view, partitions=(changed,))
        self.broker._cluster.put(view)
        await self.broker._replicas.apply(view)

    def close_clients(self) -> None:
        """All that were made so far."""
        for client in self._clients:
            client.writer.close()
        self._clients.clear()

    async def client(self, listener: str = "PLAINTEXT") -> Client:
        client = Client(*await asyncio.open_connection(*self.broker.addresses[listener]))
        self._clients.append(client)
        return client

    def run(self, scenario: Callable[[], Any]) -> None:
        """Run it on the production loop, with a limit in time."""
        import uvloop  # noqa: PLC0415

        async def limited() -> None:
            async with asyncio.timeout(60):
                await scenario()

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(limited())


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    kit = Kit(tmp_path)
    yield kit
    kit.close()
