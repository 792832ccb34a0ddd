"""Completes, at the start of the broker, a compaction that the end of the last process interrupted.

A pass writes `.cleaned` files, syncs them, renames them to `.swap`, removes the old segments and
gives the new files their final names; each of these steps is durable before the next one. So a log
file with the mark `.swap` is complete, and contains all of the old segments in its range of
offsets. All other unfinished files are useless: their old segments still exist.
"""

from collections.abc import Collection

from chiplog_broker.ports.disk import Disk
from chiplog_broker.storage.batch_walk import walk_batches
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import (
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_in_name,
    segment_file,
)
from chiplog_wire.records.errors import CorruptBatchError


async def finish_swaps(disk: Disk, directory: str, log_start_offset: int) -> None:
    """Replace old segments by complete `.swap` files; may be interrupted and repeated.

    Raises `DamagedLogError` if a `.swap` file does not end where the next segment begins. A file
    that ends below the log start offset is accepted: the next segment may have been deleted.
    """
    names = disk.names(directory)
    # The base offsets of complete new segments, and then their end offsets.
    swapped = [
        base
        for name in names
        if (base := offset_in_name(name, LOG_SUFFIX + SWAP_SUFFIX)) is not None
    ]
    ends = {base: _end_offset(disk, directory, base) for base in swapped}
    unfinished = {base for name in names if (base := _base_of_swap(name)) is not None}
    bases = {base for name in names if (base := offset_in_name(name, LOG_SUFFIX)) is not None}
    for base, end_offset in ends.items():
        is_followed = end_offset in bases or end_offset in ends
        if end_offset >= log_start_offset and not is_followed:
            raise DamagedLogError(
                f"{segment_file(base, LOG_SUFFIX)}{SWAP_SUFFIX}, an unfinished compaction, "
                f"ends at {end_offset}, where no segment begins"
            )
    if ends:
        # A killed process may have renamed the file to `.swap` without making that durable. A power
        # cut now must not lose the rename after the old segments are removed.
        await disk.sync_directory(directory)
    replaced = [
        name
        for name in names
        if any(_is_replaced(name, base, end_offset) for base, end_offset in ends.items())
    ]
    for name in replaced:
        disk.remove(f"{directory}/{name}")
    if ends:
        # Once the new file has its final name, nothing shows that the old ones must be removed.
        await disk.sync_directory(directory)
    # A power cut may have kept any of the final names, so it is not known which index files are
    # those of the new segment. Recovery builds all of them again.
    for name in names:
        if _is_index_of(name, unfinished):
            disk.remove(f"{directory}/{name}")
    # Rename the log file of each segment last: as long as its mark `.swap` is there, this function
    # can be repeated after a crash.
    for base in ends:
        path = f"{directory}/{segment_file(base, LOG_SUFFIX)}"
        disk.rename(path + SWAP_SUFFIX, path)
    if ends:
        await disk.sync_directory(directory)


def _is_replaced(name: str, base: int, end_offset: int) -> bool:
    """Whether a file belongs to the segments that the new segment `base`..`end_offset` replaces.

    The producer snapshot at `base` itself stays: it describes the log before the new segment.
    """
    for suffix in SEGMENT_SUFFIXES:
        offset = offset_in_name(name, suffix)
        if offset is not None:
            return base <= offset < end_offset
    offset = offset_in_name(name, SNAPSHOT_SUFFIX)
    return offset is not None and base < offset < end_offset


def _is_index_of(name: str, bases: Collection[int]) -> bool:
    """Whether a file is an index of one of these segments, with or without the mark `.swap`."""
    stem = name.removesuffix(SWAP_SUFFIX)
    return any(
        suffix != LOG_SUFFIX and offset_in_name(stem, suffix) in bases
        for suffix in SEGMENT_SUFFIXES
    )


def _base_of_swap(name: str) -> int | None:
    """The base offset in the name of a `.swap` file; None for any other file."""
    for suffix in SEGMENT_SUFFIXES:
        offset = offset_in_name(name, suffix + SWAP_SUFFIX)
        if offset is not None:
            return offset
    return None


def _end_offset(disk: Disk, directory: str, base: int) -> int:
    """The end offset of the `.swap` log file that begins at `base`. Raises `DamagedLogError`."""
    path = f"{directory}/{segment_file(base, LOG_SUFFIX)}{SWAP_SUFFIX}"
    file = disk.open(path)
    end_offset = base
    try:
        for _, header in walk_batches(file, 0, file.size()):
            end_offset = header.last_offset + 1
    except CorruptBatchError as error:
        raise DamagedLogError(f"{path}: {error}") from error
    finally:
        file.close()
    return end_offset
