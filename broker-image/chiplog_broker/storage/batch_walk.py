"""Iterates over the batches of a segment file.

The file is read in chunks. A batch that is larger than the rest of a chunk is skipped without
reading its records.
"""

from collections.abc import Iterator

from chiplog_broker.ports.disk import File
from chiplog_wire.records.batch import HEADER_BYTES, BatchHeader, read_header
from chiplog_wire.records.errors import CorruptBatchError, DamagedBatchError

CHUNK_BYTES = 8192


def read_batches(
    file: File, start: int, end: int, chunk_bytes: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of each batch between the file positions `start` and `end`.

    `start` must be a batch boundary. The bytes are a view that is valid until the next step. Reads
    `chunk_bytes` at a time, or one batch if it is larger. Raises `CorruptBatchError`.
    """
    position = chunk_start = start
    chunk = memoryview(b"")
    while position < end:
        batch = chunk[position - chunk_start :]
        needed = read_header(batch).size_bytes if len(batch) >= HEADER_BYTES else HEADER_BYTES
        if position + needed > end:
            raise CorruptBatchError(f"the batch at {position} ends past {end}")
        if len(batch) < needed:
            size_bytes = min(max(needed, chunk_bytes), end - position)
            chunk, chunk_start = memoryview(file.read(position, size_bytes)), position
            if len(chunk) < needed:
                raise CorruptBatchError(f"the file ends within the batch at {position}")
            continue
        yield read_header(batch), batch[:needed]
        position += needed


def walk_batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch between the file positions `start` and `end`.

    `start` must be a batch boundary. Raises `DamagedBatchError`.
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
