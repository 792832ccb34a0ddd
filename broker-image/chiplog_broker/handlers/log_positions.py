"""Log start and end offsets of partitions led here, and the timestamps of their records.

Offsets are reported for all partitions. Timestamps must be searched in the logs within a time
limit: what is not found by then is left out, which means "unknown" to the operator.
"""

from collections.abc import AsyncIterator, Iterator
from typing import Final

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.partitions.errors import REFUSALS, PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.ports.clock import Clock
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.group_exchange import (
    LogRefusal,
    PartitionPosition,
    PartitionRequest,
    Positions,
    PositionsRequest,
    RecordTime,
    TopicPositions,
)
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import HEADER_BYTES, read_header
from chiplog_wire.records.reader import Record, read_records

LOOKUPS_LIMIT_S: Final = 2.0
"""For one request. The operator repeats it, possibly with other partitions first."""

MAX_BATCHES: Final = 16
"""Batches that are read at most to find the record at an offset: transaction markers and compacted
batches may have no record."""

_ONE_BATCH_BYTES: Final = 1
"""A read returns at least one whole batch, so this size limit gives exactly one."""


class LogPositions:
    """Answers the operator for the partitions that this broker leads."""

    def __init__(self, leaders: Leaders, clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock

    async def answer(self, request: PositionsRequest) -> Positions:
        """One result for each requested partition, in the order of the request."""
        lookups = _Lookups(self._clock)
        time_ms = self._clock.now_ms()
        topics = []
        for topic in request.topics:
            found = [
                await self._position(topic.topic, wanted, request.since_ms, lookups)
                for wanted in topic.partitions
            ]
            topics.append(TopicPositions(topic=topic.topic, partitions=tuple(found)))
        return Positions(topics=tuple(topics), time_ms=time_ms)

    async def _position(
        self, topic: str, wanted: PartitionRequest, since_ms: int | None, lookups: "_Lookups"
    ) -> PartitionPosition:
        """The offsets of one partition, and the first offset with a timestamp from `since_ms`
        on."""
        await lookups.slices.pause()
        index = wanted.partition
        try:
            partition = self._leaders.with_current_high_watermark(topic, index)
        except PartitionError as refused:
            return PartitionPosition(partition=index, refusal=refusal_of(refused.code))
        end_offset, log_start_offset = partition.high_watermark, partition.log.log_start_offset
        return PartitionPosition(
            partition=PartitionIndex(index),
            end_offset=Offset(end_offset),
            log_start_offset=Offset(log_start_offset),
            last_timestamp_ms=lookups.last_timestamp_ms(partition, end_offset),
            since_offset=await lookups.first_offset_since(partition, since_ms, end_offset),
            times=tuple(
                [
                    timestamp_ms
                    async for timestamp_ms in lookups.record_times(
                        partition, wanted.offsets, end_offset
                    )
                ]
            ),
        )


def refusal_of(code: ErrorCode) -> LogRefusal:
    """The refusal that the operator gets for one of Kafka's codes."""
    if code is ErrorCode.offset_not_available:
        return LogRefusal.UNSETTLED
    if code is ErrorCode.kafka_storage_error:
        return LogRefusal.FAILED
    return LogRefusal.NOT_LEADER


class _Lookups:
    """Reads logs until the time limit of a request.

    A result is None if it was not found in time, or if the log is not readable. Damage needs no
    error here: other reads report it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + LOOKUPS_LIMIT_S
        self._long_work = LongWork(clock)
        self.slices = self._long_work.slices()

    @property
    def _is_timed_out(self) -> bool:
        return self._clock.monotonic_s() >= self._until_s

    def last_timestamp_ms(self, partition: Partition, end_offset: int) -> int | None:
        """The timestamp of the newest record of the last batch, from the header of this batch. None
        if the log is empty or cannot be read, or if the time for the whole request is over."""
        log = partition.log
        if self._is_timed_out or end_offset <= log.log_start_offset:
            return None
        try:
            found = log.read(end_offset - 1, _ONE_BATCH_BYTES, end_offset)
            if not found.size_bytes:
                return None
            return read_header(found.file.read(found.position, HEADER_BYTES)).newest_record_ms
        except REFUSALS:
            return None

    async def first_offset_since(
        self, partition: Partition, since_ms: int | None, end_offset: int
    ) -> Offset | None:
        """The offset of the first record with at least this timestamp; the end offset if there is
        no such record. None if `since_ms` is None, the log cannot be read, or the time for the
        whole request is over."""
        if since_ms is None or self._is_timed_out:
            return None
        try:
            steps = partition.log.find_timestamp(since_ms, end_offset)
            found = await self._long_work.run(steps, self.slices)
        except REFUSALS:
            return None
        return Offset(end_offset if found is None else found.offset)

    async def record_times(
        self, partition: Partition, offsets: tuple[Offset, ...], end_offset: int
    ) -> AsyncIterator[RecordTime]:
        """The timestamps of the records at these offsets, without those that are not found."""
        for offset in offsets:
            if offset < end_offset and not self._is_timed_out:
                found = await self._timestamp_ms(partition, offset, end_offset)
                if found is not None:
                    yield RecordTime(offset=offset, timestamp_ms=found)

    async def _timestamp_ms(self, partition: Partition, offset: int, end_offset: int) -> int | None:
        """The timestamp of the first record at or after an offset. None if no record is found in
        `MAX_BATCHES` batches or in the time for the whole request, or the log cannot be read."""
        log = partition.log
        try:
            read_offset = offset = max(offset, log.log_start_offset)
            for _ in range(MAX_BATCHES):
                if read_offset >= end_offset or self._is_timed_out:
                    return None
                found = log.read(read_offset, _ONE_BATCH_BYTES, end_offset)
                if not found.size_bytes:
                    return None
                for record in records_of(found.read()):
                    if record.offset >= offset:
                        return record.timestamp_ms
                    await self.slices.pause()
                read_offset = found.next_offset
        except REFUSALS:
            pass
        return None


def records_of(batch: bytes) -> Iterator[Record]:
    """The records of a batch that consumers see: none of a transaction marker. Raises
    `RecordsError`."""
    header = read_header(batch)
    if not header.is_control:
        yield from read_records(batch, header)
