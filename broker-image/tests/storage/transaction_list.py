"""A log with transactions as a plain list, and what its readers get."""

from collections.abc import Iterator
from dataclasses import dataclass

from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.transactions import NO_UNSTABLE_OFFSET
from chiplog_wire.records.batch import iter_batches
from chiplog_wire.records.control import EndMarker, read_marker
from chiplog_wire.records.reader import read_records


@dataclass(frozen=True)
class Written:
    """What the list knows of one offset: a record with key and value, or a marker."""

    producer_id: int
    epoch: int
    batch_start: int
    key: bytes = b""
    value: bytes = b""
    is_transactional: bool = False
    marker: EndMarker | None = None


@dataclass(frozen=True)
class Transaction:
    """A transaction by the list: `last` is the offset of its marker, None while it is open."""

    producer_id: int
    first: int
    last: int | None = None
    is_commit: bool = False


def transactions_of(written: list[Written], start: int = 0) -> Iterator[Transaction]:
    """The transactions of the list from an offset on, those that are open at its end last."""
    begun: dict[int, int] = {}
    for offset, one in enumerate(written[start:], start):
        if one.marker is None:
            if one.is_transactional:
                begun.setdefault(one.producer_id, offset)
        elif one.producer_id in begun:
            first = begun.pop(one.producer_id)
            yield Transaction(one.producer_id, first, offset, one.marker.is_commit)
    for producer_id, first in begun.items():
        yield Transaction(producer_id, first)


def read_committed(
    log: PartitionLog, stable_offset: int, max_bytes: int, start: int | None = None
) -> dict[int, bytes]:
    """The values that a consumer with `read_committed` delivers, by offset, from answers of this
    size: as Kafka's clients do, it skips a producer's batches from the first offset in the list of
    aborted transactions to the abort marker. It begins at `start`, by default at the log's start.
    """
    found: dict[int, bytes] = {}
    offset = log.log_start_offset if start is None else start
    while offset < stable_offset:
        piece = log.read(offset, max_bytes, stable_offset)
        aborted = log.aborted_transactions(offset, piece.next_offset)
        waiting = sorted((one.first_offset, one.producer_id) for one in aborted)
        skipped: set[int] = set()
        batches = memoryview(piece.read())
        for position, header in iter_batches(batches):
            batch = batches[position : position + header.size_bytes]
            while waiting and waiting[0][0] <= header.last_offset:
                skipped.add(waiting.pop(0)[1])
            if header.is_control:
                marker = read_marker(batch, header)
                if marker is not None and not marker.is_commit:
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                for record in read_records(batch, header):
                    if record.offset >= offset:
                        found[record.offset] = record.value or b""
        assert piece.next_offset > offset
        offset = piece.next_offset
    return found


def first_unstable_offset(written: list[Written], high_watermark: int, start: int = 0) -> int:
    """That of a log which has the list from an offset on."""
    return min(
        (
            one.first
            for one in transactions_of(written, start)
            if one.last is None or one.last >= high_watermark
        ),
        default=NO_UNSTABLE_OFFSET,
    )


def committed(written: list[Written], start: int, stable_offset: int) -> dict[int, Written]:
    """The records of the list between two offsets, without those of aborted transactions."""
    hidden = {
        offset
        for one in transactions_of(written)
        if not one.is_commit
        for offset in range(one.first, one.last or len(written))
        if written[offset].is_transactional and written[offset].producer_id == one.producer_id
    }
    return {
        offset: one
        for offset, one in enumerate(written[:stable_offset])
        if one.marker is None and offset not in hidden and offset >= start
    }
