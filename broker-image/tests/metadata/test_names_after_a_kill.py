"""Files that a start reads, and whose names a kill left in the page cache only."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from chiplog_broker.metadata.kubernetes.map_files import MAPS, MapFiles
from chiplog_broker.metadata.standalone import TOPICS, admit
from tests.storage.memory_disk import MemoryDisk, SeededRng


async def _read_topics(disk: MemoryDisk) -> None:
    await admit(disk, SeededRng())


async def _read_maps(disk: MemoryDisk) -> None:
    await MapFiles(disk).read_all()


@pytest.mark.parametrize(
    ("directory", "read"), [(TOPICS, _read_topics), (MAPS, _read_maps)], ids=["topics", "maps"]
)
def test_what_a_start_read_is_there_after_a_power_cut(
    directory: str, read: Callable[[MemoryDisk], Coroutine[Any, Any, None]]
) -> None:
    """Records may have been acknowledged by then, with this metadata."""

    async def killed_before_the_sync(disk: MemoryDisk) -> None:
        disk.make_directory(directory)
        await disk.sync_directory("")
        file = disk.open(f"{directory}/orders.tmp", create=True)
        file.append(b"{}")
        await file.sync()
        disk.rename(f"{directory}/orders.tmp", f"{directory}/orders")

    first = MemoryDisk()
    asyncio.run(killed_before_the_sync(first))
    started = first.after_kill()
    asyncio.run(read(started))
    for seed in range(8):
        after = started.after_power_cut(seed)
        assert after.names(directory) == ["orders"]
