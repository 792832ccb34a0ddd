"""Changes bytes of stored batches, by flipped bits or misdirected writes, on one broker's disk.

Here only bytes below the recovery point and under a batch's checksum change; `decay` changes all
others. In each seed only one disk is bad, so that an undamaged replica is always left.
"""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from chiplog_broker.storage.checkpoint_text import CheckpointError, parse_offsets
from chiplog_broker.storage.names import (
    LOG_SUFFIX,
    RECOVERY_POINTS,
    TopicPartition,
    partition_in_name,
)
from chiplog_wire.records.batch import HEADER_BYTES, read_header
from chiplog_wire.records.errors import CorruptBatchError
from e2e.sim.disk import SECTOR_BYTES, Disks
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node
from e2e.sim.logs import segment_starts

FIRST_CHECKED: Final = 16
"""Position of the magic byte in a batch, from which on bytes are checked; base offset, length and
epoch are before it."""
MIN_REPLICAS: Final = 3


class Stored(NamedTuple):
    """Where a batch is: a segment's file, and its position in it."""

    path: str
    position: int
    size_bytes: int


async def rot(stage: Stage) -> None:
    """Flip one bit of a stored batch."""
    node = rotting_node(stage)
    batches = list(stored_batches(node.disks)) if node is not None else []
    if node is None or not batches:
        return
    flip_bit(stage, node, stage.chance.choice(batches))


def flip_bit(stage: Stage, node: Node, one: Stored) -> None:
    """Flip a random bit of a batch, among those that its checksum covers."""
    at = one.position + stage.chance.randrange(FIRST_CHECKED, one.size_bytes)
    bit = 1 << stage.chance.randrange(8)
    before = node.disks.data.content(one.path)[at]
    node.disks.damage(one.path, at, bytes([before ^ bit]))
    stage.count_effect("bit rotted")


async def misdirect(stage: Stage) -> None:
    """Write a sector of one batch over a sector of another, as a misdirected write does."""
    node = rotting_node(stage)
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
        stage.count_effect("sector overwritten")


def rotting_node(stage: Stage) -> Node | None:
    """The broker of this seed whose disk is bad; None if it has no power, or the mix has too few
    replicas to repair the damage."""
    if stage.mix.replicas < MIN_REPLICAS:
        return None
    node = stage.world.nodes[stage.world.bad_disk]
    return node if node.has_power else None


def has_one_segment(disks: Disks, path: str) -> bool:
    """Whether the log to which the segment at `path` belongs has no other segment."""
    return len(segment_starts(disks.data, path.partition("/")[0])) == 1


def stored_batches(disks: Disks) -> Iterator[Stored]:
    """The batches below the recovery point, of all logs with one segment."""
    for directory, recovery_point in recovery_points(disks).items():
        starts = segment_starts(disks.data, directory)
        if len(starts) == 1:
            for one, last_offset in _batches_of(disks, directory, starts[0]):
                if last_offset >= recovery_point:
                    break
                yield one


def batches_above(disks: Disks) -> list[Stored]:
    """The synced batches above the recovery point in each log's last segment, which recovery reads.

    They are sorted by their place in the log: first the first one of each log, and so on.
    """
    known = recovery_points(disks)
    logs = []
    for directory in disks.data.names(""):
        if partition_in_name(directory) is not None and (
            starts := segment_starts(disks.data, directory)
        ):
            above = known.get(directory, 0)
            found = _batches_of(disks, directory, starts[-1])
            logs.append([one for one, last_offset in found if last_offset >= above])
    return [one for turn in zip_longest(*logs) for one in turn if one is not None]


def recovery_points(disks: Disks) -> dict[str, int]:
    """Log directory -> recovery point; empty if the file is missing or cannot be parsed."""
    try:
        rows = parse_offsets(bytes(disks.data.content(RECOVERY_POINTS)))
    except (KeyError, CheckpointError):
        return {}
    return {TopicPartition(row[0], int(row[1])).directory: int(row[2]) for row in rows}


def _batches_of(disks: Disks, directory: str, start: int) -> Iterator[tuple[Stored, int]]:
    """The synced batches of a segment with their last offsets, up to the first damaged one.

    Batches that were truncated are left out, even if the truncation is not synced yet.
    """
    path = f"{directory}/{start:020d}{LOG_SUFFIX}"
    content = disks.data.durable_content(path)[: len(disks.data.content(path))]
    position = 0
    while position + HEADER_BYTES <= len(content):
        try:
            header = read_header(content, position)
        except CorruptBatchError:
            break
        if position + header.size_bytes > len(content):
            break
        yield Stored(path, position, header.size_bytes), header.last_offset
        position += header.size_bytes


ACTS: Final[dict[str, Act]] = {"bit rot": rot, "misdirected write": misdirect}
