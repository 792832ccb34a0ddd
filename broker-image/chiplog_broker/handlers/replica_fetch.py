"""What followers are answered: everything up to the log end, and where histories part.

A follower counts only in the session that it fetches in, and in the leader epoch that it names
(R1, R2). Its fetch says how far it is: it has everything below the offset that it asks for, as
durable as the topic wants, if the epoch before that offset ended there here too.
"""

from chiplog_broker.fetch_sessions.session import SessionEntry
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.reading import OK, UNKNOWN_OFFSET, FetchQueue, Reading
from chiplog_broker.metadata.view import NO_EPOCH, ClusterView
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.waiting import Watcher
from chiplog_broker.storage.errors import OffsetOutOfRangeError
from chiplog_core.ids import BrokerId, ReplicaRef, Session
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    EpochEndOffset,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)


class ReplicaReading(Reading):
    """One attempt after another to answer a follower; only the first says how far it is."""

    def __init__(
        self,
        request: FetchRequest,
        max_bytes: int,
        cluster: ClusterView,
        leaders: Leaders,
        *,
        has_readers: bool = False,
    ) -> None:
        """`has_readers` says that consumers may be reading from this follower."""
        super().__init__(request, max_bytes, cluster, leaders)
        self._has_readers = has_readers
        self._follower = ReplicaRef(BrokerId(request.replica_id), Session(request.replica_epoch))
        self._attempts = 0

    def begin(self) -> None:
        super().begin()
        self._attempts += 1

    @property
    def wants_news(self) -> bool:
        return self._has_readers

    def find(self, topic: str, wanted: FetchPartition) -> Partition:
        """Replicas copy from leaders only."""
        return self._leaders.get(topic, wanted.partition, wanted.current_leader_epoch)

    def watchers(self, partition: Partition) -> dict[Watcher, None]:
        return partition.replica_watchers

    def rests(self, partition: Partition, entry: SessionEntry) -> bool:
        """From the next use of its session on it counts as caught up without being looked at.

        One that is not in sync may become it with each fetch, so each is looked at; and while
        the leader is isolated, each ends that.
        """
        followers = partition.followers
        assert followers is not None, "it was read"
        if entry.wanted.fetch_offset < partition.log.end_offset or partition.is_isolated:
            return False
        if not followers.is_in_sync(self._follower):
            return False
        followers.rests(self._follower, entry)
        return True

    def sent(self, response: FetchResponse) -> FetchResponse:
        """What followers copy is not counted as given to consumers, as in Kafka."""
        self._found.clear()
        return super().sent(response)

    def _queue(self, partition: Partition) -> FetchQueue:
        return partition.replica_fetchers

    def read(self, partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
        self._looked.append(partition)
        followers = partition.followers
        if followers is None or not followers.admits(self._follower):
            raise PartitionError(ErrorCode.stale_broker_epoch)
        if wanted.current_leader_epoch == NO_EPOCH:
            # Its offset could be of another reign, whose history this log does not have.
            raise PartitionError(ErrorCode.unknown_leader_epoch)
        if (parting := where_it_parts(partition, wanted)) is not None:
            self._is_urgent = True
            return without_records(partition, wanted)._replace(diverging_epoch=parting)
        max_bytes = max(min(wanted.max_bytes, self._max_bytes - self._bytes), 0)
        first = self._bytes == 0
        try:
            records = partition.read_as_follower(wanted.fetch_offset, max_bytes, min_one=first)
        except OffsetOutOfRangeError:
            # Where this log begins is where the follower has to begin anew.
            self._is_urgent = True
            return FetchPartitionResponse(
                wanted.partition,
                ErrorCode.offset_out_of_range,
                UNKNOWN_OFFSET,
                UNKNOWN_OFFSET,
                partition.log.log_start_offset,
            )
        if self._attempts == 1:
            partition.fetched_by(self._follower, wanted.fetch_offset, wanted.log_start_offset)
        empty = without_records(partition, wanted)
        if records.size_bytes and partition.log.may_have_gaps:
            empty = empty._replace(may_have_gaps=True)
        return self._with(empty, partition, records, partition.log.end_offset)


def without_records(partition: Partition, wanted: FetchPartition) -> FetchPartitionResponse:
    """What is said of a partition, whether there are records or not."""
    high_watermark = partition.high_watermark
    return FetchPartitionResponse(
        wanted.partition, OK, high_watermark, high_watermark, partition.log.log_start_offset
    )


def where_it_parts(partition: Partition, wanted: FetchPartition) -> EpochEndOffset | None:
    """The end of the last epoch that both may have; None where the follower's log fits (KIP-595).

    Raises `PartitionError` for an epoch that this log does not know: then nobody truncates.
    """
    if wanted.last_fetched_epoch == NO_EPOCH:
        return None  # it has nothing that could be different
    epoch, end_offset = partition.log.end_offset_for_epoch(wanted.last_fetched_epoch)
    if epoch == NO_EPOCH:
        raise PartitionError(ErrorCode.unknown_leader_epoch)
    if epoch < wanted.last_fetched_epoch or end_offset < wanted.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None
