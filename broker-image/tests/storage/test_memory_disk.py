"""What the disk in memory shows and keeps after an error, as Linux does with ext4 and xfs."""

import asyncio
import errno
import random
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.ports.disk import DiskUsage
from tests.storage.memory_disk import MemoryDisk, MemoryFile

PATH = "a.log"
SEEDS = range(60)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def new_disk(chance: random.Random | None = None) -> tuple[MemoryDisk, MemoryFile]:
    """With one file, whose name is durable."""
    disk = MemoryDisk()
    disk.chance = chance
    file = disk.open(PATH, create=True)
    run(disk.sync_directory(""))
    return disk, file


def chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - not for secrets


def fail_sync(disk: MemoryDisk, file: MemoryFile, error_number: int = errno.EIO) -> None:
    disk.fail_next("sync", error_number)
    with pytest.raises(OSError, match="injected") as raised:
        run(file.sync())
    assert raised.value.errno == error_number


def seen(disk: MemoryDisk) -> bytes:
    return bytes(disk.content(PATH))


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
def test_what_a_failed_sync_lost_is_read_until_the_power_goes(error_number: int) -> None:
    disk, file = new_disk()
    file.append(b"old")
    run(file.sync())
    file.append(b"lost")
    fail_sync(disk, file, error_number)
    disk = disk.after_kill()
    assert seen(disk) == b"oldlost"
    file = disk.open(PATH)
    run(file.sync())  # succeeds, and there is nothing to do
    assert seen(disk) == b"oldlost"
    assert {seen(disk.after_power_cut(seed)) for seed in SEEDS} == {b"old"}


def test_what_is_appended_later_lies_behind_a_hole() -> None:
    disk, file = new_disk()
    file.append(b"lost")
    fail_sync(disk, file)
    file.append(b"new")
    run(file.sync())
    assert seen(disk) == b"lostnew"
    assert seen(disk.after_power_cut(0)) == b"\0\0\0\0new"


def test_a_cache_that_is_dropped_shows_what_the_device_has() -> None:
    disk, file = new_disk()
    file.append(b"lost")
    fail_sync(disk, file)
    file.append(b"dirty")
    disk.drop_caches()
    assert file.read(0, 20) == b"\0\0\0\0dirty"


def test_an_unmount_writes_what_is_dirty_and_forgets_what_is_clean() -> None:
    disk, file = new_disk()
    file.append(b"lost")
    fail_sync(disk, file)
    file.append(b"dirty")
    disk.open("new", create=True).append(b"x")
    disk = disk.after_unmount()
    assert seen(disk) == b"\0\0\0\0dirty"
    disk = disk.after_power_cut(0)
    assert seen(disk) == b"\0\0\0\0dirty"
    assert bytes(disk.content("new")) == b"x"


def test_a_failed_sync_may_drop_the_pages_at_once() -> None:
    read = set()
    for seed in SEEDS:
        disk, file = new_disk(chance(seed))
        disk.evicted_share = 1.0
        file.append(b"old")
        run(file.sync())
        file.write_at(0, b"new")
        fail_sync(disk, file)
        read.add(seen(disk))
        assert seen(disk.after_power_cut(seed)) == seen(disk)
    assert read == {b"old", b"new"}


def test_by_chance_a_failed_sync_loses_some_writes_or_all_or_only_their_bytes() -> None:
    left = set()
    for seed in range(300):
        disk, file = new_disk(chance(seed))
        file.append(b"a")
        file.append(b"b")
        fail_sync(disk, file)
        assert seen(disk) == b"ab"
        left.add(seen(disk.after_power_cut(seed)))
    assert left == {b"", b"\0", b"\0\0", b"a", b"a\0", b"\0b", b"ab"}


def test_a_disk_with_more_on_it_than_it_holds_has_no_room() -> None:
    disk, file = new_disk()
    file.append(b"ab")
    disk.capacity_bytes = 1
    assert disk.usage() == DiskUsage(1, 0)


def test_a_truncation_outlives_a_failed_sync() -> None:
    disk, file = new_disk()
    file.append(b"old")
    run(file.sync())
    file.truncate(1)
    fail_sync(disk, file)
    run(file.sync())
    assert seen(disk.after_power_cut(0)) == b"o"


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("write_at"), st.integers(0, 5)),
        st.tuples(st.just("truncate"), st.integers(0, 5)),
        st.just(("sync", 0)),
        st.just(("fail", 0)),
    ),
    max_size=14,
)


