"""Reading a partition of `__consumer_offsets` in slices, so that the event loop is not blocked."""

import asyncio

from chiplog_broker.groups.fold import GroupsState
from chiplog_broker.partitions.partition import Partition

SLICE_BYTES = 256 * 1024
"""Bytes read in one slice; then other tasks run."""


async def load(partition: Partition) -> GroupsState:
    """The state of the groups after all records of the log. Nothing may be appended while they are
    read.

    Raises `RecordsError`, `StorageError`.
    """
    log = partition.log
    state = GroupsState(log.log_start_offset)
    offset, end_offset = log.log_start_offset, log.end_offset
    while offset < end_offset:
        found = log.read(offset, SLICE_BYTES, end_offset, min_one=True)
        if found.size_bytes:
            state.apply(found.read())
        elif found.next_offset <= offset:
            break  # compaction left nothing up to the end
        offset = found.next_offset
        await asyncio.sleep(0)
    return state
