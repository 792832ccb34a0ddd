"""What is noted of the batches that brokers append."""

import asyncio
import random
from collections import Counter
from uuid import UUID

from chiplog_broker.storage.compaction.rewrite import empty_batch
from chiplog_broker.storage.names import PARTITION_METADATA
from chiplog_broker.storage.partition_metadata import encode_partition_metadata
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.writer import BatchOptions, NewRecord, build_batch
from e2e.sim.disk import Disks
from e2e.sim.logs import AppendTrace
from e2e.sim.loop import PROCESS, Process

DIRECTORY = "a-0"


class Replica:
    """A replica on a disk, and the trace of what is appended to it."""

    def __init__(self) -> None:
        self.disks = Disks(random.Random(1), Counter())  # noqa: S311 - not for secrets
        self.disks.data.make_directory(DIRECTORY)
        owner = encode_partition_metadata(UUID(int=7))
        asyncio.run(self.disks.data.replace(f"{DIRECTORY}/{PARTITION_METADATA}", owner))
        self.trace = AppendTrace()
        self.trace.keeps_places = True
        self.disks.on_append = self.trace.wrote

    def path(self, segment: int) -> str:
        return f"{DIRECTORY}/{segment:020d}.log"

    def append(self, segment: int, *batches: bytes, process: str = "broker-1#1") -> None:
        async def write() -> None:
            PROCESS.set(Process(process, "host"))
            self.disks.data.open(self.path(segment), create=True).append(b"".join(batches))

        asyncio.run(write())

    def skipped(self) -> list[set[int]]:
        """The skipped offsets of each batch in the order in which they were appended."""
        return [set(one.skipped) for one in self.trace.appends]


def batch(offset: int, records: int = 1) -> bytes:
    all_ = [NewRecord(b"%d" % number) for number in range(records)]
    return bytes(build_batch(all_, BatchOptions(base_offset=offset)))


def emptied(offset: int, records: int) -> bytes:
    """What compaction leaves of a batch of which it removes all records."""
    return bytes(empty_batch(read_header(batch(offset, records))))


def test_a_leader_skips_nothing() -> None:
    one = Replica()
    one.append(0, batch(0, 3), batch(3))
    one.append(0, batch(4))
    one.append(5, batch(5, 2))
    assert one.skipped() == [set()] * 4


def test_a_follower_skips_what_compaction_removed() -> None:
    one = Replica()
    one.append(0, batch(0), batch(3, 2))
    one.append(0, emptied(5, 2), batch(8))
    one.append(9, batch(11))
    assert one.skipped() == [set(), {1, 2}, {5, 6}, {7}, {9, 10}]


def test_what_is_copied_again_to_an_older_snapshot_begins_at_its_end() -> None:
    """It had these records before; now it gets what compaction left of them."""
    one = Replica()
    one.append(0, batch(0))
    snapshot = one.disks.copied()
    one.append(0, batch(1), batch(2), batch(3))
    one.disks.put_back(snapshot)
    one.append(0, batch(3), process="broker-1#2")
    assert one.skipped() == [set()] * 4 + [{1, 2}]


def test_what_is_copied_again_after_a_truncation_begins_at_its_end() -> None:
    one = Replica()
    one.append(0, batch(0))
    size_bytes = one.disks.data.open(one.path(0)).size()
    one.append(0, batch(1), batch(2))
    one.disks.data.open(one.path(0)).truncate(size_bytes)
    one.append(0, batch(2))
    assert one.skipped() == [set()] * 3 + [{1}]


def test_after_a_header_that_rotted_nothing_counts_as_skipped() -> None:
    one = Replica()
    one.append(0, batch(0))
    one.disks.damage(one.path(0), 11, b"!")
    one.append(0, batch(5), process="broker-1#2")
    assert one.skipped() == [set(), set()]


def test_nothing_is_skipped_while_no_keys_are_used() -> None:
    one = Replica()
    one.trace.keeps_places = False
    one.append(0, batch(0), batch(3))
    assert one.skipped() == [set(), set()]
