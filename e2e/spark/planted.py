"""Plants damage in a broker's files: wrong bytes, some with correct checksums, and missing bytes.

Bytes are changed in place, because a running broker has the files open.
"""

import os
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from chiplog_broker.storage.checkpoint_text import format_offsets, parse_offsets
from chiplog_broker.storage.names import LOG_START_OFFSETS, LOG_SUFFIX, SEGMENT_SUFFIXES
from chiplog_wire.records.batch import HEADER, HEADER_BYTES, iter_batches, seal
from chiplog_wire.records.reader import Record, read_records
from chiplog_wire.records.scan import scan_payload
from e2e.loopback.damage import flip_a_bit


def segments(directory: Path) -> list[Path]:
    """The segments of a partition's directory, oldest first."""
    return sorted(directory.glob(f"*{LOG_SUFFIX}"))


def records_in(path: Path) -> Iterator[Record]:
    """The records of a segment."""
    content = path.read_bytes()
    for position, header in iter_batches(content):
        yield from read_records(content[position : position + header.size_bytes], header)


def overwrite(path: Path, offset: int, old: bytes, new: bytes) -> int:
    """Replace `old` by `new` in the uncompressed record at `offset`, and correct the checksum.

    Returns the base offset of its batch.
    """
    assert len(old) == len(new), "another size would move what follows"
    content = path.read_bytes()
    for position, header in iter_batches(content):
        if not header.base_offset <= offset <= header.last_offset:
            continue
        batch = bytearray(content[position : position + header.size_bytes])
        payload = bytes(batch[HEADER_BYTES:])
        for records in scan_payload(payload, header.record_count):
            for delta, start, end, *_ in records:
                if header.base_offset + delta == offset:
                    at = HEADER_BYTES + payload.index(old, start, end)
                    batch[at : at + len(old)] = new
                    _put(path, position, batch)
                    return header.base_offset
    raise LookupError(f"{path} has no record at offset {offset}")


def restamp(path: Path) -> None:
    """Raise the header's newest timestamp of the segment's first batch by one millisecond.

    The checksum is corrected, so that only the header and the records disagree.
    """
    content = path.read_bytes()
    _, header = next(iter_batches(content))
    batch = bytearray(content[: header.size_bytes])
    HEADER.pack_into(batch, 0, *header._replace(max_timestamp_ms=header.max_timestamp_ms + 1))
    _put(path, 0, batch)


def give_to(path: Path, offset: int, producer_id: int) -> None:
    """Make another producer that of the batch at `offset`, and correct the checksum."""
    content = path.read_bytes()
    for position, header in iter_batches(content):
        if header.base_offset <= offset <= header.last_offset:
            batch = bytearray(content[position : position + header.size_bytes])
            HEADER.pack_into(batch, 0, *header._replace(producer_id=producer_id))
            _put(path, position, batch)
            return
    raise LookupError(f"{path} has no batch at offset {offset}")


def outdated(directory: Path, clean_offset: int) -> int:
    """Give an older record of a compacted replica the key of the last compacted record.

    Compaction should then have removed the older record. `clean_offset` is the first offset that is
    not compacted yet. Returns the offset of the older record.
    """
    compacted = [
        (path, record)
        for path in segments(directory)
        for record in records_in(path)
        if record.offset < clean_offset
    ]
    _, last = compacted[-1]
    # The first record with a key of the same length: in place, a key cannot change its size.
    path, older = next(
        (path, one) for path, one in compacted if len(one.key or b"") == len(last.key or b"")
    )
    assert older.offset < last.offset
    overwrite(path, older.offset, older.key or b"", last.key or b"")
    return older.offset


def flip(path: Path, chance: random.Random) -> int:
    """Flip a random bit behind the first batch; returns the base offset of the damaged batch."""
    batches = list(iter_batches(path.read_bytes()))
    assert len(batches) > 1, f"{path} has one batch only"
    second, _ = batches[1]
    byte = flip_a_bit(path, chance, range(second, path.stat().st_size))
    return max(header.base_offset for position, header in batches if position <= byte)


def cut(path: Path) -> int:
    """End a segment in its middle, between two batches; returns the first offset that is gone."""
    batches = list(iter_batches(path.read_bytes()))
    assert len(batches) > 1, f"{path} has one batch only"
    position, header = batches[len(batches) // 2]
    os.truncate(path, position)
    return header.base_offset


def lose_front(data: Path, topic: str, partition: int) -> int:
    """Remove a replica's first segment and raise its log start offset in the broker's checkpoint.

    The broker must be stopped. Returns the new log start offset.
    """
    (first, second), *_ = pairwise(segments(data / f"{topic}-{partition}"))
    remove(first)
    begins, notes = int(second.stem), data / LOG_START_OFFSETS
    rows = parse_offsets(notes.read_bytes()) if notes.exists() else []
    kept = [" ".join(row) for row in rows if row[:2] != [topic, str(partition)]]
    notes.write_bytes(format_offsets([*kept, f"{topic} {partition} {begins}"]))
    # A file that was created here would otherwise belong to the current user, not the broker's.
    owner = data.stat()
    os.chown(notes, owner.st_uid, owner.st_gid)
    return begins


def remove(segment: Path) -> None:
    """Remove a segment's log file and its indexes."""
    for suffix in SEGMENT_SUFFIXES:
        segment.with_suffix(suffix).unlink(missing_ok=True)


def _put(path: Path, position: int, batch: bytearray) -> None:
    """Correct the batch's checksum and write the batch at this position of the segment."""
    with memoryview(batch) as whole:
        seal(whole)
    with path.open("r+b") as file:
        file.seek(position)
        file.write(batch)
