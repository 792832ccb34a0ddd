"""Stored bytes change, or another file's are written over them: on the disk of one broker.

Only what has copies elsewhere, and only below the recovery point: above it a damaged batch
cannot be told from one that a power cut tore. Only bytes under the checksum: those before it
(base offset, epoch) no reader can check by itself. One disk in a seed, so that there is always
a replica to fetch anew from.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from chiplog_broker.records.batch import HEADER_BYTES, read_header
from chiplog_broker.records.errors import CorruptBatchError
from chiplog_broker.storage.checkpoint_text import CheckpointError, parse_lines
from chiplog_broker.storage.names import LOG_SUFFIX, RECOVERY_POINTS, TopicPartition
from e2e.sim.disk import SECTOR_BYTES, Disks
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node
from e2e.sim.logs import segment_starts

FIRST_CHECKED: Final = 16
"""The magic byte; before it are base offset, length and epoch."""
MIN_REPLICAS: Final = 3


class Stored(NamedTuple):
    """A batch below the recovery point."""

    path: str
    position: int
    size_bytes: int


async def rot(stage: Stage) -> None:
    """One bit."""
    node = _chosen(stage)
    batches = list(stored_batches(node.disks)) if node is not None else []
    if node is None or not batches:
        return
    flip_bit(stage, node, stage.chance.choice(batches))


def flip_bit(stage: Stage, node: Node, one: Stored) -> None:
    """Any one under the batch's checksum."""
    at = one.position + stage.chance.randrange(FIRST_CHECKED, one.size_bytes)
    bit = 1 << stage.chance.randrange(8)
    before = node.disks.data.content(one.path)[at]
    node.disks.damage(one.path, at, bytes([before ^ bit]))
    stage.bit("bit rotted")


async def misdirect(stage: Stage) -> None:
    """A sector of one file over one of another."""
    node = _chosen(stage)
    batches = list(stored_batches(node.disks)) if node is not None else []
    if node is None or len(batches) < 2:
        return
    source, target = stage.chance.sample(batches, 2)
    data = node.disks.data
    start = target.position - target.position % SECTOR_BYTES
    sector = bytes(data.content(source.path)[source.position : source.position + SECTOR_BYTES])
    end = max(one.position + one.size_bytes for one in batches if one.path == target.path)
    sector = sector[: end - start]
    if sector != bytes(data.content(target.path)[start : start + len(sector)]):
        node.disks.damage(target.path, start, sector)
        stage.bit("sector overwritten")


def _chosen(stage: Stage) -> Node | None:
    """The broker of this seed whose disk is bad."""
    if stage.mix.replicas < MIN_REPLICAS:
        return None
    node = stage.world.nodes[stage.world.bad_disk]
    return node if node.has_power else None


def stored_batches(disks: Disks) -> Iterator[Stored]:
    """In logs of one segment, what the recovery point covers."""
    disk = disks.data
    try:
        rows = parse_lines(bytes(disk.content(RECOVERY_POINTS)), columns=3)
    except (KeyError, CheckpointError):
        return
    for topic, number, offset in rows:
        directory = TopicPartition(topic, int(number)).directory
        starts = segment_starts(disk, directory)
        if len(starts) != 1:
            continue
        path = f"{directory}/{starts[0]:020d}{LOG_SUFFIX}"
        content, position = disk.content(path), 0
        while position + HEADER_BYTES <= len(content):
            try:
                header = read_header(content, position)
            except CorruptBatchError:
                break
            if header.last_offset >= int(offset):
                break
            yield Stored(path, position, header.size_bytes)
            position += header.size_bytes


ACTS: Final[dict[str, Act]] = {"bit rot": rot, "misdirected write": misdirect}
