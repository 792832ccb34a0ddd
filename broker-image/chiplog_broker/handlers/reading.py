"""Reading for one fetch, again and again until there is enough to answer with."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import FetchWaiter
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from chiplog_broker.storage.log import LogSlice

OK = int(ErrorCode.none)
UNKNOWN_OFFSET = -1
FetchQueue: TypeAlias = dict[FetchWaiter, None]
"""The fetches that one partition wakes."""


class Reading:
    """One attempt after another to answer a fetch, each from the beginning."""

    def __init__(
        self, request: FetchRequest, max_bytes: int, cluster: ClusterView, leaders: Leaders
    ) -> None:
        self._request = request
        self._max_bytes = max_bytes
        # More than may be sent cannot be waited for; nor is there anything to wait for
        # where no partition is asked for.
        self._min_bytes = min(request.min_bytes, max_bytes) if request.topics else 0
        self._cluster = cluster
        self._leaders = leaders
        self._found: list[tuple[Partition, int]] = []
        self._bytes = 0
        self._has_more = False
        self._failed = False

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found what the reader wants, or cannot find more."""
        return self._bytes >= self._min_bytes or self._has_more or self._failed

    def attempt(self) -> FetchResponse:
        """Read every partition as far as the request's size allows."""
        self._bytes = 0
        self._has_more = self._failed = False
        self._found.clear()
        return FetchResponse([self._topic(topic) for topic in self._request.topics])

    def count(self) -> None:
        """The last attempt is what is sent."""
        for partition, size_bytes in self._found:
            partition.counters.bytes_out += size_bytes

    def queues(self) -> Iterator[FetchQueue]:
        """Where to wait for the partitions here that the request reads."""
        for topic in self._request.topics:
            name = self._name(topic) or ""
            for wanted in topic.partitions:
                with suppress(PartitionError):
                    yield self._queue(self._leaders.get(name, wanted.partition))

    def _queue(self, partition: Partition) -> FetchQueue:
        return partition.fetchers

    def _name(self, topic: FetchTopic) -> str | None:
        if topic.topic_id is None:
            return topic.name
        view = self._cluster.topic_with_id(topic.topic_id)
        return None if view is None else view.name

    def _topic(self, topic: FetchTopic) -> FetchTopicResponse:
        name = self._name(topic)
        if name is None:
            self._failed = True
            answers = [unreadable(one, ErrorCode.unknown_topic_id) for one in topic.partitions]
        else:
            answers = [self._partition(name, one) for one in topic.partitions]
        return FetchTopicResponse(topic.name, topic.topic_id, answers)

    def _partition(self, topic: str, wanted: FetchPartition) -> FetchPartitionResponse:
        try:
            partition = self._leaders.get(topic, wanted.partition, wanted.current_leader_epoch)
            room_bytes = self._max_bytes - self._bytes
            max_bytes = max(min(wanted.max_bytes, room_bytes), 0)
            first = self._bytes == 0
            records = partition.read(wanted.fetch_offset, max_bytes, min_one=first)
        except (PartitionError, *REFUSALS) as refused:
            return self._refused(wanted, code_of(refused))
        high_watermark = partition.high_watermark
        found = FetchPartitionResponse(
            wanted.partition, OK, high_watermark, high_watermark, partition.log.log_start_offset
        )
        if records is None:
            return found
        return self._with(found, partition, records, high_watermark)

    def _with(
        self, found: FetchPartitionResponse, partition: Partition, records: LogSlice, end: int
    ) -> FetchPartitionResponse:
        """The answer with these records, of those that there are up to `end`."""
        # There may be more than an answer holds, or than the rest of a segment.
        self._has_more |= records.next_offset < end
        if records.size_bytes == 0:
            return found
        self._bytes += records.size_bytes
        self._found.append((partition, records.size_bytes))
        return found._replace(records=records)

    def _refused(self, wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
        self._failed = True
        return unreadable(wanted, code)


def unreadable(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    """An error in the place of records."""
    return FetchPartitionResponse(wanted.partition, code, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
