"""Damage on a broker's disk: bytes that are wrong, but in good order, and files that lack some.

Bytes are changed where they are, in files of the same size: a broker that runs has them open.
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
    """The newest is the last one."""
    return sorted(directory.glob(f"*{LOG_SUFFIX}"))


def records_in(path: Path) -> Iterator[Record]:
    """The records of a segment."""
    content = path.read_bytes()
    for position, header in iter_batches(content):
        yield from read_records(content[position : position + header.size_bytes], header)


def overwrite(path: Path, offset: int, old: bytes, new: bytes) -> int:
    """Other bytes in one record that is not compressed, under a right checksum.

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
    """The first batch says that its newest record is a millisecond newer, with a right checksum."""
    content = path.read_bytes()
    _, header = next(iter_batches(content))
    batch = bytearray(content[: header.size_bytes])
    HEADER.pack_into(batch, 0, *header._replace(max_timestamp_ms=header.max_timestamp_ms + 1))
    _put(path, 0, batch)


def outdated(directory: Path, clean_offset: int) -> int:
    """In a compacted replica, give an older record the key of the last compacted one.

    Returns the offset of the older one.
    """
    clean = [
        (path, record)
        for path in segments(directory)
        for record in records_in(path)
        if record.offset < clean_offset
    ]
    _, last = clean[-1]
    path, older = next(
        (path, one) for path, one in clean if len(one.key or b"") == len(last.key or b"")
    )
    assert older.offset < last.offset
    overwrite(path, older.offset, older.key or b"", last.key or b"")
    return older.offset


def flip(path: Path, chance: random.Random) -> int:
    """Flip a bit of any batch but the first; returns the base offset of its batch."""
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
    """Take away a replica's first segment, and let the broker's own notes say that it is so.

    Only of a broker that does not run. Returns where the log begins now.
    """
    (first, second), *_ = pairwise(segments(data / f"{topic}-{partition}"))
    remove(first)
    begins, notes = int(second.stem), data / LOG_START_OFFSETS
    rows = parse_offsets(notes.read_bytes()) if notes.exists() else []
    kept = [" ".join(row) for row in rows if row[:2] != [topic, str(partition)]]
    notes.write_bytes(format_offsets([*kept, f"{topic} {partition} {begins}"]))
    # Where there were none they are the broker's now, not the current user's.
    owner = data.stat()
    os.chown(notes, owner.st_uid, owner.st_gid)
    return begins


def remove(segment: Path) -> None:
    """A segment, with what is derived from it."""
    for suffix in SEGMENT_SUFFIXES:
        segment.with_suffix(suffix).unlink(missing_ok=True)


def _put(path: Path, position: int, batch: bytearray) -> None:
    with memoryview(batch) as whole:
        seal(whole)
    with path.open("r+b") as file:
        file.seek(position)
        file.write(batch)
