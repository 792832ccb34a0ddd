"""The files, byte by byte, as Apache Kafka's source defines them.

Layouts were read in Kafka's `OffsetIndex`, `TimeIndex`, `ProducerStateManager`,
`CheckpointFile`, `OffsetCheckpointFile`, `LeaderEpochCheckpointFile`, `PartitionMetadata`,
`MetaProperties` and `CleanShutdownFileHandler`.
"""

import struct
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from crc32c import crc32c

from chiplog_broker.ports.checksum_line import with_checksum
from chiplog_broker.storage.checkpoint_text import (
    CheckpointError,
    format_lines,
    format_offsets,
    parse_lines,
    parse_offsets,
)
from chiplog_broker.storage.clean_shutdown import decode_clean_shutdown, encode_clean_shutdown
from chiplog_broker.storage.config import LogConfig
from chiplog_broker.storage.epochs import EpochHistory, decode_epochs
from chiplog_broker.storage.meta_properties import Identity, decode_identity, encode_identity
from chiplog_broker.storage.names import (
    TopicPartition,
    marked_directory,
    offset_in_name,
    partition_in_name,
    segment_file,
)
from chiplog_broker.storage.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
)
from chiplog_broker.storage.producer_snapshot import SnapshotError, decode_snapshot
from chiplog_wire.records.writer import Producer

if TYPE_CHECKING:
    from tests.storage.conftest import MakeBatch, StorageKit

TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")


def test_a_closed_log_has_kafkas_files_and_one_of_ours(
    kit: "StorageKit", make_batch: "MakeBatch"
) -> None:
    kit.config = LogConfig(segment_bytes=380, index_interval_bytes=100)
    kit.run(write_and_close(kit, make_batch))
    assert kit.disk.names("") == [
        ".kafka_cleanshutdown",
        ".lock",
        "gap-end-checkpoint",
        "meta.properties",
        "orders-0",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    ]
    assert kit.disk.names("orders-0") == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000008.index",
        "00000000000000000008.log",
        "00000000000000000008.snapshot",
        "00000000000000000008.timeindex",
        "00000000000000000010.snapshot",
        "leader-epoch-checkpoint",
        "partition.metadata",
    ]


async def write_and_close(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    directory, log = await kit.new_log()
    for number in range(5):
        producer = Producer(producer_id=77, epoch=3, base_sequence=2 * number)
        batch = make_batch([b"a", b"b"], timestamp_ms=1_000_000 + number, producer=producer)
        assert len(batch) == 77
        log.append_as_leader(batch, 4, 1_000_000)
    await directory.close({kit.orders: 9}, broker_epoch=21)


def test_index_entries(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    """An entry when more than the interval was written since the last, before the batch."""
    kit.config = LogConfig(segment_bytes=380, index_interval_bytes=100)
    kit.run(write_and_close(kit, make_batch))
    # Batches of 77 bytes at 0, 77, 154, 231: the third finds 154 > 100 bytes unindexed.
    assert bytes(kit.disk.content(kit.path("00000000000000000000.index"))) == struct.pack(
        ">ii", 5, 154
    )
    # The largest timestamp then, and again when the segment was finished.
    assert bytes(kit.disk.content(kit.path("00000000000000000000.timeindex"))) == struct.pack(
        ">qiqi", 1_000_002, 5, 1_000_003, 7
    )
    # The newest segment has one batch: no index entry, its time entry from closing.
    assert bytes(kit.disk.content(kit.path("00000000000000000008.index"))) == b""
    assert bytes(kit.disk.content(kit.path("00000000000000000008.timeindex"))) == struct.pack(
        ">qi", 1_000_004, 1
    )


def test_producer_snapshot(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.config = LogConfig(segment_bytes=380, index_interval_bytes=100)
    kit.run(write_and_close(kit, make_batch))
    content = bytes(kit.disk.content(kit.path("00000000000000000010.snapshot")))
    # First when it wrote last, by the clock, then its batches; Kafka goes by the last entry.
    entries = struct.pack(">qhiqiqiq", 77, 3, -1, -1, 0, kit.clock.now_ms(), -1, -1)
    for number in range(5):
        last = 2 * number + 1
        entries += struct.pack(">qhiqiqiq", 77, 3, last, last, 1, 1_000_000 + number, -1, -1)
    body = struct.pack(">i", 6) + entries
    assert content == struct.pack(">hI", 1, crc32c(body)) + body


@pytest.mark.parametrize("byte", range(56))
def test_a_snapshot_with_a_wrong_bit_is_refused(byte: int) -> None:
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 77, 3, 9, 9, 1, 5, -1, -1)
    content = bytearray(struct.pack(">hI", 1, crc32c(body)) + body)
    decode_snapshot(bytes(content))
    content[byte] ^= 4
    with pytest.raises(SnapshotError):
        decode_snapshot(bytes(content))
    with pytest.raises(SnapshotError):
        decode_snapshot(bytes(content[:byte]))


def test_epoch_checkpoint() -> None:
    history = EpochHistory()
    history.assign(0, 0)
    history.assign(4, 120)
    assert history.encode() == b"0\n2\n0 0\n4 120\n"
    assert decode_epochs(history.encode()).entries == history.entries
    assert EpochHistory().encode() == b"0\n0\n"


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 x\n",
        b"0\n1\n-1 0\n",
        b"0\n2\n3 0\n2 9\n",
        b"0\n2\n3 9\n4 9\n",
        b"\xff\xfe",
        b"garbage",
    ],
)
def test_epoch_checkpoints_that_make_no_sense(data: bytes) -> None:
    with pytest.raises(CheckpointError):
        decode_epochs(data)


