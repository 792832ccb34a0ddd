"""Reading a coordinator's partition in slices, so that the event loop is not blocked."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeVar

from chiplog_broker.partitions.partition import Partition
from chiplog_wire.buffer import Buffer

SLICE_BYTES = 256 * 1024
"""Bytes read in one slice; then other tasks run."""


class State(Protocol):
    """The result of all records of a partition so far."""

    def apply(self, batches: Buffer) -> None: ...


S = TypeVar("S", bound=State)


async def load(partition: Partition, new_state: Callable[[int], S]) -> S:
    """The state after all records of the log. Nothing may be appended while they are read.

    `new_state` returns an empty state for a log that starts at this offset. Raises `RecordsError`,
    `StorageError`.
    """
    log = partition.log
    state = new_state(log.log_start_offset)
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
