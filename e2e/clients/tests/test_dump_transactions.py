"""kafka-dump-log.sh reads transactions: markers, indexes of aborted ones, and snapshots."""

import asyncio
import re
from pathlib import Path
from uuid import UUID

import pytest

from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.directory import LogDirectory, OpenOptions, StoragePorts
from chiplog_broker.storage.directory_report import Progress
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import TopicPartition
from chiplog_wire.records.control import EndMarker
from chiplog_wire.records.writer import BatchOptions, NewRecord, Producer, build_batch
from e2e.kafka.tools import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")
NOW_MS = 1_700_000_000_000


class Ignored:
    """Ignores what a data directory notifies of."""

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None: ...

    def log_compacts(self) -> None: ...

    def logs_opened(self, progress: Progress) -> None: ...

    def disk_failed(self, failure: OSError) -> None: ...


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a partition with an aborted, a committed and an open transaction."""
    root = tmp_path_factory.mktemp("transactions")

    async def write() -> None:
        disk = SystemDisk(root)
        ports = StoragePorts(disk, SystemClock(), SystemRng())
        options = OpenOptions(node_id=1, cluster_id="cluster", config_of=lambda _: LogConfig())
        directory = await LogDirectory.open(ports, options, Ignored())
        log = await directory.create(ORDERS, TOPIC_ID, LogConfig())
        for producer_id in (7, 8, 9):
            producer = Producer(producer_id=producer_id, epoch=2, base_sequence=0)
            record = NewRecord(b"value", b"key", NOW_MS)
            batch = build_batch([record], BatchOptions(producer=producer, transactional=True))
            log.append_as_leader(memoryview(batch), 0, NOW_MS)
        for producer_id, is_commit in ((8, False), (7, True)):
            marker = EndMarker(is_commit, coordinator_epoch=5)
            log.append_marker(marker, Producer(producer_id=producer_id, epoch=2), 0, NOW_MS)
        await directory.close({}, 1)
        disk.close()

    asyncio.run(write())
    return root / ORDERS.directory


def test_markers(partition: Path) -> None:
    printed = dump(partition, "log", "--deep-iteration")
    assert re.findall(r"endTxnMarker: (\w+) coordinatorEpoch: (\d+)", printed) == [
        ("ABORT", "5"),
        ("COMMIT", "5"),
    ]


def test_the_index_of_aborted_transactions(partition: Path) -> None:
    printed = dump(partition, "txnindex")
    numbers = r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    assert re.findall(numbers, printed) == [("8", "1", "3", "0")]


def test_the_snapshot_has_the_open_transaction(partition: Path) -> None:
    printed = dump(partition, "snapshot")
    found = dict(
        re.findall(
            r"producerId: (\d+) .*currentTxnFirstOffset: (?:Optional\w*\[)?(\S+?)\]? ", printed
        )
    )
    assert found["9"] == "2", printed
    # Of each producer the last line counts, as for the broker.
    assert not found["7"].isdigit(), printed
    assert re.search(r"producerId: 7 .*coordinatorEpoch: 5", printed), printed


def dump(partition: Path, kind: str, *options: str) -> str:
    """What the tool prints of the partition's only file of this kind."""
    (file,) = partition.glob(f"*.{kind}")
    return run_tool("kafka-dump-log.sh", "--files", str(file), *options)
