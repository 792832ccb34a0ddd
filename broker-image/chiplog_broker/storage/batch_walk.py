"""Walking over the batches of a segment file, header by header.

The file is read in chunks; a batch larger than the rest of a chunk is stepped over, so its
records are not read at all.
"""

from collections.abc import Iterator

from chiplog_broker.ports.disk import File
from chiplog_broker.records.batch import HEADER_BYTES, BatchHeader, read_header
from chiplog_broker.records.errors import CorruptBatchError, DamagedBatchError

CHUNK_BYTES = 8192


def walk_batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch from `start`, which must be a boundary, to `end`.

    Raises `DamagedBatchError`.
    """
    position = start
    chunk, chunk_start = b"", start
    while position < end:
        if position - chunk_start + HEADER_BYTES > len(chunk):
            chunk, chunk_start = file.read(position, min(CHUNK_BYTES, end - position)), position
        try:
            header = read_header(chunk, position - chunk_start)
        except CorruptBatchError as error:
            raise DamagedBatchError(str(error), position) from error
        if position + header.size_bytes > end:
            raise DamagedBatchError(f"the batch at {position} ends past {end}", position)
        yield position, header
        position += header.size_bytes
