"""Finds the exact position of damage in a segment, and whether the segment is changed or too short.

A read that found damage does not know enough: it may have begun in the middle of a batch, or at a
wrong position of a damaged index. So the batches from the previous index entry on are checked. They
show which offset should be at the damaged position, and whether an earlier batch is damaged.
"""

from typing import NamedTuple

from chiplog_broker.ports.disk import File
from chiplog_broker.storage.checking import History, batch_end, check_batches
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import HEADER, HEADER_BYTES, MAGIC
from chiplog_wire.records.errors import CorruptBatchError, DamagedBatchError


class DamageLocation(NamedTuple):
    """The first damaged batch, as far as it can be determined."""

    why: str
    position: int | None = None
    """Its byte position in the file."""
    offset: int | None = None
    """The offset that it should begin with."""
    is_cut: bool = False
    """Whether the damage is that the file is too short."""


def locate_damage(segment: Segment, error: CorruptBatchError, history: History) -> DamageLocation:
    """The exact damage, after a read or a check failed with this error.

    Reads at most the bytes between two index entries. Raises `OSError`.
    """
    if not isinstance(error, DamagedBatchError):
        return DamageLocation(str(error))
    try:
        first = _first_damaged(segment, error, history)
    except CorruptBatchError:
        first = error  # the batch at the index entry cannot be parsed either
    is_short = not segment.log.read(segment.size_bytes - 1, 1)  # its last byte is missing
    is_cut = is_short and is_cut_short(segment.log, first.position)
    return DamageLocation(str(first), first.position, first.offset, is_cut)


def is_cut_short(file: File, position: int) -> bool:
    """Whether the file ends before the batch at this position, or within it."""
    head = file.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return True
    end = position + batch_end(memoryview(head))
    is_batch = HEADER.unpack(head)[3] == MAGIC and end >= position + HEADER_BYTES
    return is_batch and not file.read(end - 1, 1)


def _first_damaged(
    segment: Segment, error: DamagedBatchError, history: History
) -> DamagedBatchError:
    """The first damaged batch after the last index entry before the position of `error`.

    A read may notice damage only some batches later, so those before `error` are checked. If they
    are intact, the result is `error` with the offset that its batch should begin with. Raises
    `CorruptBatchError`.
    """
    indexed = segment.offset_index.batch_at_or_before(error.position - 1)
    start = indexed.position if indexed else 0
    offset = segment.header_at(start).base_offset if start else segment.base_offset
    data = memoryview(segment.log.read(start, error.position - start))
    try:
        following = check_batches(data, offset, history).next_offset
    except DamagedBatchError as earlier:
        return DamagedBatchError(str(earlier), start + earlier.position, earlier.offset)
    return DamagedBatchError(str(error), error.position, following)
