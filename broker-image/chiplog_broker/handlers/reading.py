"""Reading for one fetch, repeatedly, until there is enough for an answer."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Protocol, TypeAlias
from uuid import UUID

from chiplog_broker.fetch_sessions.session import SessionEntry
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.slices import Slices
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import FetchWaiter, Watcher
from chiplog_broker.storage.log import LogSlice
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)

OK = int(ErrorCode.none)
SMALL_BYTES = 16 * 1024
"""Bytes that a client may get even if memory is short."""
UNKNOWN_OFFSET = -1
FetchQueue: TypeAlias = dict[FetchWaiter, None]
"""The fetches that one partition wakes."""


class Attempts(Protocol):
    """Answers a fetch: tries, and tries again when something changed."""

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found enough for an answer, or more attempts cannot find
        more."""

    @property
    def has_news(self) -> bool:
        """Whether it found changes that its reader should get soon, though not at once."""

    def attempt(self) -> FetchResponse:
        """Read what there is."""

    def sent(self, response: FetchResponse) -> FetchResponse:
        """The last attempt is sent; returns the answer in its final form."""

    def join(self, waiter: FetchWaiter) -> None:
        """Wake this fetch when there may be more."""

    def leave(self, waiter: FetchWaiter) -> None:
        """Do not wake it any more."""


