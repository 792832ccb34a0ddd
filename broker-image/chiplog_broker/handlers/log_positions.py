"""Where the partitions that this broker leads begin and end, and how old their records are.

Ends are told of all partitions. Times of records have to be looked up in the logs, and there is a
limit to that: what was not found by then is left out, which is "unknown" to whoever asked.
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
    PartitionWanted,
    Positions,
    PositionsAsked,
    RecordTime,
    TopicPositions,
)
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import HEADER_BYTES, read_header
from chiplog_wire.records.reader import Record, read_records

LOOKUPS_LIMIT_S: Final = 2.0
"""For all of one request. The operator asks again, and then other partitions may come first."""

MAX_BATCHES: Final = 16
"""Looked into for one offset: markers and what compaction emptied have no record."""

_LAST_BYTES: Final = 1
"""With `min_one` it is the whole batch all the same."""


class LogPositions:
    """Answers from the partitions that this broker leads."""

    def __init__(self, leaders: Leaders, clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock

    async def answer(self, request: PositionsAsked) -> Positions:
        """Each partition that was asked about, in its order."""
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
        self, topic: str, wanted: PartitionWanted, since_ms: int | None, lookups: "_Lookups"
    ) -> PartitionPosition:
        await lookups.slices.pause()
        index = wanted.partition
        try:
            partition = self._leaders.settled(topic, index)
        except PartitionError as refused:
            return PartitionPosition(partition=index, refusal=refusal_of(refused.code))
        end_offset, log_start_offset = partition.high_watermark, partition.log.log_start_offset
        return PartitionPosition(
            partition=PartitionIndex(index),
            end_offset=Offset(end_offset),
            log_start_offset=Offset(log_start_offset),
            last_timestamp_ms=lookups.last_timestamp_ms(partition, end_offset),
            since_offset=await lookups.since(partition, since_ms, end_offset),
            times=tuple(
                [one async for one in lookups.times(partition, wanted.offsets, end_offset)]
            ),
        )


def refusal_of(code: ErrorCode) -> LogRefusal:
    """What the operator is told in the place of Kafka's code."""
    if code is ErrorCode.offset_not_available:
        return LogRefusal.UNSETTLED
    if code is ErrorCode.kafka_storage_error:
        return LogRefusal.FAILED
    return LogRefusal.NOT_LEADER


class _Lookups:
    """Reads in logs until the time for it is over. What is not found, or not readable, is None:
    whoever reads the log for its own sake finds out what is wrong with it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = clock.monotonic_s() + LOOKUPS_LIMIT_S
        self._long_work = LongWork(clock)
        self.slices = self._long_work.slices()

    @property
    def _is_over(self) -> bool:
        return self._clock.monotonic_s() >= self._until_s

    def last_timestamp_ms(self, partition: Partition, end_offset: int) -> int | None:
        """By the header of the last batch."""
        log = partition.log
        if self._is_over or end_offset <= log.log_start_offset:
            return None
        try:
            found = log.read(end_offset - 1, _LAST_BYTES, end_offset)
            if not found.size_bytes:
                return None
            return read_header(found.file.read(found.position, HEADER_BYTES)).newest_record_ms
        except REFUSALS:
            return None

    async def since(
        self, partition: Partition, since_ms: int | None, end_offset: int
    ) -> Offset | None:
        """The offset of the first record of a time or later; the end where there is none."""
        if since_ms is None or self._is_over:
            return None
        try:
            steps = partition.log.find_timestamp(since_ms, end_offset)
            found = await self._long_work.run(steps, self.slices)
        except REFUSALS:
            return None
        return Offset(end_offset if found is None else found.offset)

    async def times(
        self, partition: Partition, offsets: tuple[Offset, ...], end_offset: int
    ) -> AsyncIterator[RecordTime]:
        """Of those below the end that were found."""
        for offset in offsets:
            if offset < end_offset and not self._is_over:
                found = await self._timestamp_ms(partition, offset, end_offset)
                if found is not None:
                    yield RecordTime(offset=offset, timestamp_ms=found)

    async def _timestamp_ms(self, partition: Partition, offset: int, end_offset: int) -> int | None:
        """Of the first record at or after an offset. Records before the log's start are gone."""
        log = partition.log
        try:
            at = offset = max(offset, log.log_start_offset)
            for _ in range(MAX_BATCHES):
                if at >= end_offset or self._is_over:
                    return None
                found = log.read(at, _LAST_BYTES, end_offset)
                if not found.size_bytes:
                    return None
                for record in records_of(found.read()):
                    if record.offset >= offset:
                        return record.timestamp_ms
                    await self.slices.pause()
                at = found.next_offset
        except REFUSALS:
            pass
        return None


def records_of(batch: bytes) -> Iterator[Record]:
    """Those that consumers see. Raises `RecordsError`."""
    header = read_header(batch)
    if not header.is_control:
        yield from read_records(batch, header)
