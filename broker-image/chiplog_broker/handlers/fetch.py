"""Fetch: read at once; wait where there is too little to answer with.

Answers obey the request's size in Kafka's way: the first batch is sent even where it is
larger than allowed, or its reader could never get past it. Fetch sessions are declined
(session id 0), which every client accepts.
"""

import asyncio
from collections.abc import Iterator

from chiplog_broker.handlers.call import Answer, Call
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_broker.protocol.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)

CONSUMER = -1
NO_SESSION = 0
OK = int(ErrorCode.none)
UNKNOWN_OFFSET = -1


class FetchHandler:
    """Serves consumers from the partitions that this broker leads."""

    def __init__(self, cluster: ClusterView, replicas: Replicas) -> None:
        self._cluster = cluster
        self._replicas = replicas

    def __call__(self, call: Call[FetchRequest]) -> FetchResponse | asyncio.Future[Answer]:
        request = call.message
        if request.replica_id != CONSUMER:
            # A client that poses as a broker would hold records back or vouch for them.
            return FetchResponse([], error_code=ErrorCode.cluster_authorization_failed)
        if request.session_id != NO_SESSION:
            return FetchResponse([], error_code=ErrorCode.fetch_session_id_not_found)
        reading = Reading(request, self._cluster, self._replicas)
        response = reading.attempt()
        if reading.is_enough or request.max_wait_ms <= 0:
            return response
        return WaitingFetch(call, reading).start()


class Reading:
    """One attempt after another to answer a fetch, each from the beginning."""

    def __init__(self, request: FetchRequest, cluster: ClusterView, replicas: Replicas) -> None:
        self._request = request
        self._cluster = cluster
        self._replicas = replicas
        self._bytes = 0
        self._failed = False

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found what the reader wants, or an error it must see."""
        return self._failed or self._bytes >= self._request.min_bytes

    def attempt(self) -> FetchResponse:
        """Read every partition as far as the request's size allows."""
        self._bytes = 0
        self._failed = False
        return FetchResponse([self._topic(topic) for topic in self._request.topics])

    def partitions(self) -> Iterator[Partition]:
        """The partitions here that the request reads."""
        for topic in self._request.topics:
            name = self._name(topic)
            for wanted in topic.partitions:
                if name and (partition := self._replicas.get(name, wanted.partition)):
                    yield partition

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
            partition = self._replicas.leader(topic, wanted.partition, wanted.current_leader_epoch)
            room_bytes = self._request.max_bytes - self._bytes
            max_bytes = max(min(wanted.max_bytes, room_bytes), 0)
            first = self._bytes == 0
            records = partition.read(wanted.fetch_offset, max_bytes, min_one=first)
        except PartitionError as refused:
            return self._refused(topic, wanted, refused.code)
        except REFUSALS as refused:
            return self._refused(topic, wanted, code_of(refused))
        high_watermark = partition.high_watermark
        found = FetchPartitionResponse(
            wanted.partition, OK, high_watermark, high_watermark, partition.log.log_start_offset
        )
        if records is None or records.size_bytes == 0:
            return found
        self._bytes += records.size_bytes
        return found._replace(records=records)

    def _refused(
        self, topic: str, wanted: FetchPartition, code: ErrorCode
    ) -> FetchPartitionResponse:
        self._failed = True
        view = self._cluster.topic(topic)
        if view is None or not 0 <= wanted.partition < len(view.partitions):
            code = ErrorCode.unknown_topic_or_partition
        return unreadable(wanted, code)


def unreadable(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    """An error in the place of records."""
    return FetchPartitionResponse(wanted.partition, code, UNKNOWN_OFFSET, UNKNOWN_OFFSET)


class WaitingFetch:
    """A fetch that found too little: tries again when one of its partitions changed."""

    def __init__(self, call: Call[FetchRequest], reading: Reading) -> None:
        self._call = call
        self._reading = reading
        self._partitions = list(reading.partitions())
        self._future: asyncio.Future[Answer]
        self._timeout: asyncio.TimerHandle

    def start(self) -> asyncio.Future[Answer]:
        """Wait, for as long as the consumer said it would."""
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._future.add_done_callback(self._leave)
        self._timeout = loop.call_later(self._call.message.max_wait_ms / 1000, self._time_out)
        for partition in self._partitions:
            partition.fetchers[self] = None
        return self._future

    def changed(self) -> None:
        """A partition has more, or can no longer be read here."""
        if not self._future.done():
            response = self._reading.attempt()
            if self._reading.is_enough:
                self._future.set_result(self._call.encode(response))

    def _time_out(self) -> None:
        if not self._future.done():
            self._future.set_result(self._call.encode(self._reading.attempt()))

    def _leave(self, _: asyncio.Future[Answer]) -> None:
        """Answered, or its client has gone."""
        self._timeout.cancel()
        for partition in self._partitions:
            partition.fetchers.pop(self, None)
