"""Restores producer states at an offset: from the newest snapshot and the batches after it."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file
from chiplog_broker.storage.batch_walk import walk_batches
from chiplog_broker.storage.names import SNAPSHOT_SUFFIX, offset_in_name, segment_file
from chiplog_broker.storage.producer_snapshot import SnapshotError, decode_snapshot
from chiplog_broker.storage.producers import ProducerStates
from chiplog_broker.storage.segment import Segment
from chiplog_wire.records.batch import CONTROL_MASK
from chiplog_wire.records.control import read_marker

_BATCHES_A_SLICE = 2_000


def snapshot_offsets(disk: Disk, directory: str) -> list[int]:
    """The offsets of all snapshot files, ascending."""
    offsets = (offset_in_name(name, SNAPSHOT_SUFFIX) for name in disk.names(directory))
    return [offset for offset in offsets if offset is not None]


def load_snapshot(
    disk: Disk, directory: str, first_offset: int, up_to_offset: int
) -> ProducerStates:
    """The producer states of the newest valid snapshot at or below `up_to_offset`.

    Without one, empty states at `first_offset`, which is the base offset of the oldest segment, not
    the log start offset: records below that still count for their producers.
    """
    for offset in reversed(snapshot_offsets(disk, directory)):
        if not first_offset <= offset <= up_to_offset:
            continue
        path = f"{directory}/{segment_file(offset, SNAPSHOT_SUFFIX)}"
        with suppress(SnapshotError):
            return ProducerStates(offset, *decode_snapshot(read_file(disk, path)))
    return ProducerStates(first_offset)


def replay(states: ProducerStates, segments: Sequence[Segment], up_to_offset: int) -> Iterator[int]:
    """Apply the batches between `states.end_offset` and `up_to_offset` to the producer states.

    Yields the bytes read after each slice, so that the caller can let other tasks run.
    """
    batches = walked_bytes = 0
    for segment in segments:
        if segment.end_offset <= states.end_offset or segment.base_offset >= up_to_offset:
            continue
        start = segment.position_of(states.end_offset)
        for position, header in walk_batches(segment.log, start, segment.size_bytes):
            if header.last_offset >= up_to_offset:
                break
            if header.last_offset >= states.end_offset:
                marker = None
                if header.attributes & CONTROL_MASK:
                    marker = read_marker(segment.log.read(position, header.size_bytes), header)
                states.record(header, header.base_offset, marker)
            batches += 1
            walked_bytes += header.size_bytes
            if batches % _BATCHES_A_SLICE == 0:
                yield walked_bytes
                walked_bytes = 0
    states.end_offset = max(states.end_offset, up_to_offset)