def with_entry(content: bytes) -> bytes:
    """And the checksum, which Kafka takes for a partition that it has not."""
    return content + b"~crc32c 0 %d\n" % crc32c(content)


def test_offset_checkpoint(kit: "StorageKit", make_batch: "MakeBatch") -> None:
    kit.run(write_and_close(kit, make_batch))
    durable = bytes(kit.disk.content("recovery-point-offset-checkpoint"))
    assert durable == with_entry(b"0\n2\norders 0 10\n")
    replicated = bytes(kit.disk.content("replication-offset-checkpoint"))
    assert replicated == with_entry(b"0\n2\norders 0 9\n")


def test_a_checkpoint_of_kafka_or_of_an_earlier_version_is_read() -> None:
    assert parse_offsets(b"0\n1\norders 0 9\n") == [["orders", "0", "9"]]


def test_an_empty_checkpoint_has_no_entries() -> None:
    assert parse_lines(b"", columns=3) == []
    assert parse_lines(format_lines([]), columns=3) == []
    assert parse_offsets(format_offsets([])) == []


def test_partition_metadata() -> None:
    assert encode_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: Wz89Po9DTVycVwEjRWeJqw"
    assert decode_partition_metadata(encode_partition_metadata(TOPIC_ID)) == TOPIC_ID


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 1\ntopic_id: Wz89Po9DTVycVwEjRWeJqw",
        b"version: 0\n",
        b"version: 0\ntopic_id: x",
    ],
)
def test_partition_metadata_that_makes_no_sense(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_partition_metadata(data)


def test_meta_properties() -> None:
    identity = Identity(node_id=3, cluster_id="a=b:c", directory_id=TOPIC_ID)
    data = encode_identity(identity)
    assert data == with_checksum(
        b"#\nversion=1\nnode.id=3\ncluster.id=a\\=b\\:c\ndirectory.id=Wz89Po9DTVycVwEjRWeJqw\n",
        b"#",
    )
    assert decode_identity(data) == identity
    kafkas = (
        b"#\n#Mon Jan 01 00:00:00 UTC 2026\ncluster.id=x\nversion=1\n"
        b"directory.id=Wz89Po9DTVycVwEjRWeJqw\nnode.id=1\n"
    )
    assert decode_identity(kafkas).cluster_id == "x"


@pytest.mark.parametrize(
    "data", [b"", b"version=0\nbroker.id=1\n", b"version=1\nnode.id=1\n", b"version=1\nnode.id=x"]
)
def test_meta_properties_that_make_no_sense(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_identity(data)


def test_clean_shutdown() -> None:
    assert encode_clean_shutdown(21) == b'{"version":0,"brokerEpoch":21}'
    assert decode_clean_shutdown(b'{"version":0,"brokerEpoch":21}') == 21
    assert decode_clean_shutdown(b"") is None
    assert decode_clean_shutdown(b"[]") is None


def test_names() -> None:
    assert segment_file(42, ".log") == "00000000000000000042.log"
    assert offset_in_name("00000000000000000042.log", ".log") == 42
    assert offset_in_name("42.log", ".log") is None
    assert offset_in_name("0000000000000000004x.log", ".log") is None
    assert partition_in_name("my-topic.v1-12") == TopicPartition("my-topic.v1", 12)
    for name in ("orders", "orders-", "orders-01", "-0", "orders-x", "lost+found", ".lock"):
        assert partition_in_name(name) is None


def test_a_marked_directory_is_no_replica() -> None:
    for topic in ("orders", "x" * 249):
        name = marked_directory(TopicPartition(topic, 7), TOPIC_ID, "-delete")
        assert len(name) <= 255
        assert name.endswith(".5b3f3d3e8f434d5c9c570123456789ab-delete")
        assert partition_in_name(name) is None
