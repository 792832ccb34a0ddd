"""Flips bits in any file of one broker: logs, indexes and snapshots, checkpoints and metadata.

It is the same broker as in `rot`; the others have all acknowledged records. Of logs only those with
one segment are hit, which the next start verifies; in other segments only a read would find damage.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from chiplog_broker.metadata.kubernetes.map_files import MAPS
from chiplog_broker.metadata.kubernetes.session_file import SESSION_FILE
from chiplog_broker.storage.names import (
    CLEANER_OFFSETS,
    DAMAGED_REPLICAS,
    EPOCH_CHECKPOINT,
    GAP_ENDS,
    HIGH_WATERMARKS,
    INDEX_SUFFIX,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    partition_in_name,
)
from e2e.sim.faults.rot import (
    FIRST_CHECKED,
    batches_above,
    flip_bit,
    has_one_segment,
    rotting_node,
    stored_batches,
)
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import Node

if TYPE_CHECKING:
    from tests.storage.memory_disk import MemoryDisk

IN_DIRECTORIES: Final = {
    "index rots": (INDEX_SUFFIX, TIME_INDEX_SUFFIX),
    "snapshot rots": (SNAPSHOT_SUFFIX,),
    "epochs rot": (EPOCH_CHECKPOINT,),
    "partition id rots": (PARTITION_METADATA,),
}
"""Fault -> suffixes of the files in a replica's directory that it hits."""
AT_THE_ROOT: Final = {
    "checkpoint rots": (
        RECOVERY_POINTS,
        LOG_START_OFFSETS,
        HIGH_WATERMARKS,
        CLEANER_OFFSETS,
        GAP_ENDS,
    ),
    "identity rots": (META_PROPERTIES, DAMAGED_REPLICAS),
}
"""Fault -> names of the files in the data directory that it hits."""
RESTARTED_SHARE: Final = 0.7
"""Share of damages after which the broker is killed: it reads such files only when it starts."""


async def rot_tail(stage: Stage) -> None:
    """Flip a bit under the checksum of a batch that recovery is going to read."""
    node = rotting_node(stage)
    if node is None:
        return
    found = [one for one in batches_above(node.disks) if has_one_segment(node.disks, one.path)]
    if found:
        flip_bit(stage, node, stage.chance.choice(found))
        _maybe_kill(stage, node)


async def rot_header(stage: Stage) -> None:
    """Flip a bit of a batch header that no checksum covers: in base offset, length, or epoch."""
    node = rotting_node(stage)
    if node is None:
        return
    found = [*batches_above(node.disks), *stored_batches(node.disks)]
    found = [one for one in found if has_one_segment(node.disks, one.path)]
    if found:
        one = stage.chance.choice(found)
        at = one.position + stage.chance.randrange(FIRST_CHECKED)
        _flip(stage, node, node.disks.data, one.path, at)
        _maybe_kill(stage, node)


def _in_directories(suffixes: tuple[str, ...]) -> Act:
    """A fault that flips a bit of a file with one of these suffixes, in any replica's directory."""

    async def act(stage: Stage) -> None:
        """Flip a bit of a file whose name has one of the suffixes, on the seed's bad disk."""
        node = rotting_node(stage)
        if node is not None:
            disk = node.disks.data
            paths = [
                f"{directory}/{name}"
                for directory in disk.names("")
                if partition_in_name(directory) is not None
                for name in disk.names(directory)
                if name.endswith(suffixes)
            ]
            _rot_any(stage, node, disk, paths)

    return act


def _at_the_root(names: tuple[str, ...]) -> Act:
    """A fault that flips a bit of one of these files in the data directory."""

    async def act(stage: Stage) -> None:
        """Flip a bit of one of the files in `names` that exist, on the seed's bad disk."""
        node = rotting_node(stage)
        if node is not None:
            disk = node.disks.data
            _rot_any(stage, node, disk, [one for one in names if disk.exists(one)])

    return act


def _of_metadata(paths_of: "Callable[[MemoryDisk], Iterator[str]]") -> Act:
    """A fault that flips a bit of one of the files that `paths_of` finds on the metadata disk."""

    async def act(stage: Stage) -> None:
        """Flip a bit of a file that `paths_of` finds, on the seed's bad disk."""
        node = rotting_node(stage)
        if node is not None:
            disk = node.disks.metadata
            _rot_any(stage, node, disk, list(paths_of(disk)))

    return act


def _session_file(disk: "MemoryDisk") -> Iterator[str]:
    if disk.exists(SESSION_FILE):
        yield SESSION_FILE


def _maps(disk: "MemoryDisk") -> Iterator[str]:
    return (f"{MAPS}/{name}" for name in disk.names(MAPS))


def _rot_any(stage: Stage, node: Node, disk: "MemoryDisk", paths: list[str]) -> None:
    """Flip one bit of one of these files, unless all are empty."""
    paths = [one for one in paths if disk.content(one)]
    if paths:
        path = stage.chance.choice(paths)
        _flip(stage, node, disk, path, stage.chance.randrange(len(disk.content(path))))
        _maybe_kill(stage, node)


def _flip(stage: Stage, node: Node, disk: "MemoryDisk", path: str, at: int) -> None:
    """Flip a random bit of the byte at position `at` of a file."""
    bit = 1 << stage.chance.randrange(8)
    node.disks.damage(path, at, bytes([disk.content(path)[at] ^ bit]), disk)
    stage.count_effect("bit rotted")


def _maybe_kill(stage: Stage, node: Node) -> None:
    """Mostly kill the broker, so that its next start verifies its logs."""
    if stage.chance.random() < RESTARTED_SHARE:
        node.disks.lose_clean_mark()
        node.kill()


ACTS: Final[dict[str, Act]] = {
    "tail rots": rot_tail,
    "batch header rots": rot_header,
    **{name: _in_directories(suffixes) for name, suffixes in IN_DIRECTORIES.items()},
    **{name: _at_the_root(names) for name, names in AT_THE_ROOT.items()},
    "session file rots": _of_metadata(_session_file),
    "map rots": _of_metadata(_maps),
}
