"""Reading for one fetch, repeatedly, until there is enough for an answer."""

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Final, Protocol, TypeAlias
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
    AbortedTransaction,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    NodeEndpoint,
)

OK = int(ErrorCode.none)
SMALL_BYTES = 16 * 1024
"""Bytes that a client may get even if memory is short."""
MOVED: Final = frozenset({ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch})
"""Errors of a consumer that has not heard of the present leader."""
UNKNOWN_OFFSET = -1
READ_COMMITTED: Final = 1
"""The isolation level of a reader that gets no record of an open transaction, and a list of the
aborted ones, whose records it skips."""
FetchQueue: TypeAlias = dict[FetchWaiter, None]
"""The waiting fetches that a partition wakes when it changes, as an ordered set."""


class Attempts(Protocol):
    """Makes the answer to a fetch: one attempt at once, and others whenever a partition changes."""

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found enough for an answer, or more attempts cannot find
        more."""

    @property
    def has_changes(self) -> bool:
        """Whether the last attempt found changes that the reader should get soon, though not at
        once: for example a new high watermark."""

    def attempt(self) -> FetchResponse:
        """Read the records that there are now."""

    def sent(self, response: FetchResponse) -> FetchResponse:
        """Count the last attempt as sent; `response` is its answer. Returns the answer to send."""

    def join(self, waiter: FetchWaiter) -> None:
        """Register a fetch, which is woken when there may be more records."""

    def leave(self, waiter: FetchWaiter) -> None:
        """Remove a fetch that was registered by `join`."""


class Reading:
    """Reads for a fetch outside a session, in one or more attempts; each reads all partitions."""

    def __init__(
        self,
        request: FetchRequest,
        max_bytes: int,
        cluster: ClusterView,
        leaders: Leaders,
        near: Collection[int] = (),
        *,
        any_role: bool = False,
    ) -> None:
        """`near` are the ids of the brokers in the consumer's rack, from which it should read.

        `any_role`: read this broker's replicas, be they leaders or followers.
        """
        self._request = request
        self._reads_committed = request.isolation_level == READ_COMMITTED
        self._near = near
        self._any_role = any_role
        self._largest_bytes = max_bytes
        self.available_bytes: Callable[[], int] | None = None
        """Returns the memory available for an answer; None for no limit besides the request's."""
        self.denies: Callable[[str], bool] | None = None
        """Returns whether the reader may not read a topic; None if every topic may be read."""
        self.listener: str | None = None
        """The listener whose addresses of leaders the reader gets (KIP-951); None if it gets
        none."""
        self._nodes: dict[int, NodeEndpoint] = {}
        """The leaders that this attempt names, by their ids."""
        self._max_bytes = max_bytes
        """The size limit of this attempt's answer."""
        self._may_exceed = True
        """Whether the first batch may be larger than the limit, so that the reader makes progress
        (KIP-74)."""
        # `min_bytes` above `max_bytes` could never be reached.
        self._min_bytes = min(request.min_bytes, max_bytes)
        self._cluster = cluster
        self._leaders = leaders
        self._queues: list[FetchQueue] = []
        self.opens: Callable[[FetchResponse], int] | None = None
        """Set if this fetch opens a session: returns the session id for the answer."""
        self._found: list[tuple[Partition, int]] = []
        """The partitions with records in the last attempt, and the size of these records in
        bytes."""
        self._read_partitions: list[Partition] = []
        """The partitions that the last attempt read; they are counted if it is sent."""
        self._bytes = 0
        """Size of the records that this attempt has found so far."""
        self._has_more = False
        """Whether there are more records than the answer contains."""
        self._is_urgent = False
        """Whether the answer must not wait for records, because it contains an error, for
        example."""

    @property
    def is_enough(self) -> bool:
        """Whether the last attempt found enough for an answer, or more attempts cannot find
        more."""
        enough_bytes = min(self._min_bytes, self._max_bytes)
        return self._bytes >= enough_bytes or self._has_more or self._is_urgent

    @property
    def wants_changes(self) -> bool:
        """Whether the reader should get changes soon, also if there are no new records. False here,
        for consumers: only followers with consumers of their own need that."""
        return False

    @property
    def has_changes(self) -> bool:
        """Whether the answer opens a session: then it contains all partitions, so it has changes
        for a reader that wants them."""
        return self.wants_changes and self.opens is not None

    def attempt(self) -> FetchResponse:
        """Read every partition, up to the size limit of the request."""
        self.begin()
        # Without partitions there is nothing to wait for.
        self._is_urgent = not self._request.topics
        return FetchResponse([self._topic(topic) for topic in self._request.topics])

    async def attempt_in_slices(self, slices: Slices) -> FetchResponse:
        """Attempt once to read every partition, up to the size limit of the request; for requests
        with very many partitions. After each slice, some milliseconds of work, other requests run.
        Logs may change between slices, so the records are copied to memory."""
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
        if self.available_bytes is not None:
            # Determined for each attempt: less memory may be available after a wait.
            available_bytes = self.available_bytes()
            self._may_exceed = available_bytes > 0
            self._max_bytes = min(self._largest_bytes, max(available_bytes, SMALL_BYTES))
        self._found.clear()
        self._read_partitions.clear()
        self._nodes.clear()

    def sent(self, response: FetchResponse) -> FetchResponse:
        """Count the last attempt as sent; `response` is its answer. Returns the answer to send: if
        this fetch opens a session, with the id of this session."""
        for partition in self._read_partitions:
            partition.counters.fetches += 1
        for partition, size_bytes in self._found:
            partition.counters.bytes_out += size_bytes
            if partition.following is not None:  # this broker is a follower of the partition
                partition.counters.follower_bytes_out += size_bytes
        if self.opens is not None:
            response = response._replace(session_id=self.opens(response))
        if self._nodes:
            response = response._replace(node_endpoints=list(self._nodes.values()))
        return response

    def join(self, waiter: FetchWaiter) -> None:
        """Register a fetch at the request's partitions, which wake it when they change."""
        self._queues = list(self._all_queues())
        for queue in self._queues:
            queue[waiter] = None

    def leave(self, waiter: FetchWaiter) -> None:
        """End the registration of a fetch by `join`."""
        for queue in self._queues:
            queue.pop(waiter, None)

    # -- one partition

    def name_of(self, name: str | None, topic_id: UUID | None) -> str | None:
        """The topic's name, found by its id if the request has one; None if this broker does not
        know the id."""
        if topic_id is None:
            return name
        view = self._cluster.topic_with_id(topic_id)
        return None if view is None else view.name

    def find(self, topic: str, wanted: FetchPartition) -> Partition:
        """The replica to read, which this reader may use. Raises `PartitionError`."""
        return self._find(topic, wanted.partition, wanted.current_leader_epoch)

    def read(self, partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
        """The records for this reader, or the broker from which it should read. Raises
        `PartitionError` and `REFUSALS`."""
        self._read_partitions.append(partition)
        if self._near:
            nearer_broker_id = partition.best_to_read(self._near, wanted.fetch_offset)
            if nearer_broker_id is not None:
                return self._sent_to(nearer_broker_id, partition, wanted)
        remaining_bytes = self._max_bytes - self._bytes
        max_bytes = max(min(wanted.max_bytes, remaining_bytes), 0)
        # The first batch of an answer is read even if it is larger than the limit.
        min_one = self._bytes == 0 and self._may_exceed
        high_watermark, stable_offset = partition.high_watermark, partition.last_stable_offset
        end_offset = stable_offset if self._reads_committed else high_watermark
        records = partition.read(wanted.fetch_offset, max_bytes, end_offset, min_one=min_one)
        found = FetchPartitionResponse(
            wanted.partition, OK, high_watermark, stable_offset, partition.log.log_start_offset
        )
        if self._reads_committed:
            found = found._replace(aborted_transactions=aborted_in(partition, wanted, records))
        if records is None:
            return found
        return self._response(found, partition, records, end_offset)

    def refused(
        self, topic: str | None, wanted: FetchPartition, code: ErrorCode
    ) -> FetchPartitionResponse:
        """Count an error of one partition, and return it as the answer for this partition, with the
        leader if the reader has not heard of it. The fetch is then answered without waiting."""
        self._is_urgent = True
        if topic is not None:
            self._leaders.fetch_failed(topic, wanted.partition, code)
        answer = unreadable(wanted, code)
        if topic is None or self.listener is None or code not in MOVED:
            return answer
        found = self._leaders.elsewhere(topic, wanted.partition, self.listener)
        if found is None:
            return answer
        leader, self._nodes[leader.leader_id] = found
        return answer._replace(current_leader=leader)

    def watchers(self, partition: Partition) -> dict[Watcher, None]:
        """The set in which a fetch session registers to be notified of changes of the partition."""
        return partition.watchers

    def try_idle(self, partition: Partition, entry: SessionEntry) -> bool:
        """Whether a session can skip this partition until it changes, because its reader has all
        records.

        Only for a leader: a follower stops serving when it loses contact with its leader, without a
        change of the partition.
        """
        end_offset = (
            partition.last_stable_offset if self._reads_committed else partition.high_watermark
        )
        return partition.is_leader and end_offset <= entry.wanted.fetch_offset

    # -- inner workings

    def _find(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The replica of this broker that the reader may use. Raises `PartitionError`."""
        if self.denies is not None and self.denies(topic):
            # Before anything else, so that a denied client does not learn what exists.
            raise PartitionError(ErrorCode.topic_authorization_failed)
        if self._any_role:
            return self._leaders.replica_of_any_role(topic, index, current_leader_epoch)
        # Leaders send only consumers with a rack to followers. A consumer without a rack that reads
        # here takes this broker for the leader. Racks exist in Fetch 11 and later (KIP-392).
        if self._request.rack_id:
            return self._leaders.readable(topic, index, current_leader_epoch)
        return self._leaders.get(topic, index, current_leader_epoch)

    def _sent_to(
        self, broker_id: int, partition: Partition, wanted: FetchPartition
    ) -> FetchPartitionResponse:
        """An answer that sends the consumer to another broker's replica, without records. The fetch
        is answered without waiting."""
        self._is_urgent = True
        partition.counters.sent_to_followers += 1
        return FetchPartitionResponse(
            wanted.partition,
            OK,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log.log_start_offset,
            preferred_read_replica=broker_id,
        )

    def _all_queues(self) -> Iterator[FetchQueue]:
        """The queues of the request's partitions, without partitions that cannot be read here."""
        for topic in self._request.topics:
            name = self.name_of(topic.name, topic.topic_id) or ""
            for wanted in topic.partitions:
                with suppress(PartitionError):
                    yield self._queue(self._find(name, wanted.partition))

    def _queue(self, partition: Partition) -> FetchQueue:
        return partition.fetchers

    def _topic(self, topic: FetchTopic) -> FetchTopicResponse:
        """Read all requested partitions of one topic."""
        name = self.name_of(topic.name, topic.topic_id)
        answers = [self._read_partition(name, partition) for partition in topic.partitions]
        return FetchTopicResponse(topic.name, topic.topic_id, answers)

    def _read_partition(self, topic: str | None, wanted: FetchPartition) -> FetchPartitionResponse:
        """The answer for one partition: records or an error. `topic` is None if its id is
        unknown."""
        if topic is None:
            return self.refused(None, wanted, ErrorCode.unknown_topic_id)
        try:
            return self.read(self.find(topic, wanted), wanted)
        except (PartitionError, *REFUSALS) as refused:
            return self.refused(topic, wanted, code_of(refused))

    def _response(
        self,
        found: FetchPartitionResponse,
        partition: Partition,
        records: LogSlice,
        end_offset: int,
    ) -> FetchPartitionResponse:
        """Add the records to the answer `found`; `end_offset` is the end of what may be read."""
        # There may be more records than fit into an answer, or than one segment has. If memory is
        # too short for any record, the fetch waits instead.
        self._has_more |= records.next_offset < end_offset and (
            self._may_exceed or records.size_bytes > 0
        )
        if records.size_bytes == 0:
            return found
        self._bytes += records.size_bytes
        self._found.append((partition, records.size_bytes))
        return found._replace(records=records)


def aborted_in(
    partition: Partition, wanted: FetchPartition, records: LogSlice | None
) -> list[AbortedTransaction]:
    """The aborted transactions of which records may be in this slice from the fetch offset on."""
    if records is None or not records.size_bytes:
        return []
    log = partition.log
    return [
        AbortedTransaction(aborted.producer_id, aborted.first_offset)
        for aborted in log.aborted_transactions(wanted.fetch_offset, records.next_offset)
    ]


def unreadable(wanted: FetchPartition, code: ErrorCode) -> FetchPartitionResponse:
    """The answer for one partition with an error and without records."""
    return FetchPartitionResponse(wanted.partition, code, UNKNOWN_OFFSET, UNKNOWN_OFFSET)
