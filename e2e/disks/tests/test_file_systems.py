"""The file systems themselves: what they do with what they could not write, and their end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from e2e import measured
from e2e.cluster import mounts
from e2e.cluster.processes import wait_until
from e2e.disks.file_systems import DroppingFileSystem

pytestmark = pytest.mark.clients

PAGE_BYTES = 4096
KEPT_BYTES = 16 * PAGE_BYTES
LOST_BYTES = 64 * PAGE_BYTES
LIMIT_S = 60

# What a new process finds: syncing, which may fail, and reading.
LOOK = """
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
    done = subprocess.run([sys.executable, "-c", LOOK, path], capture_output=True, check=True)
    synced, _, content = done.stdout.partition(b"\n")
    return synced.decode(), content


def test_after_a_failed_sync_all_looks_well_until_the_cache_is_gone(
    kind: str, tmp_path: Path
) -> None:
    """Why a process may not trust what it reads of a file whose sync failed in another.

    No assertion on what the device holds in the end but that it is not what was written.
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
