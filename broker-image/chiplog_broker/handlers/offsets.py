"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from chiplog_broker.handlers.leaders import DEBUGGING_CONSUMER_ID, LARGEST_CONSUMER_ID, Leaders
from chiplog_broker.handlers.reading import READ_COMMITTED
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.ports.clock import Clock
from chiplog_broker.server.call import Call
from chiplog_broker.storage.log import ListOffset, TimestampOffset
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

NO_OFFSET = -1
NO_TIMESTAMP = -1
TO_HIGH_WATERMARK = -1
NOT_AVAILABLE_FROM_VERSION = 5
# With nothing in remote storage the log begins where its local part does (KIP-405).
EARLIEST_LOCAL = -4
# The last offset in remote storage, and the first that is still to be copied there (KIP-1005,
# KIP-1023): as in Kafka, unknown where a topic has no remote storage.
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
REMOTE_OFFSETS = frozenset({LATEST_TIERED, EARLIEST_PENDING_UPLOAD})
# Not Kafka's: the offset up to which a replica is compacted, for readers of exactly this replica.
# The log does not show it: where a follower fetched while its leader was compacting, older values
# and gaps are next to each other.
CLEAN_POINT = -1001
# First versions of ListOffsets with these negative timestamps, which stand for places in the log.
PLACES_FROM_VERSION = {
    ListOffset.LATEST: 1,
    ListOffset.EARLIEST: 1,
    ListOffset.MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}

Find: TypeAlias = Callable[[str, int, int], Partition]
"""A partition by topic, index and the leader epoch that the client knows."""


class OffsetHandlers:
    """Answers requests about offsets, for the partitions that this broker leads."""

    def __init__(self, leaders: Leaders, clock: Clock, long_work: LongWork) -> None:
        self._leaders = leaders
        self._clock = clock
        self._long_work = long_work

    async def list_offsets(self, call: Call[Any]) -> object:
        """Offsets of the first records with given timestamps, or of the start or end of logs.

        Replica id -2 means this broker's replica, be it leader or follower, as in Kafka. Its end is
        the high watermark that it knows, because its readers can fetch no further; in Kafka it is
        the log end offset.
        """
        types = answers(ApiKey.LIST_OFFSETS)
        topics = call.message.topics
        any_role = call.message.replica_id == DEBUGGING_CONSUMER_ID
        leaders = self._leaders.for_replica(call.message.replica_id, call.peer)
        times = Counter(
            (topic.name, partition.partition_index)
            for topic in topics
            for partition in topic.partitions
        )
        find = leaders.replica_of_any_role if any_role else leaders.get
        lookup = Lookup(
            find,
            call.header.version,
            self._long_work,
            any_role=any_role,
            reads_committed=call.message.isolation_level == READ_COMMITTED,
        )
        found = []
        for topic in topics:
            partitions = [
                await lookup.listed_offset(
                    topic.name, partition, times[topic.name, partition.partition_index]
                )
                for partition in topic.partitions
            ]
            found.append(
                types.ListOffsetsTopicResponse(name=topic.name, partitions=tuple(partitions))
            )
        return types.ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(found))

    async def offset_for_leader_epoch(self, call: Call[Any]) -> object:
        """The end offsets of leader epochs, by which consumers detect truncations (KIP-320)."""
        types = answers(ApiKey.OFFSET_FOR_LEADER_EPOCH)
        for_consumer = call.message.replica_id <= LARGEST_CONSUMER_ID
        leaders = self._leaders.for_replica(call.message.replica_id, call.peer)
        slices = self._long_work.slices()
        topics = []
        for topic in call.message.topics:
            partitions = []
            for wanted in topic.partitions:
                partitions.append(
                    epoch_end(leaders, topic.topic, wanted, for_consumer=for_consumer)
                )
                await slices.pause()
            topics.append(
                types.OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions))
            )
        return types.OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))

    async def delete_records(self, call: Call[Any]) -> object:
        """Delete the records below the given offsets; -1 means below the high watermark."""
        types = answers(ApiKey.DELETE_RECORDS)
        topics, slices = [], self._long_work.slices()
        for topic in call.message.topics:
            results = []
            for partition in topic.partitions:
                results.append(await self._delete(types, topic.name, partition))
                await slices.pause()
            topics.append(
                types.DeleteRecordsTopicResult(name=topic.name, partitions=tuple(results))
            )
        return types.DeleteRecordsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))

    async def _delete(self, types: Any, topic: str, wanted: Any) -> object:
        """Delete records of one partition; its result has the new log start offset or an error."""
        code, low_watermark = ErrorCode.none, NO_OFFSET
        try:
            partition = self._leaders.changeable(topic, wanted.partition_index)
            offset = wanted.offset
            if offset == TO_HIGH_WATERMARK:
                offset = partition.high_watermark
            low_watermark = await partition.delete_records_before(offset, self._clock.now_ms())
        except (PartitionError, *REFUSALS) as refused:
            code = code_of(refused)
        return types.DeleteRecordsPartitionResult(
            partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code
        )


