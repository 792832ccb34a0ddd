"""Damage on the disk of a broker that does not run: bytes that are wrong, but in good order."""

from collections.abc import Iterator
from pathlib import Path

from chiplog_broker.records.batch import HEADER, HEADER_BYTES, iter_batches, seal
from chiplog_broker.records.reader import Record, read_records
from chiplog_broker.records.scan import scan_payload


def segments(folder: Path) -> list[Path]:
    """The newest is the last one."""
    return sorted(folder.glob("*.log"))


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
    content = bytearray(path.read_bytes())
    for position, header in list(iter_batches(bytes(content))):
        if not header.base_offset <= offset <= header.last_offset:
            continue
        whole = memoryview(content)[position : position + header.size_bytes]
        payload = bytes(whole[HEADER_BYTES:])
        for records in scan_payload(payload, header.record_count):
            for delta, start, end, *_ in records:
                if header.base_offset + delta == offset:
                    at = HEADER_BYTES + payload.index(old, start, end)
                    whole[at : at + len(old)] = new
                    seal(whole)
                    whole.release()
                    path.write_bytes(content)
                    return header.base_offset
    raise LookupError(f"{path} has no record at offset {offset}")


def restamp(path: Path) -> None:
    """The first batch says that its newest record is a millisecond newer, with a right checksum."""
    content = bytearray(path.read_bytes())
    _, header = next(iter_batches(bytes(content)))
    whole = memoryview(content)[: header.size_bytes]
    HEADER.pack_into(whole, 0, *header._replace(max_timestamp_ms=header.max_timestamp_ms + 1))
    seal(whole)
    whole.release()
    path.write_bytes(content)
