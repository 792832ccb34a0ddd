"""A bit that changes in a small file is noticed, or changes nothing that the file says."""

from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from chiplog_broker.metadata.json_files import read_json, write_json
from chiplog_broker.metadata.kubernetes.session_file import (
    SESSION_FILE,
    SessionRecord,
    read_session,
    write_session,
)
from chiplog_broker.storage.checkpoint_text import CheckpointError, format_offsets, parse_offsets
from chiplog_broker.storage.checkpoints import OffsetCheckpoint
from chiplog_broker.storage.health import DirectoryHealth
from chiplog_broker.storage.meta_properties import Identity, decode_identity, encode_identity
from chiplog_broker.storage.names import LOG_START_OFFSETS

if TYPE_CHECKING:
    from tests.storage.conftest import StorageKit

TOPIC_ID = UUID("5b3f3d3e-8f43-4d5c-9c57-0123456789ab")
IDENTITY = Identity(node_id=3, cluster_id="a-cluster", directory_id=TOPIC_ID)
SESSION = SessionRecord(
    cluster_id="a-cluster",
    broker_id=3,
    session=12,
    incarnation="3f2a",
    intact_since=7,
    boot_id="boot/pod",
    storage_uuid=str(TOPIC_ID),
    fsync_only=True,
)


def partitions_in(data: bytes) -> list[list[str]]:
    """What is said of topics that there can be here."""
    return [row for row in parse_offsets(data) if not row[0].endswith("crc32c")]


DECODERS: dict[str, tuple[bytes, Callable[[bytes], object]]] = {
    "offsets": (format_offsets(["orders 0 1234", "orders 1 99"]), partitions_in),
    "no offsets": (format_offsets([]), partitions_in),
    "identity": (encode_identity(IDENTITY), decode_identity),
}


def with_each_bit_flipped(content: bytes) -> list[bytes]:
    flipped = []
    for at in range(len(content)):
        for bit in range(8):
            data = bytearray(content)
            data[at] ^= 1 << bit
            flipped.append(bytes(data))
    return flipped


@pytest.mark.parametrize("kind", DECODERS)
def test_no_bit_makes_a_file_say_something_else(kind: str) -> None:
    content, decode = DECODERS[kind]
    said = decode(content)
    refused = 0
    for data in with_each_bit_flipped(content):
        try:
            found = decode(data)
        except (CheckpointError, ValueError):
            refused += 1
        else:
            assert found == said, data
    # What is left unnoticed can only be in the line of the checksum itself.
    assert refused >= 8 * (len(content) - len("~crc32c 0 0000000000\n"))


def test_no_bit_makes_a_session_file_say_something_else(kit: "StorageKit") -> None:
    kit.run(write_session(kit.disk, SESSION))
    content = bytes(kit.disk.content(SESSION_FILE))
    assert read_session(kit.disk) == SESSION
    for data in with_each_bit_flipped(content):
        kit.disk.content(SESSION_FILE)[:] = data
        assert read_session(kit.disk) is None


def test_no_bit_makes_a_file_of_json_say_something_else(kit: "StorageKit") -> None:
    value = {"spec": {"leaderEpoch": 41, "replicas": [1, 2, 3]}}
    kit.run(write_json(kit.disk, "map", value))
    content = bytes(kit.disk.content("map"))
    assert read_json(kit.disk, "map") == value
    for data in with_each_bit_flipped(content):
        kit.disk.content("map")[:] = data
        with pytest.raises(ValueError, match=r".+"):
            read_json(kit.disk, "map")


def test_a_file_of_json_without_a_checksum_is_read(kit: "StorageKit") -> None:
    kit.run(kit.disk.replace("map", b'{"spec": 1}'))
    assert read_json(kit.disk, "map") == {"spec": 1}


def test_a_log_start_of_which_a_digit_changed_is_not_believed(kit: "StorageKit") -> None:
    async def write() -> None:
        checkpoint = OffsetCheckpoint(
            kit.disk, LOG_START_OFFSETS, DirectoryHealth(kit.events.disk_failed)
        )
        await checkpoint.put(kit.orders, 1000)

    kit.run(write())
    content = kit.disk.content(LOG_START_OFFSETS)
    content[content.index(b"1000")] ^= 8  # 9000
    again = OffsetCheckpoint(kit.disk, LOG_START_OFFSETS, DirectoryHealth(kit.events.disk_failed))
    assert again.damaged
    assert again.get(kit.orders) is None