class Reading:
    """Attempts to answer a fetch; each reads all partitions again."""

    def __init__(
        self,
        request: FetchRequest,
        max_bytes: int,
        cluster: ClusterView,
        leaders: Leaders,
        near: Collection[int] = (),
        *,
        of_any: bool = False,
    ) -> None:
        """`near` are the brokers in the consumer's rack, which it should read from.

        `of_any`: read the replicas here whatever their role is.
        """
        self._request = request
        self._near = near
        self._of_any = of_any
        self._largest_bytes = max_bytes
        self.room: Callable[[], int] | None = None
        """Returns the memory available for an answer; None for no limit besides the request's."""
        self._max_bytes = max_bytes
        """The limit of this attempt."""
        self._may_exceed = True
        """Whether one batch may be larger, so that the reader makes progress (KIP-74)."""
        # `min_bytes` above `max_bytes` could never be reached.
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._cluster = cluster
        self._leaders = leaders
        self._queues: list[FetchQueue] = []
        self.opens: Callable[[FetchResponse], int] | None = None
        """Set if this fetch opens a session: returns the session id for the answer."""
        self._found: list[tuple[Partition, int]] = []
        self._read_partitions: list[Partition] = []
        """The partitions that the last attempt read; they are counted if it is sent."""
        self._bytes = 0
        self._has_more = False
        self._is_urgent = False

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found enough for an answer, or more attempts cannot find
        more."""
        enough_bytes = min(self._min_bytes, self._max_bytes)
        return self._bytes >= enough_bytes or self._has_more or self._is_urgent

    @property
    def wants_news(self) -> bool:
        """Whether its reader should get changes soon, also without records."""
        return False

    @property
    def has_news(self) -> bool:
        """The first answer of a session contains all partitions."""
        return self.wants_news and self.opens is not None

    def attempt(self) -> FetchResponse:
        """Read every partition, up to the size limit of the request."""
        self.begin()
        # Without partitions there is nothing to wait for.
        self._is_urgent = not self._request.topics
        return FetchResponse([self._topic(topic) for topic in self._request.topics])

    async def attempt_in_slices(self, slices: Slices) -> FetchResponse:
        """The same in slices. Logs may change in between, so records are copied to memory."""
        self.begin()
        answers = []
        for topic in self._request.topics:
            name, found = self.name_of(topic.name, topic.topic_id), []
            for wanted in topic.partitions:
                answer = self._read_partition(name, wanted)
                if isinstance(answer.records, LogSlice):
                    answer = answer._replace(records=answer.records.read())
                found.append(answer)
                await slices.pause()
            answers.append(FetchTopicResponse(topic.name, topic.topic_id, found))
        return FetchResponse(answers)

    def begin(self) -> None:
        """Reset the state for another attempt."""
        self._bytes = 0
        self._has_more = self._is_urgent = False
        if self.room is not None:
            # Determined for each attempt: less memory may be available after a wait.
            room_bytes = self.room()
            self._may_exceed = room_bytes > 0
            self._max_bytes = min(self._largest_bytes, max(room_bytes, SMALL_BYTES))
        self._found.clear()
        self._read_partitions.clear()

    def sent(self, response: FetchResponse) -> FetchResponse:
        """The last attempt is sent."""
        for partition in self._read_partitions:
            partition.counters.fetches += 1
        for partition, size_bytes in self._found:
            partition.counters.bytes_out += size_bytes
            if partition.following is not None:
                partition.counters.follower_bytes_out += size_bytes
        if self.opens is not None:
            response = response._replace(session_id=self.opens(response))
        return response

    def join(self, waiter: FetchWaiter) -> None:
        """Wait for the partitions here that the request reads."""
        self._queues = list(self._all_queues())
        for queue in self._queues:
            queue[waiter] = None

    def leave(self, waiter: FetchWaiter) -> None:
        for queue in self._queues:
            queue.pop(waiter, None)

    # -- one partition

    def name_of(self, name: str | None, topic_id: UUID | None) -> str | None:
        """The topic that a request names; None if it is not known here."""
        if topic_id is None:
            return name
        view = self._cluster.topic_with_id(topic_id)
        return None if view is None else view.name

    def find(self, topic: str, wanted: FetchPartition) -> Partition:
        """The partition to read. Raises `PartitionError`."""
        return self._find(topic, wanted.partition, wanted.current_leader_epoch)

    def read(self, partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
        """The records for this reader. Raises `PartitionError` and `REFUSALS`."""
        self._read_partitions.append(partition)
        if self._near:
            nearer = partition.best_to_read(self._near, wanted.fetch_offset)
            if nearer is not None:
                return self._sent_to(nearer, partition, wanted)
        room_bytes = self._max_bytes - self._bytes
        max_bytes = max(min(wanted.max_bytes, room_bytes), 0)
        first = self._bytes == 0 and self._may_exceed
        records = partition.read(wanted.fetch_offset, max_bytes, min_one=first)
        high_watermark = partition.high_watermark
        found = FetchPartitionResponse(
            wanted.partition, OK, high_watermark, high_watermark, partition.log.log_start_offset
        )
        if records is None:
            return found
        return self._response(found, partition, records, high_watermark)

    def refused(
        self, topic: str | None, wanted: FetchPartition, code: ErrorCode
    ) -> FetchPartitionResponse:
        """An error in place of records; the fetch is answered without waiting."""
        self._is_urgent = True
        if topic is not None:
            self._leaders.fetch_failed(topic, wanted.partition, code)
        return unreadable(wanted, code)

    def watchers(self, partition: Partition) -> dict[Watcher, None]:
        """Where a session of such readers registers for changes of the partition."""
        return partition.watchers

    def try_idle(self, partition: Partition, entry: SessionEntry) -> bool:
        """Whether the partition need not be read again for a reader that has everything, until it
        changes.

        A follower may stop serving without a change, when it loses contact with its leader.
        """
        return partition.is_leader and partition.high_watermark <= entry.wanted.fetch_offset

    # -- inner workings

    def _find(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        if self._of_any:
            return self._leaders.any(topic, index, current_leader_epoch)
        # A consumer without a rack was not sent to a follower: it does not know the leader yet.
        # Racks exist in Fetch 11 and later (KIP-392).
        if self._request.rack_id:
            return self._leaders.readable(topic, index, current_leader_epoch)
        return self._leaders.get(topic, index, current_leader_epoch)

    def _sent_to(
        self, broker_id: int, partition: Partition, wanted: FetchPartition
    ) -> FetchPartitionResponse:
        """The replica to read from, in place of records; the fetch is answered without waiting."""
        self._is_urgent = True
        partition.counters.sent_to_followers += 1
        high_watermark = partition.high_watermark
        return FetchPartitionResponse(
            wanted.partition,
            OK,
            high_watermark,
            high_watermark,
            partition.log.log_start_offset,
            preferred_read_replica=broker_id,
        )

    def _all_queues(self) -> Iterator[FetchQueue]:
        for topic in self._request.topics:
            name = self.name_of(topic.name, topic.topic_id) or ""
            for wanted in topic.partitions:
                with suppress(PartitionError):
                    yield self._queue(self._find(name, wanted.partition))

    def _queue(self, partition: Partition) -> FetchQueue:
        return partition.fetchers

    def _topic(self, topic: FetchTopic) -> FetchTopicResponse:
        name = self.name_of(topic.name, topic.topic_id)
        answers = [self._read_partition(name, partition) for partition in topic.partitions]
        return FetchTopicResponse(topic.name, topic.topic_id, answers)

    def _read_partition(self, topic: str | None, wanted: FetchPartition) -> FetchPartitionResponse:
        """The answer for one partition, also of an unknown topic."""
        if topic is None:
            return self.refused(None, wanted, ErrorCode.unknown_topic_id)
        try:
            return self.read(self.find(topic, wanted), wanted)
        except (PartitionError, *REFUSALS) as refused:
            return self.refused(topic, wanted, code_of(refused))

    def _response(
        self, found: FetchPartitionResponse, partition: Partition, records: LogSlice, end: int
    ) -> FetchPartitionResponse:
        """The answer with these records, and whether there are more up to `end`."""
        # There may be more than fits into an answer, or than the rest of a segment. If memory is
        # short, the fetch waits.
        self._has_more |= records.next_offset < end and (self._may_exceed or records.size_bytes > 0)
        if records.size_bytes == 0:
            return found
        self._bytes += records.size_bytes
        self._found.append((partition, records.size_bytes))
        return found._replace(records=records)


def unreadable(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    """An error in place of records."""
    return FetchPartitionResponse(wanted.partition, code, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
