"""For the checkers: the batches that brokers append, and the replicas on their disks.

The file `partition.metadata` in a replica's directory holds the topic id.
"""

import asyncio
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from chiplog_broker.storage.names import (
    LOG_SUFFIX,
    PARTITION_METADATA,
    offset_in_name,
    partition_in_name,
)
from chiplog_broker.storage.partition_metadata import decode_partition_metadata
from chiplog_wire.records.batch import check_crc, iter_batches, read_header
from chiplog_wire.records.errors import CorruptBatchError
from chiplog_wire.records.reader import read_records
from e2e.sim.disk import Disks
from e2e.sim.history import Append, Batch, Replica
from e2e.sim.loop import PROCESS
from e2e.sim.wire import TopicPartition, named

if TYPE_CHECKING:
    from tests.storage.memory_disk import MemoryDisk


class AppendTrace:
    """Notes every batch that any broker appends."""

    def __init__(self) -> None:
        self.appends: list[Append] = []
        self._placed: dict[tuple[str, int], tuple[int, str]] = {}
        """(partition, offset) -> (leader epoch, value) of the record written there last."""
        self._log_ends: dict[tuple[str, str], tuple[int, int]] = {}
        """(process, segment's path) -> the size in bytes after its last append, and the log end
        offset then."""
        self.keeps_places = False
        """Whether the offsets of records are noted, too, and which were skipped. It costs time."""

    def wrote(self, disks: Disks, path: str, data: bytes) -> None:
        """Note the batches in `data`, which a broker appends to the file at `path`.

        `Disks.on_append` calls it; other files than segments are ignored.
        """
        process = PROCESS.get()
        directory, _, name = path.partition("/")
        if process is None or not name.endswith(LOG_SUFFIX):
            return
        # The broker read partition.metadata before the simulator damaged it: use that content.
        label = label_of(disks.data, directory, disks.before_damage)
        now_s = asyncio.get_running_loop().time()
        log_end = self._log_end_before(process.name, disks, path, data) if self.keeps_places else -1
        skipped: frozenset[int] = frozenset()
        for position, header in iter_batches(data):
            if self.keeps_places:
                values = _values(data[position : position + header.size_bytes])
                self._place(label, header.leader_epoch, values)
                skipped = frozenset(range(log_end, header.last_offset + 1))
                skipped -= {offset for offset, _ in values}
                log_end = header.last_offset + 1
            digest = hash((header.crc, header.producer_id, header.base_sequence))
            place = header.leader_epoch, header.base_offset, digest
            of_batch = header.last_offset, header.size_bytes, header.max_timestamp_ms
            self.appends.append(Append(now_s, process.name, label, *place, *of_batch, skipped))
        if self.keeps_places:
            size_bytes = len(disks.data.content(path))
            self._log_ends[process.name, path] = size_bytes, log_end

    def _log_end_before(self, process: str, disks: Disks, path: str, data: bytes) -> int:
        """The log end offset of the replica before `data` was appended to its segment at `path`.

        The segment is read unless it is as this process left it: it may have been truncated, or its
        volume replaced by a snapshot.
        """
        content = disks.data.content(path)
        size_bytes = len(content) - len(data)
        known_bytes, log_end = self._log_ends.get((process, path), (-1, -1))
        if size_bytes == known_bytes:
            return log_end
        log_end = offset_in_name(path.rpartition("/")[2], LOG_SUFFIX) or 0
        try:
            for _, header in iter_batches(bytes(content[:size_bytes])):
                log_end = header.last_offset + 1
        except CorruptBatchError:  # a header rotted: then nothing counts as skipped
            return read_header(data).base_offset
        return log_end

    def _place(self, label: str, epoch: int, values: tuple[tuple[int, str], ...]) -> None:
        """Note the offset of each value, unless a later leader epoch wrote at this offset.

        Records that only an earlier leader had are replaced by those of the next leader.
        """
        for offset, value in values:
            if epoch >= self._placed.get((label, offset), (-1, ""))[0]:
                self._placed[label, offset] = epoch, value

    def placed(self) -> dict[tuple[str, str], int]:
        """(partition, value) -> the offset of this record."""
        found = self._placed.items()
        return {(label, value): offset for (label, offset), (_, value) in found}


def label_of(
    disk: "MemoryDisk", directory: str, before_damage: Mapping[bytes, bytes] = MappingProxyType({})
) -> str:
    """Label of the partition whose replica is in a directory; empty if it is not known.

    `before_damage` maps damaged contents of small files to what was written to them.
    """
    try:
        metadata = bytes(disk.content(f"{directory}/{PARTITION_METADATA}"))
        return _label(directory, before_damage.get(metadata, metadata))
    except (KeyError, FileNotFoundError, NotADirectoryError, ValueError):
        return ""


@lru_cache(maxsize=256)
def _label(directory: str, metadata: bytes) -> str:
    """The label of a partition, from its directory's name and its partition.metadata."""
    name = partition_in_name(directory)
    if name is None:
        return ""
    return str(TopicPartition(name.topic, name.partition, decode_partition_metadata(metadata)))


def replicas_on(
    disks: Mapping[int, Disks],
    in_sync: Mapping[str, frozenset[int]],
    damaged: Mapping[str, frozenset[int]],
) -> Iterator[Replica]:
    """All replicas on the brokers' disks of the partitions in `in_sync`.

    `disks` is by broker id. `in_sync` and `damaged` map a partition's label to the brokers that
    are in its ISR, and to those that report their replica as damaged.
    """
    values: dict[bytes, tuple[tuple[int, str], ...]] = {}
    for broker_id, one in sorted(disks.items()):
        for directory in one.data.names(""):
            label = label_of(one.data, directory)
            if label in in_sync:
                batches = read_batches(one, directory, values)
                start = segment_starts(one.data, directory)
                yield Replica(
                    broker_id=broker_id,
                    partition=label,
                    is_in_sync=broker_id in in_sync[label],
                    is_damaged=broker_id in damaged.get(label, ()),
                    log_start_offset=start[0] if start else 0,
                    batches=tuple(batches),
                )


def segment_starts(disk: "MemoryDisk", directory: str) -> list[int]:
    """Base offsets of a replica's segments."""
    found = (offset_in_name(one, LOG_SUFFIX) for one in disk.names(directory))
    return sorted(one for one in found if one is not None)


def read_batches(
    disks: Disks, directory: str, values: dict[bytes, tuple[tuple[int, str], ...]]
) -> list[Batch]:
    """The batches in a replica's segments, up to the first bytes that are not a valid batch.

    `values` caches the records of each batch by its bytes, for replicas with equal batches.
    """
    found: list[Batch] = []
    for start in segment_starts(disks.data, directory):
        path = f"{directory}/{start:020d}{LOG_SUFFIX}"
        content = bytes(disks.data.content(path))
        position = 0
        try:
            while position < len(content):
                header = read_header(content, position)
                data = content[position : position + header.size_bytes]
                if data not in values:
                    values[data] = _values(data)
                place = header.base_offset, header.last_offset, header.leader_epoch
                found.append(Batch(*place, data, values[data]))
                position += header.size_bytes
        except CorruptBatchError:
            return found
    return found


def _values(data: bytes) -> tuple[tuple[int, str], ...]:
    """(offset, unique text) of all records of one batch."""
    view = memoryview(data)
    header = read_header(view)
    check_crc(view, header)
    records = read_records(view, header)
    return tuple((one.offset, named(one).decode(errors="replace")) for one in records)
