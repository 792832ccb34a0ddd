"""Reads a topic's replicas from the segment files on the brokers' disks, at the end of a run."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from chiplog_broker.storage.names import LOG_SUFFIX
from chiplog_wire.records.batch import check_crc, iter_batches
from chiplog_wire.records.reader import read_records
from e2e.chaos.ledger import name_of
from e2e.sim.history import Batch, Replica

Values = tuple[tuple[int, str], ...]
"""(offset, name of the value) of each record of a batch."""


def replicas_in(volumes: Mapping[int, Path], topic: str, partitions: int) -> Iterator[Replica]:
    """Every replica on these volumes (broker id -> its data volume).

    All count as in sync, since this is called at the end, when all brokers have caught up. Raises
    `CorruptBatchError` if a file contains damaged or incomplete batches.
    """
    # Batch -> its records. Replicas have equal batches: so each is stored and parsed only once.
    parsed: dict[bytes, Values] = {}
    for broker, volume in volumes.items():
        for number in range(partitions):
            for directory in volume.glob(f"**/{topic}-{number}"):
                batches = tuple(batches_in(directory, parsed))
                yield Replica(
                    broker_id=broker,
                    partition=f"{topic}-{number}",
                    is_in_sync=True,
                    log_start_offset=batches[0].base_offset if batches else 0,
                    batches=batches,
                )


def batches_in(directory: Path, parsed: dict[bytes, Values]) -> Iterator[Batch]:
    """The batches of one replica in the order of their offsets, with checked checksums.

    `parsed` is a cache: batches that are not in it yet are added.
    """
    for path in sorted(directory.glob(f"*{LOG_SUFFIX}")):
        content = path.read_bytes()
        for position, header in iter_batches(content):
            data = content[position : position + header.size_bytes]
            if data not in parsed:
                view = memoryview(data)
                check_crc(view, header)
                # Markers of transactions have no values.
                found = () if header.is_control else read_records(view, header)
                parsed[data] = tuple((one.offset, name_of(one.value)) for one in found)
            offsets_and_epoch = header.base_offset, header.last_offset, header.leader_epoch
            yield Batch(*offsets_and_epoch, data, parsed[data])
