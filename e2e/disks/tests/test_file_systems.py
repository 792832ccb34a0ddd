"""The file systems themselves: what they do with what they could not write, and their end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e import measured
from e2e.cluster import mounts
from e2e.cluster.processes import wait_until
from e2e.disks.file_systems import DroppingFileSystem
from e2e.kafka.process import DIE_WITH_US

pytestmark = pytest.mark.clients

PAGE_BYTES = 4096
KEPT_BYTES = 16 * PAGE_BYTES
LOST_BYTES = 64 * PAGE_BYTES
GONE_BYTES = 100 * 2**20
LIMIT_S = 60
# So many syncs write more than the 2 MiB of its log that an xfs clears when it is mounted.
ROUNDS = 4_000
IN_A_NAMESPACE = ("unshare", "--mount", "--propagation")
# Until it is killed.
WAITS = ("sh", "-c", "echo started; read line")

# What a new process finds: syncing, which may fail, and reading.
SYNC_AND_READ = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    os.fsync(file)
    print("synced")
except OSError as error:
    print(error.errno)
sys.stdout.flush()
os.write(1, os.read(file, 2**30))
"""

WAIT = """
import sys, time
from pathlib import Path
from e2e.disks.file_systems import DroppingFileSystem
with DroppingFileSystem(sys.argv[1], Path(sys.argv[2])) as one:
    one.fill()
    print("mounted", flush=True)
    time.sleep(600)
"""


def found_by_another(path: Path) -> tuple[str, bytes]:
    """What its sync said, and what it read."""
    done = subprocess.run(
        [sys.executable, "-c", SYNC_AND_READ, path], capture_output=True, check=True
    )
    synced, _, content = done.stdout.partition(b"\n")
    return synced.decode(), content


def test_after_a_failed_sync_all_seems_well_until_the_cache_is_gone(
    kind: str, tmp_path: Path
) -> None:
    """Why a process may not trust what it reads of a file whose sync failed in another.

    No assertion on what the device holds in the end but that its bytes are not what was written.
    """
    with DroppingFileSystem(kind, tmp_path / "one") as one:
        path = one.path / "file"
        kept, lost = b"k" * KEPT_BYTES, b"l" * LOST_BYTES
        with path.open("wb", buffering=0) as file:
            file.write(kept)
            os.fsync(file.fileno())
            one.fill()
            file.write(lost)
            with pytest.raises(OSError, match="No space left on device") as failed:
                os.fsync(file.fileno())
            one.make_room()
            os.fsync(file.fileno())  # the very descriptor that saw it
        synced, content = found_by_another(path)
        assert (synced, content == kept + lost) == ("synced", True)
        one.forget_cache()
        _, content = found_by_another(path)
        assert content[:KEPT_BYTES] == kept
        pages = content[KEPT_BYTES:].count(b"l" * PAGE_BYTES)
        measured.note(
            f"{kind}: fsync said {failed.value.strerror!r} and then, with room, nothing; another "
            f"process read all pages right; without the cache {pages} of "
            f"{LOST_BYTES // PAGE_BYTES} are, in a file of {len(content)} bytes"
        )
        assert pages == 0


@contextmanager
def a_mount_namespace(propagation: str) -> Iterator[None]:
    """One that is made in the beginning of the block, and there until its end."""
    command = [*DIE_WITH_US, *IN_A_NAMESPACE, propagation, *WAITS]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == "started\n"
            yield
        finally:
            child.kill()


def test_a_power_cut_leaves_what_was_synced(kind: str, tmp_path: Path) -> None:
    with DroppingFileSystem(kind, tmp_path / "one") as one:
        file = one.path / "file"
        for cuts in range(1, 4):
            append(file, b"k" * PAGE_BYTES)
            with file.open("ab") as unsynced:
                unsynced.write(b"l" * LOST_BYTES)
            one.cut_power()
            assert file.read_bytes() == b"k" * PAGE_BYTES * cuts


def test_the_power_is_cut_beside_mount_namespaces_of_others(kind: str, tmp_path: Path) -> None:
    with (
        DroppingFileSystem(kind, tmp_path / "one") as one,
        a_mount_namespace("private"),
    ):
        append(one.path / "file", b"kept")
        one.cut_power()
        assert (one.path / "file").read_bytes() == b"kept"


def test_the_cache_is_forgotten_beside_namespaces_of_brokers(kind: str, tmp_path: Path) -> None:
    with (
        DroppingFileSystem(kind, tmp_path / "one") as one,
        a_mount_namespace("slave"),
    ):
        one.unmount()
        wait_until("no loop device is left", lambda: not mounts.loop_devices(tmp_path), LIMIT_S)
        one.mount()


def test_the_journal_has_room_on_a_full_device_after_a_power_cut(kind: str, tmp_path: Path) -> None:
    with DroppingFileSystem(kind, tmp_path / "one") as one:
        file = one.path / "file"
        append(file, b"kept")
        one.cut_power()
        one.fill()
        for second in range(ROUNDS):
            os.utime(file, (second, second))
            sync(file)
        one.make_room()
        one.cut_power()
        assert file.stat().st_mtime == ROUNDS - 1


def test_a_full_device_has_no_room_of_files_that_are_gone(kind: str, tmp_path: Path) -> None:
    """Nor have files that take some beforehand, since they grow."""
    with DroppingFileSystem(kind, tmp_path / "one") as one:
        append(one.path / "gone", b"k" * GONE_BYTES)
        (one.path / "gone").unlink()
        with (one.path / "growing").open("wb", buffering=0) as growing:
            for _ in range(10):
                growing.write(b"k" * LOST_BYTES)
                os.fsync(growing.fileno())
            one.fill()
            growing.write(b"l" * LOST_BYTES)
            with pytest.raises(OSError, match="No space left on device"):
                os.fsync(growing.fileno())
        one.make_room()


def append(path: Path, content: bytes) -> None:
    """Append to the file, then sync it and its directory."""
    with path.open("ab", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())
    sync(path.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def test_nothing_is_left_of_one_whose_process_was_killed(kind: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAIT, kind, str(tmp_path / "one")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "mounted\n"
        assert len(mounts.below(tmp_path)) == 2
        child.send_signal(signal.SIGKILL)

    def is_gone() -> bool:
        return not (mounts.below(tmp_path) or mounts.loop_devices(tmp_path))

    wait_until("nothing is mounted", is_gone, LIMIT_S)
