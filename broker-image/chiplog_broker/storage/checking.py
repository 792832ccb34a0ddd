"""Verifies stored batches before they are used.

A batch contains its magic, length and checksum. Base offset and leader epoch are not covered by the
checksum, so they are compared with the neighbouring batches and with the epoch history. One call
checks all batches that lie side by side: the loop over them is most of the cost of a check.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from chiplog_wire.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    MAX_OFFSET,
)
from chiplog_wire.records.errors import DamagedBatchError

EpochSpan: TypeAlias = Callable[[int], tuple[int, int]]
"""A function that returns the leader epoch of an offset, and the offset where the next epoch
begins."""


@dataclass(frozen=True, slots=True)
class History:
    """The facts about a log that its batches are compared with."""

    epoch_span: EpochSpan
    log_start_offset: int
    """The leader epochs of records below it are not known."""
    gap_end_offset: int = 0
    """Up to this offset, records may be missing between two batches, as after compaction."""
    end_offset: int = MAX_OFFSET
    """The end offset of the segment: no batch reaches beyond it."""


class Checked(NamedTuple):
    """The batches that were checked."""

    size_bytes: int
    """The size of all complete batches together."""
    next_offset: int
    """The offset after the last of them."""


def check_batches(
    data: memoryview, first_offset: int, history: History, *, more_follows: bool = False
) -> Checked:
    """Check that `data` consists of complete, consecutive batches.

    The first one contains `first_offset`. With `more_follows` the last one may be incomplete; it is
    left out. Raises `DamagedBatchError`.
    """
    unpack, end, start = HEADER.unpack_from, len(data), history.log_start_offset
    # `expected`: the offset at which the next batch should begin. `epoch`: the leader epoch that
    # batches below the offset `epoch_end` should have.
    position, expected, epoch, epoch_end = 0, first_offset, -1, -1
    while position + HEADER_BYTES <= end:
        base_offset, length_bytes, leader_epoch, magic, crc, _, delta, *_ = unpack(data, position)
        following = position + length_bytes + LENGTH_OVERHEAD_BYTES
        if magic != MAGIC or following < position + HEADER_BYTES:
            what = f"no batch: magic {magic}, length {length_bytes}"
            raise DamagedBatchError(what, position, expected)
        if following > end:
            break
        if crc32c(data[position + CRC_START : following]) != crc:
            raise DamagedBatchError(f"the CRC is not {crc:#010x}", position, expected)
        last_offset = base_offset + delta
        if base_offset != expected or delta < 0:
            _check_place(base_offset, last_offset, expected, position, history)
        if base_offset >= epoch_end and last_offset >= start:
            epoch, epoch_end = history.epoch_span(max(base_offset, start))
        if leader_epoch != epoch and last_offset >= start:
            what = f"leader epoch {leader_epoch}, but the epoch history has {epoch}"
            raise DamagedBatchError(what, position, base_offset)
        expected, position = last_offset + 1, following
    if position < end and not more_follows:
        what = f"the last {end - position} bytes are not a complete batch"
        raise DamagedBatchError(what, position, expected)
    return Checked(position, expected)


def batch_end(data: memoryview) -> int:
    """The size of the batch at the beginning of `data`, according to its header.

    If the header is incomplete, the size of a header, which is larger than `data`.
    """
    if len(data) < HEADER_BYTES:
        return HEADER_BYTES
    return int(HEADER.unpack_from(data)[1]) + LENGTH_OVERHEAD_BYTES


def _check_place(
    base_offset: int, last_offset: int, expected: int, position: int, history: History
) -> None:
    """Raise `DamagedBatchError` unless the batch may begin at another offset than `expected`."""
    if 0 <= base_offset <= last_offset:
        # The first batch of a read may begin before the offset that is read.
        if position == 0 and last_offset >= expected and base_offset < expected:
            return
        is_gap = expected < base_offset <= history.gap_end_offset
        if is_gap and last_offset < history.end_offset:
            return
    what = f"the batch has offsets {base_offset} to {last_offset}, but {expected} was expected"
    raise DamagedBatchError(what, position, expected)
