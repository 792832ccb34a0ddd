"""Where a segment is not what was written, and whether it is changed or ends too early.

Whoever stumbles over damage may have begun within a batch, or come by an index. The batches
from the index entry before it on say which offset belongs there, and whether one of them is the
first that is wrong.
"""

from typing import NamedTuple

from chiplog_broker.ports.disk import File
from chiplog_broker.storage.checking import History, batch_end, check_batches
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import HEADER, HEADER_BYTES, MAGIC
from chiplog_wire.records.errors import CorruptBatchError, DamagedBatchError


class DamageLocation(NamedTuple):
    """The first batch that is not what was written, as far as it can be told."""

    why: str
    position: int | None = None
    offset: int | None = None
    is_cut: bool = False
    """The file ends too early."""


def locate_damage(segment: Segment, error: CorruptBatchError, history: History) -> DamageLocation:
    """What is wrong exactly, after a read or a look that failed with this.

    Reads what lies between two index entries at most. Raises `OSError`.
    """
    if not isinstance(error, DamagedBatchError):
        return DamageLocation(str(error))
    try:
        first = _first_wrong(segment, error, history)
    except CorruptBatchError:
        first = error  # the batch at the index entry is no batch either
    is_short = not segment.log.read(segment.size_bytes - 1, 1)
    is_cut = is_short and is_cut_short(segment.log, first.position)
    return DamageLocation(str(first), first.position, first.offset, is_cut)


def is_cut_short(file: File, position: int) -> bool:
    """Whether the batch that belongs here is not there, or not to the end that it names."""
    head = file.read(position, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return True
    end = position + batch_end(memoryview(head))
    is_batch = HEADER.unpack(head)[3] == MAGIC and end >= position + HEADER_BYTES
    return is_batch and not file.read(end - 1, 1)


def _first_wrong(segment: Segment, error: DamagedBatchError, history: History) -> DamagedBatchError:
    """The first wrong batch since the index entry before. Raises `CorruptBatchError`."""
    indexed = segment.offset_index.batch_at_or_before(error.position - 1)
    start = indexed.position if indexed else 0
    offset = segment.header_at(start).base_offset if start else segment.base_offset
    data = memoryview(segment.log.read(start, error.position - start))
    try:
        following = check_batches(data, offset, history).next_offset
    except DamagedBatchError as earlier:
        return DamagedBatchError(str(earlier), start + earlier.position, earlier.offset)
    return DamagedBatchError(str(error), error.position, following)
