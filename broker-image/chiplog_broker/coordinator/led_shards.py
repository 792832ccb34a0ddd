"""The shards of one coordinator: one for each partition of its topic that this broker leads.

The leader of a partition of `__consumer_offsets` coordinates the groups stored there, that of a
partition of `__transaction_state` the transactions. A shard lasts for one leader epoch.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Generic, Protocol, TypeVar

from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas


class Led(Protocol):
    """What a coordinator keeps of one partition that this broker leads."""

    partition: Partition

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition in the leader epoch of this shard."""

    async def load(self) -> None:
        """Read the partition."""

    def give_up(self) -> None:
        """Stop coordinating: waiting clients get an error."""


S = TypeVar("S", bound=Led)


class LedShards(Generic[S]):
    """Starts, loads and ends the shards of one topic, as this broker begins and stops to lead."""

    def __init__(self, topic: str, replicas: Replicas, new_shard: Callable[[Partition], S]) -> None:
        self._topic = topic
        self._replicas = replicas
        self._new_shard = new_shard
        self.by_index: dict[int, S] = {}
        """The shards by the number of their partition, loaded or not."""
        self._loading: dict[S, asyncio.Task[None]] = {}
        self._is_closed = False

    def refresh(self) -> None:
        """End the shards of partitions that this broker does not lead any more, or in a new leader
        epoch; start and load shards for the partitions that it leads. Does nothing after
        `close`."""
        if self._is_closed:
            return
        for index, shard in list(self.by_index.items()):
            is_same_replica = self._replicas.get(self._topic, index) is shard.partition
            if not (is_same_replica and shard.is_current):
                del self.by_index[index]
                self._give_up(shard)
        for partition in self._replicas.of_topic(self._topic):
            index = partition.name.partition
            if partition.is_leader and index not in self.by_index:
                shard = self.by_index[index] = self._new_shard(partition)
                task = asyncio.get_running_loop().create_task(shard.load())
                self._loading[shard] = task
                task.add_done_callback(partial(self._loaded, shard))

    def _loaded(self, shard: S, _task: asyncio.Task[None]) -> None:
        """The task that loads a shard has ended."""
        del self._loading[shard]

    def __iter__(self) -> Iterator[S]:
        """All shards, loaded or not."""
        return iter(list(self.by_index.values()))

    async def close(self) -> None:
        """End all shards, and start no others. May be called twice."""
        self._is_closed = True
        loading = list(self._loading.values())
        for shard in self:
            self._give_up(shard)
        self.by_index.clear()
        await asyncio.gather(*loading, return_exceptions=True)

    def _give_up(self, shard: S) -> None:
        """End a shard, also while it is being loaded."""
        if task := self._loading.get(shard):
            task.cancel()
        shard.give_up()
