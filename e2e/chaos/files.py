"""What the disks of all brokers hold of a topic at the end, read from their files."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from chiplog_broker.storage.names import LOG_SUFFIX
from chiplog_wire.records.batch import check_crc, iter_batches
from chiplog_wire.records.reader import read_records
from e2e.chaos.ledger import name_of
from e2e.sim.history import Batch, Replica

Values = tuple[tuple[int, str], ...]


def replicas_in(volumes: Mapping[int, Path], topic: str, partitions: int) -> Iterator[Replica]:
    """Every replica, by broker; all are in sync, since it is the end and all is whole.

    Raises `CorruptBatchError` where a file holds what is no batch.
    """
    known: dict[bytes, Values] = {}  # replicas are alike: each batch is kept and parsed once
    for broker, volume in volumes.items():
        for number in range(partitions):
            for directory in volume.glob(f"**/{topic}-{number}"):
                batches = tuple(batches_in(directory, known))
                yield Replica(
                    broker_id=broker,
                    partition=f"{topic}-{number}",
                    is_in_sync=True,
                    log_start_offset=batches[0].base_offset if batches else 0,
                    batches=batches,
                )


def batches_in(directory: Path, known: dict[bytes, Values]) -> Iterator[Batch]:
    """In the order of their offsets."""
    for path in sorted(directory.glob(f"*{LOG_SUFFIX}")):
        content = path.read_bytes()
        for position, header in iter_batches(content):
            data = content[position : position + header.size_bytes]
            if data not in known:
                view = memoryview(data)
                check_crc(view, header)
                found = read_records(view, header)
                known[data] = tuple((one.offset, name_of(one.value)) for one in found)
            place = header.base_offset, header.last_offset, header.leader_epoch
            yield Batch(*place, data, known[data])