class Lookup:
    """The lookups of one ListOffsets request, partition by partition."""

    def __init__(
        self,
        find: Find,
        version: int,
        long_work: LongWork,
        *,
        any_role: bool,
        reads_committed: bool,
    ) -> None:
        """`find` returns the partition that the request may read. `any_role`: this broker's
        replicas are read, be they leaders or followers. `reads_committed`: only records below the
        last stable offset are found, which is the latest offset then."""
        self._find = find
        self._version = version
        self._any_role = any_role
        self._reads_committed = reads_committed
        self._long_work = long_work
        self._slices = long_work.slices()

    async def listed_offset(self, topic: str, wanted: Any, times: int) -> object:
        """One partition of the answer. `times` is how often the request names it; more than once is
        an error."""
        await self._slices.pause()
        code, timestamp, offset, epoch = ErrorCode.none, NO_TIMESTAMP, NO_OFFSET, -1
        try:
            if times > 1:
                raise PartitionError(ErrorCode.invalid_request)
            is_clean_point = self._any_role and wanted.timestamp == CLEAN_POINT
            place = (
                NO_TIMESTAMP if is_clean_point else place_or_time(wanted.timestamp, self._version)
            )
            partition = self._find(topic, wanted.partition_index, wanted.current_leader_epoch)
            if is_clean_point:
                return clean_point(partition, wanted.partition_index)
            found = await self._in_log(partition, topic, wanted, place)
            if found is not None:
                timestamp, offset, epoch = found
        except (PartitionError, *REFUSALS) as refused:
            code = code_of(refused)
        return answers(ApiKey.LIST_OFFSETS).ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index,
            error_code=code,
            timestamp=timestamp,
            offset=offset,
            leader_epoch=epoch,
        )

    async def _in_log(
        self, partition: Partition, topic: str, wanted: Any, place: int
    ) -> TimestampOffset | None:
        """The record at a place or time (`place_or_time`); None if there is none."""
        if place in REMOTE_OFFSETS:  # there is no remote storage
            return None
        end_offset = (
            partition.last_stable_offset if self._reads_committed else partition.high_watermark
        )
        steps = partition.log.find_timestamp(place, end_offset)
        found = await self._long_work.run(steps, self._slices)
        present = self._find(topic, wanted.partition_index, wanted.current_leader_epoch)
        if present is not partition:
            # The replica was replaced while its log was searched.
            raise PartitionError(ErrorCode.not_leader_or_follower)
        if not partition.high_watermark_is_current and (
            found is None or place == ListOffset.LATEST
        ):
            # Consumers may have read further from the previous leader than the high watermark is
            # here yet, so a result that depends on it could send them back.
            has_code = self._version >= NOT_AVAILABLE_FROM_VERSION
            raise PartitionError(
                ErrorCode.offset_not_available if has_code else ErrorCode.leader_not_available
            )
        return found


def clean_point(partition: Partition, index: int) -> object:
    """The answer for `CLEAN_POINT`: the offset up to which this log is compacted.

    The offset is -1 if the log was never compacted, neither here nor before it was fetched from a
    leader.
    """
    log = partition.log
    offset = NO_OFFSET
    if log.gap_end_offset:
        cleaner_offset = log.compaction.cleaner_offset
        # An offset outside the log has no meaning after records were deleted or truncated. 0 says
        # that the log may have gaps, and that nothing is known to be compacted.
        is_within = log.log_start_offset <= cleaner_offset <= log.end_offset
        offset = cleaner_offset if is_within else 0
    return answers(ApiKey.LIST_OFFSETS).ListOffsetsPartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        timestamp=NO_TIMESTAMP,
        offset=offset,
        leader_epoch=-1,
    )


def epoch_end(leaders: Leaders, topic: str, wanted: Any, *, for_consumer: bool) -> object:
    """One partition of an OffsetForLeaderEpoch answer.

    `for_consumer`: whether a consumer asks; a follower may get an end above the high watermark.
    """
    code, epoch, end_offset = ErrorCode.none, -1, NO_OFFSET
    try:
        partition = leaders.get(topic, wanted.partition, wanted.current_leader_epoch)
        epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
        if (
            for_consumer
            and not partition.high_watermark_is_current
            and end_offset > partition.high_watermark
        ):
            # The end of this epoch is above the high watermark, so it may still be truncated.
            code, epoch, end_offset = ErrorCode.offset_not_available, -1, NO_OFFSET
    except (PartitionError, *REFUSALS) as refused:
        code = code_of(refused)
    return answers(ApiKey.OFFSET_FOR_LEADER_EPOCH).EpochEndOffset(
        error_code=code, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )


def place_or_time(timestamp: int, version: int) -> int:
    """What to look for: a timestamp in ms, or a negative value for a place like
    `ListOffset.LATEST`.

    Raises `PartitionError` for a place that this version of ListOffsets does not have.
    """
    if timestamp >= 0:
        return timestamp
    # An unknown place counts as one of the next version, so it is refused, too.
    if version < PLACES_FROM_VERSION.get(timestamp, version + 1):
        raise PartitionError(ErrorCode.unsupported_version)
    # Without remote storage, the first local offset is the first offset of the log.
    return ListOffset.EARLIEST if timestamp == EARLIEST_LOCAL else timestamp
