"""All replicas on this broker, kept equal to what the metadata says they should be.

One change at a time: a topic that is created, changed and deleted in one second goes
through all three here in that order. Data goes only when the metadata names the deleted
topic's id; a directory that no topic claims is left alone.
"""

import asyncio
from collections.abc import Callable, Iterator
from uuid import UUID

from chiplog_broker.metadata.view import TopicView
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.settings import log_config
from chiplog_broker.partitions.waiting import FetchWaiters
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import StorageError
from chiplog_broker.storage.names import TopicPartition


class Replicas:
    """The replicas of one broker, by topic and partition."""

    def __init__(
        self,
        broker_id: int,
        directory: LogDirectory,
        fetch_waiters: FetchWaiters,
        on_offline: Callable[[StorageError], None],
    ) -> None:
        self._broker_id = broker_id
        self._directory = directory
        self._fetch_waiters = fetch_waiters
        self._on_offline = on_offline
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._changing = asyncio.Lock()

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions.values())

    def __len__(self) -> int:
        return len(self._partitions)

    def get(self, topic: str, index: int) -> Partition | None:
        return self._partitions.get((topic, index))

    def leader(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The partition, where this broker leads it in that epoch. Raises `PartitionError`.

        A partition of the topic that is not here is led elsewhere; whether it exists at all
        is for the caller to say.
        """
        partition = self._partitions.get((topic, index))
        if partition is None:
            if why := self._directory.quarantined.get(TopicPartition(topic, index)):
                raise PartitionError(ErrorCode.kafka_storage_error, why)
            raise PartitionError(ErrorCode.not_leader_or_follower)
        partition.check_epoch(current_leader_epoch)
        return partition

    async def apply(self, topic: TopicView) -> None:
        """Create, configure, lead or resign the topic's replicas here as its view says."""
        async with self._changing:
            config = log_config(topic.config)
            for view in topic.partitions:
                name = TopicPartition(topic.name, view.index)
                if self._broker_id not in view.replicas or name in self._directory.quarantined:
                    continue
                partition = self._partitions.get((topic.name, view.index))
                if partition is None:
                    partition = await self._open(topic, view.index)
                partition.log.configure(config)
                if view.leader_id == self._broker_id:
                    partition.lead(view.leader_epoch)
                else:
                    partition.resign()

    async def delete(self, name: str, topic_id: UUID) -> None:
        """Remove the data of exactly this topic: another id behind the name is another topic."""
        async with self._changing:
            doomed = [
                partition
                for (topic, _), partition in self._partitions.items()
                if topic == name and partition.log.topic_id == topic_id
            ]
            for partition in doomed:
                del self._partitions[name, partition.name.partition]
                await partition.quiesce()
                await self._directory.delete(partition.name)

    async def close(self) -> None:
        """Stop serving all partitions; the directory can be closed then."""
        async with self._changing:
            for partition in self:
                await partition.quiesce()

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """What the checkpoint file records."""
        return {partition.name: partition.high_watermark for partition in self}

    async def _open(self, topic: TopicView, index: int) -> Partition:
        name = TopicPartition(topic.name, index)
        log = self._directory.logs.get(name)
        if log is None:
            log = await self._directory.create(name, topic.topic_id, log_config(topic.config))
        partition = Partition(name, log, self._fetch_waiters, self._on_offline)
        self._partitions[topic.name, index] = partition
        return partition