@given(STEPS)
def test_only_what_a_sync_covered_is_kept_and_everything_is_seen(
    steps: list[tuple[str, int]],
) -> None:
    disk, file = new_disk()
    cached, durable = bytearray(), bytearray()
    pending: list[tuple[str, int, bytes]] = []
    for number, (step, size) in enumerate(steps, 1):
        mark = bytes([number])
        if step == "append":
            pending.append(("write", len(cached), mark * size))
            file.append(mark * size)
        elif step == "write_at":
            pending.append(("write", size, mark))
            file.write_at(size, mark)
        elif step == "truncate":
            pending.append(("truncate", size, b""))
            file.truncate(size)
        if step == "fail":
            fail_sync(disk, file)
            pending = [one for one in pending if one[0] == "truncate"]
        elif step == "sync":
            run(file.sync())
            for one in pending:
                change(durable, *one)
            pending = []
        else:
            change(cached, *pending[-1])
        assert seen(disk) == cached
    run(file.sync())
    for one in pending:
        change(durable, *one)
    disk = disk.after_kill()
    assert seen(disk) == cached
    assert seen(disk.after_power_cut(len(steps))) == durable


def change(content: bytearray, what: str, position: int, data: bytes) -> None:
    """One write or truncation, where a gap is read as zeros."""
    if what == "truncate":
        del content[position:]
    content.extend(bytes(max(position - len(content), 0)))
    content[position : position + len(data)] = data


def test_a_failed_replacement_leaves_the_old_file_or_the_new_one_whole() -> None:
    shown = set()
    for seed in SEEDS:
        disk = MemoryDisk()
        run(disk.replace("c", b"old"))
        disk.chance = chance(seed)
        disk.fail_next("replace", errno.EIO)
        with pytest.raises(OSError, match="injected"):
            run(disk.replace("c", b"new"))
        before = bytes(disk.content("c"))
        shown.add((before, bytes(disk.after_power_cut(seed).content("c"))))
    assert shown == {(b"old", b"old"), (b"new", b"old"), (b"new", b"new")}


def test_an_append_that_fails_in_its_middle_is_cut_back() -> None:
    disk, file = new_disk()
    file.append(b"old")
    run(file.sync())
    disk.fail_next("append", errno.ENOSPC, written_share=0.5)
    with pytest.raises(OSError, match="injected"):
        file.append(b"1234")
    assert (file.size(), seen(disk)) == (3, b"old")
    assert file.append(b"new") == 3
    run(file.sync())
    assert seen(disk.after_power_cut(0)) == b"oldnew"


def test_a_part_that_was_cut_back_may_be_there_after_a_power_cut() -> None:
    left = set()
    for seed in SEEDS:
        disk, file = new_disk()
        disk.fail_next("append", errno.ENOSPC, written_share=0.5)
        with pytest.raises(OSError, match="injected"):
            file.append(b"1234")
        left.add(seen(disk.after_power_cut(seed)))
    assert left == {b"", b"12"}


def test_an_append_that_cannot_be_cut_back_leaves_a_part() -> None:
    disk, file = new_disk()
    disk.fail_next("append", errno.EIO, written_share=0.5, is_cut_back=False)
    with pytest.raises(OSError, match="injected"):
        file.append(b"1234")
    assert seen(disk.after_kill()) == b"12"


def test_a_full_disk_takes_a_part_and_gives_it_back() -> None:
    disk, file = new_disk()
    disk.capacity_bytes = 5
    with pytest.raises(OSError, match="no space"):
        file.append(b"1234567")
    assert file.size() == 0
    assert {seen(disk.after_power_cut(seed)) for seed in SEEDS} == {b"", b"12345"}


def test_a_copy_is_durable_and_stays_as_it_was() -> None:
    disk, file = new_disk()
    file.append(b"unsynced")
    disk.make_directory("d")
    disk.open("d/e", create=True).append(b"x")
    copy = disk.copy()
    file.append(b"later")
    assert seen(copy.after_power_cut(0)) == b"unsynced"
    assert bytes(copy.content("d/e")) == b"x"
