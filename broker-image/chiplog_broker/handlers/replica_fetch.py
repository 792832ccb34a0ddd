"""Answers to followers: records up to the log end offset, and diverging epochs.

A follower counts only in its present session and in the leader epoch that it names (R1, R2). Its
fetch offset acknowledges everything below, as durable as the topic requires, if the epoch before
that offset ended at the same offset here.
"""

from chiplog_broker.fetch_sessions.session import SessionEntry
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.reading import OK, UNKNOWN_OFFSET, FetchQueue, Reading
from chiplog_broker.metadata.view import NO_EPOCH, ClusterView
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.followers import Followers
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.throttle import ReplicationThrottle
from chiplog_broker.partitions.waiting import Watcher
from chiplog_broker.storage.errors import OffsetOutOfRangeError
from chiplog_core.ids import BrokerId, ReplicaRef, Session
from chiplog_core.throttle.copying import NO_COPYING, Copying, copying_of
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)


class ReplicaReading(Reading):
    """Attempts to answer a follower's fetch.

    Only the first attempt counts as an acknowledgement: later ones repeat it with the same offsets,
    which may be outdated.
    """

    def __init__(
        self,
        request: FetchRequest,
        max_bytes: int,
        cluster: ClusterView,
        leaders: Leaders,
        throttle: ReplicationThrottle,
        *,
        has_readers: bool = False,
    ) -> None:
        """`has_readers`: whether consumers may read from this follower."""
        super().__init__(request, max_bytes, cluster, leaders)
        self._has_readers = has_readers
        self._throttle = throttle
        self._copied_bytes = 0
        """Size of the records in this attempt that are for copies under a limit."""
        self._follower = ReplicaRef(BrokerId(request.replica_id), Session(request.replica_epoch))
        self._attempts = 0

    def begin(self) -> None:
        """Reset the state for another attempt to answer the same fetch, and count the attempts."""
        super().begin()
        self._copied_bytes = 0
        self._attempts += 1

    @property
    def wants_changes(self) -> bool:
        """Whether the follower should get a new high watermark soon, because consumers read
        there."""
        return self._has_readers

    def find(self, topic: str, wanted: FetchPartition) -> Partition:
        """The partition, which this broker must lead: followers fetch from leaders only."""
        return self._leaders.get(topic, wanted.partition, wanted.current_leader_epoch)

    def watchers(self, partition: Partition) -> dict[Watcher, None]:
        return partition.replica_watchers

    def try_idle(self, partition: Partition, entry: SessionEntry) -> bool:
        """Whether the follower's session can skip this partition until it changes, because the
        follower has all records. After True, each fetch of the session counts as a fetch of this
        partition at the log end.

        False for a follower outside the ISR, because each of its fetches may add it to the ISR.
        Also False while the leader is isolated, because each fetch may end the isolation.
        """
        followers = partition.followers
        assert followers is not None, "`read` has checked that there are followers"
        if entry.wanted.fetch_offset < partition.log.end_offset or partition.is_isolated:
            return False
        if not followers.is_in_sync(self._follower):
            return False
        followers.mark_idle(self._follower, entry)
        return True

    def sent(self, response: FetchResponse) -> FetchResponse:
        """Count the last attempt as sent; `response` is its answer. Returns the answer to send: if
        this fetch opens a session, with the id of this session."""
        # As in Kafka, records for followers do not count as bytes sent to consumers.
        self._found.clear()
        if self._copied_bytes:
            self._throttle.leader_sent(self._copied_bytes)
        return super().sent(response)

    def _queue(self, partition: Partition) -> FetchQueue:
        return partition.replica_fetchers

    def read(self, partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
        """The records from the follower's fetch offset to the log end, or the diverging epoch at
        which it must truncate first.

        Raises `PartitionError` if this broker does not lead, or if the follower is not in its
        newest session, names no leader epoch, or has records of an epoch that is unknown here.
        """
        self._read_partitions.append(partition)
        followers = partition.followers
        if followers is None or not followers.admits(self._follower):
            raise PartitionError(ErrorCode.stale_broker_epoch)
        if wanted.current_leader_epoch == NO_EPOCH:
            # Without an epoch, its offset may be from a leadership whose history this log lacks.
            raise PartitionError(ErrorCode.unknown_leader_epoch)
        if (diverging := diverging_epoch_of(partition, wanted)) is not None:
            self._is_urgent = True
            return without_records(partition, wanted)._replace(diverging_epoch=diverging)
        max_bytes = max(min(wanted.max_bytes, self._max_bytes - self._bytes), 0)
        min_one = self._bytes == 0  # the first batch of an answer may exceed the limit
        copy_bytes = self._throttle.leader_bytes(self._copying(partition, followers))
        if copy_bytes is not None:
            copy_bytes -= self._copied_bytes
            max_bytes = max(min(max_bytes, copy_bytes), 0)
            min_one = min_one and copy_bytes > 0
        try:
            # Also without a byte to send: this checks that the fetch offset lies within the log.
            records = partition.read_as_follower(wanted.fetch_offset, max_bytes, min_one=min_one)
        except OffsetOutOfRangeError:
            # The follower has to start again at this leader's log start offset.
            self._is_urgent = True
            return FetchPartitionResponse(
                wanted.partition,
                ErrorCode.offset_out_of_range,
                UNKNOWN_OFFSET,
                UNKNOWN_OFFSET,
                partition.log.log_start_offset,
            )
        self._count_fetch(partition, wanted)
        if copy_bytes is not None:
            if copy_bytes <= 0:
                # As in Kafka, it is left out. The fetch then waits, and reads again at its end.
                return without_records(partition, wanted)
            self._copied_bytes += records.size_bytes
        empty = without_records(partition, wanted)
        if records.size_bytes and wanted.fetch_offset < partition.log.gap_end_offset:
            # Compaction may have removed records, so the follower must accept gaps in the offsets.
            empty = empty._replace(may_have_gaps=True)
        return self._response(empty, partition, records, partition.log.end_offset)

    def _count_fetch(self, partition: Partition, wanted: FetchPartition) -> None:
        """Count the fetch as an acknowledgement, once: later attempts read for the same fetch."""
        if self._attempts == 1:
            partition.fetched_by(self._follower, wanted.fetch_offset, wanted.log_start_offset)

    def _copying(self, partition: Partition, followers: Followers) -> Copying:
        """How the throttle applies to the follower's replica of this partition; not at all if
        producers wait for it."""
        if not followers.is_copying(self._follower):
            return NO_COPYING
        topic = self._cluster.topic(partition.name.topic)
        if topic is None:
            return NO_COPYING
        return copying_of(
            topic.config.own,
            partition.name.partition,
            leader=self._cluster.broker_id,
            follower=self._follower.broker_id,
            adding=followers.adding,
        )


def without_records(partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
    """The answer for one partition with its high watermark, but without records."""
    return FetchPartitionResponse(
        wanted.partition,
        OK,
        partition.high_watermark,
        partition.last_stable_offset,
        partition.log.log_start_offset,
    )


def diverging_epoch_of(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """The last epoch that leader and follower may both have, and its end offset in this log, where
    the follower must truncate; None if the logs agree (KIP-595).

    Raises `PartitionError` for an epoch that this log does not know: then the follower must not
    truncate.
    """
    if wanted.last_fetched_epoch == NO_EPOCH:
        return None  # the follower has no records, so nothing can differ
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == NO_EPOCH:
        raise PartitionError(ErrorCode.unknown_leader_epoch)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None
