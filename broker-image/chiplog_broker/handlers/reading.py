"""Reading for one fetch, again and again until there is enough to answer with."""

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
"""What a client may always be answered with, however little memory there is."""
UNKNOWN_OFFSET = -1
FetchQueue: TypeAlias = dict[FetchWaiter, None]
"""The fetches that one partition wakes."""


class Attempts(Protocol):
    """What answers a fetch: tries, and tries again when something changed."""

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found what the reader wants, or cannot find more."""

    @property
    def has_news(self) -> bool:
        """Whether it found what its reader is to know soon, though not at once."""

    def attempt(self) -> FetchResponse:
        """Read what there is."""

    def sent(self, response: FetchResponse) -> FetchResponse:
        """What the last attempt found is sent; returns it as it is sent."""

    def join(self, waiter: FetchWaiter) -> None:
        """Wake this fetch when there may be more."""

    def leave(self, waiter: FetchWaiter) -> None:
        """Wake it no more."""


class Reading:
    """One attempt after another to answer a fetch, each from the beginning."""

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
        """`near` are the brokers in the rack of a consumer that should rather read there.

        `of_any` says that it looks at the replicas here, whatever their part is.
        """
        self._request = request
        self._near = near
        self._of_any = of_any
        self._largest_bytes = max_bytes
        self.room: Callable[[], int] | None = None
        """How much memory there is for an answer now; None for as much as it asks for."""
        self._max_bytes = max_bytes
        """Of this attempt."""
        self._may_exceed = True
        """Whether one batch may be larger, so that there is progress (KIP-74)."""
        # More than may be sent cannot be waited for.
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._cluster = cluster
        self._leaders = leaders
        self._queues: list[FetchQueue] = []
        self.opens: Callable[[FetchResponse], int] | None = None
        """Where a session begins with this fetch: returns its id for the answer."""
        self._found: list[tuple[Partition, int]] = []
        self._looked: list[Partition] = []
        """At what the last attempt looked, to be counted when it is the one that is sent."""
        self._bytes = 0
        self._has_more = False
        self._is_urgent = False

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found what the reader wants, or cannot find more."""
        enough_bytes = min(self._min_bytes, self._max_bytes)
        return self._bytes >= enough_bytes or self._has_more or self._is_urgent

    @property
    def wants_news(self) -> bool:
        """Whether its reader is to know soon what changed, also where there are no records."""
        return False

    @property
    def has_news(self) -> bool:
        """Whoever begins a session is told where everything stands."""
        return self.wants_news and self.opens is not None

    def attempt(self) -> FetchResponse:
        """Read every partition as far as the request's size allows."""
        self.begin()
        # Where no partition is asked for there is nothing to wait for.
        self._is_urgent = not self._request.topics
        return FetchResponse([self._topic(topic) for topic in self._request.topics])

    async def attempt_in_slices(self, slices: Slices) -> FetchResponse:
        """The same, with pauses in which logs may change: so records are in memory."""
        self.begin()
        answers = []
        for topic in self._request.topics:
            name, found = self.name_of(topic.name, topic.topic_id), []
            for wanted in topic.partitions:
                one = self._one(name, wanted)
                if isinstance(one.records, LogSlice):
                    one = one._replace(records=one.records.read())
                found.append(one)
                await slices.pause()
            answers.append(FetchTopicResponse(topic.name, topic.topic_id, found))
        return FetchResponse(answers)

    def begin(self) -> None:
        """Another attempt, in which nothing was read so far."""
        self._bytes = 0
        self._has_more = self._is_urgent = False
        if self.room is not None:
            # Asked each time: a fetch that sleeps may wake when there is less than there was.
            room_bytes = self.room()
            self._may_exceed = room_bytes > 0
            self._max_bytes = min(self._largest_bytes, max(room_bytes, SMALL_BYTES))
        self._found.clear()
        self._looked.clear()

    def sent(self, response: FetchResponse) -> FetchResponse:
        """The last attempt is what is sent."""
        for partition in self._looked:
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
        """The topic that a request means; None for one that is not known here."""
        if topic_id is None:
            return name
        view = self._cluster.topic_with_id(topic_id)
        return None if view is None else view.name

    def find(self, topic: str, wanted: FetchPartition) -> Partition:
        """What is to be read. Raises `PartitionError`."""
        return self._find(topic, wanted.partition, wanted.current_leader_epoch)

    def read(self, partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
        """What there is for this reader. Raises `PartitionError` and `REFUSALS`."""
        self._looked.append(partition)
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
        return self._with(found, partition, records, high_watermark)

    def refused(
        self, topic: str | None, wanted: FetchPartition, code: ErrorCode
    ) -> FetchPartitionResponse:
        """An error in the place of records, which is not waited with: its fetch is answered."""
        self._is_urgent = True
        if topic is not None:
            self._leaders.fetch_failed(topic, wanted.partition, code)
        return unreadable(wanted, code)

    def watchers(self, partition: Partition) -> dict[Watcher, None]:
        """Where a session of such readers learns that it changed."""
        return partition.watchers

    def rests(self, partition: Partition, entry: SessionEntry) -> bool:
        """Whether a reader that was told of everything need not look at it until it changes.

        A follower may stop serving without any change: its leader is not heard any more.
        """
        return partition.is_leader and partition.high_watermark <= entry.wanted.fetch_offset

    # -- inner workings

    def _find(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        if self._of_any:
            return self._leaders.any(topic, index, current_leader_epoch)
        # Whoever names no rack was sent to no follower: it does not know yet who leads.
        # A rack is a matter of Fetch 11 and later (KIP-392).
        if self._request.rack_id:
            return self._leaders.readable(topic, index, current_leader_epoch)
        return self._leaders.get(topic, index, current_leader_epoch)

    def _sent_to(
        self, broker_id: int, partition: Partition, wanted: FetchPartition
    ) -> FetchPartitionResponse:
        """Where to read, instead of records; so it is not waited with."""
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
        answers = [self._one(name, one) for one in topic.partitions]
        return FetchTopicResponse(topic.name, topic.topic_id, answers)

    def _one(self, topic: str | None, wanted: FetchPartition) -> FetchPartitionResponse:
        """Of a topic that is known here, or of none."""
        if topic is None:
            return self.refused(None, wanted, ErrorCode.unknown_topic_id)
        try:
            return self.read(self.find(topic, wanted), wanted)
        except (PartitionError, *REFUSALS) as refused:
            return self.refused(topic, wanted, code_of(refused))

    def _with(
        self, found: FetchPartitionResponse, partition: Partition, records: LogSlice, end: int
    ) -> FetchPartitionResponse:
        """The answer with these records, of those that there are up to `end`."""
        # There may be more than an answer holds, or than the rest of a segment. Where there is
        # no memory for it, it is waited for.
        self._has_more |= records.next_offset < end and (self._may_exceed or records.size_bytes > 0)
        if records.size_bytes == 0:
            return found
        self._bytes += records.size_bytes
        self._found.append((partition, records.size_bytes))
        return found._replace(records=records)


def unreadable(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    """An error in the place of records."""
    return FetchPartitionResponse(wanted.partition, code, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
