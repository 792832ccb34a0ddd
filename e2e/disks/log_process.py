"""A process with one partition log, for tests to kill: `python -m e2e.disks.log_process DIRECTORY`.

It first prints what the log contains. Then it appends what each line of its input asks for
(`Asked`), and answers with a line (`Said`). All lines are JSON.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, StoragePorts
from chiplog_broker.storage.directory_report import Progress
from chiplog_broker.storage.errors import DamagedLogError, StorageError
from chiplog_broker.storage.log import PartitionLog
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.records.batch import HEADER_BYTES, read_header
from chiplog_wire.records.reader import read_records
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")
# Only a few batches fit into a segment, so that dropped writes affect several segments.
CONFIG = LogConfig(segment_bytes=64 * 1024)
FETCH_BYTES = 2**20

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Said:
    """One printed line of the process: its first, or an answer."""

    error: str = ""
    """Why the data directory could not be opened, or an append failed; "" for no error."""
    quarantined: str = ""
    """Why the log was quarantined (set aside as damaged) when the directory was opened."""
    durable_end: int = 0
    """The durable end offset: all records below it are synced."""
    values: dict[int, str] = field(default_factory=dict)
    """Offset -> value: first of all records below the durable end, then of those just appended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One line of input: records to append, each in its own batch, which is made durable at once.

    `value_bytes` pads each value to this length. `checkpoint` asks for a checkpoint afterwards.
    """

    values: list[str]
    value_bytes: int = 0
    checkpoint: bool = False


class _Logged:
    """The listener of the data directory: writes its notifications to stderr."""

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        logger.error("%s is damaged: %s", partition, found)

    def log_compacts(self) -> None:
        """Nothing is compacted here, so there is nothing to do."""

    def logs_opened(self, progress: Progress) -> None:
        logger.debug("opened so far: %s", progress)

    def disk_failed(self, failure: OSError) -> None:
        logger.error("the disk failed: %s", failure)


async def opened(root: Path) -> LogDirectory:
    ports = StoragePorts(SystemDisk(root), SystemClock(), SystemRng())
    options = OpenOptions(node_id=1, cluster_id="cluster", config_of=lambda _: CONFIG)
    return await LogDirectory.open(ports, options, _Logged())


async def serve(root: Path) -> None:
    """Open or create the log, print its content, then answer each line of the input."""
    try:
        directory = await opened(root)
        if not directory.quarantined:
            await directory.create(ORDERS, TOPIC_ID, CONFIG)
    except (StorageError, OSError) as error:
        say(Said(error=str(error)))
        return
    if directory.quarantined:
        say(Said(quarantined=directory.quarantined[ORDERS]))
        return
    log = directory.logs[ORDERS]
    durable_end = log.durable_end_offset
    say(Said(durable_end=durable_end, values=dict(values_in(log, durable_end))))
    for line in sys.stdin:
        say(await done(directory, log, Asked(**json.loads(line))))


async def done(directory: LogDirectory, log: PartitionLog, asked: Asked) -> Said:
    """Append and checkpoint as asked; the answer has the records that were made durable."""
    said = Said()
    try:
        for value in asked.values:
            appended = log.append_as_leader(batch(value, asked.value_bytes), 0, now_ms=0)
            await log.make_durable(log.end_offset)
            said.values[appended.base_offset] = value
        if asked.checkpoint:
            await directory.checkpoint({ORDERS: log.durable_end_offset})
    except (StorageError, OSError) as error:
        said.error = str(error)
    said.durable_end = log.durable_end_offset
    return said


def batch(value: str, value_bytes: int) -> memoryview:
    """A batch of one record, its value padded with blanks to `value_bytes`."""
    padded = value.encode().ljust(value_bytes)
    return memoryview(build_batch([NewRecord(padded, timestamp_ms=0)], BatchOptions()))


def values_in(log: PartitionLog, up_to_offset: int) -> Iterator[tuple[int, str]]:
    """(offset, value) of all records of the log below an offset, without padding."""
    offset = log.log_start_offset
    while offset < up_to_offset:
        piece = log.read(offset, FETCH_BYTES, up_to_offset)
        data, position = memoryview(piece.read()), 0
        while position + HEADER_BYTES <= len(data):
            header = read_header(data[position:])
            for record in read_records(data[position:], header):
                assert record.value is not None
                yield record.offset, record.value.decode().rstrip()
            position += header.size_bytes
        offset = piece.next_offset


def say(said: Said) -> None:
    print(json.dumps(asdict(said)), flush=True)


def parsed(line: str) -> Said:
    """A printed line of the process as an object."""
    found: dict[str, Any] = json.loads(line)
    values = {int(offset): value for offset, value in found.pop("values").items()}
    return Said(**found, values=values)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
