"""WriteTxnMarkers: the markers that end transactions, in the partitions that this broker leads.

Other brokers send them, as coordinators of transactions, and `kafka-transactions.sh`, to abort a
transaction that no coordinator knows.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.named import check_count
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.server.call import Call
from chiplog_broker.transaction_coordinator.marker_writing import MarkerWriter
from chiplog_core.groups.at import At
from chiplog_wire.protocol.answers import answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

TIMEOUT_S: Final = 5.0
"""How long the answer waits for the high watermarks. A partition that is slower gets an error; its
marker is in the log, and a second one changes nothing."""

MAX_NAMED: Final = 100_000
"""Partitions in one WriteTxnMarkers. Brokers send fewer; each takes some hundred bytes."""


class _Wanted(NamedTuple):
    """One marker to write, and the future of its code."""

    marker: Marker
    at: At
    code: asyncio.Future[ErrorCode]


class MarkerHandler:
    """Writes the markers of a request."""

    def __init__(self, leaders: Leaders, writer: MarkerWriter, long_work: LongWork) -> None:
        self._leaders = leaders
        self._writer = writer
        self._long_work = long_work

    async def write_txn_markers(self, call: Call[Any]) -> object:
        """Write all markers, then wait until they are below the high watermarks. Raises
        `ProtocolViolation` for more than `MAX_NAMED`."""
        check_markers(call.message)
        loop, slices = asyncio.get_running_loop(), self._long_work.slices()
        wanted: list[list[_Wanted]] = []
        for element in call.message.markers:
            marker = Marker(
                producer_id=element.producer_id,
                producer_epoch=element.producer_epoch,
                is_commit=element.transaction_result,
                coordinator_epoch=element.coordinator_epoch,
                transaction_version=element.transaction_version,
            )
            wanted.append([])
            for topic in element.topics:
                for index in topic.partition_indexes:
                    one = _Wanted(marker, At(topic.name, index), loop.create_future())
                    wanted[-1].append(one)
                    self._write(one)
                    await slices.pause()
        waited = [one.code for group in wanted for one in group if not one.code.done()]
        if waited:
            await asyncio.wait(waited, timeout=TIMEOUT_S)
        types = answers(ApiKey.WRITE_TXN_MARKERS)
        return types.WriteTxnMarkersResponse(
            markers=tuple(
                types.WritableTxnMarkerResult(
                    producer_id=element.producer_id, topics=topic_results(group)
                )
                for element, group in zip(call.message.markers, wanted, strict=True)
            )
        )

    def _write(self, wanted: _Wanted) -> None:
        """Write one marker, if its partition is led here."""
        try:
            # A partition that does not exist gets another error than one that is led elsewhere.
            self._leaders.get(*wanted.at)
        except PartitionError as refused:
            wanted.code.set_result(refused.code)
            return
        self._writer.write(wanted.at, wanted.marker, partial(_set_once, wanted.code))


def check_markers(message: Any) -> None:
    """Raises `ProtocolViolation` if a WriteTxnMarkers names more than `MAX_NAMED` producers, topics
    or partitions."""
    check_count("a WriteTxnMarkers", message.markers, "partition_indexes", MAX_NAMED)


def _set_once(future: asyncio.Future[ErrorCode], code: ErrorCode) -> None:
    """Set the result, unless the request was cancelled."""
    if not future.done():
        future.set_result(code)


def topic_results(group: Sequence[_Wanted]) -> tuple[object, ...]:
    """The codes of the partitions of one marker, by topic."""
    types = answers(ApiKey.WRITE_TXN_MARKERS)
    return tuple(
        types.WritableTxnMarkerTopicResult(
            name=topic,
            partitions=tuple(
                types.WritableTxnMarkerPartitionResult(
                    partition_index=one.at.partition,
                    error_code=one.code.result()
                    if one.code.done()
                    else ErrorCode.request_timed_out,
                )
                for one in partitions
            ),
        )
        for topic, partitions in groupby(group, lambda one: one.at.topic)
    )
