"""Faults of disks: slow, full, or with a changed bit."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from chiplog_wire.records.batch import HEADER_BYTES, read_header
from e2e.chaos.scene import Scene, check_effect
from e2e.cluster.kubectl import eventually
from e2e.cluster.shell import run

BLKIO = Path("/sys/fs/cgroup/blkio")
LIMIT = "blkio.throttle.write_bps_device"
SLOW_BYTES_PER_S = 128 * 1024
PROBE_BYTES = 64 * 1024
HEAL_LIMIT_S = 300
# Block size: a smaller file takes no less space.
LEAST_BYTES = 4096
# Attempts to fill a disk on which a broker may free some space at the same time.
FILL_AGAIN = 20


@contextmanager
def leader_slow(scene: Scene) -> Iterator[None]:
    """A leader's disk is limited to 128 KiB of writes per second."""
    broker = scene.some_leader()
    volume, group = scene.volume(broker), blkio_group(scene.processes(broker)[0].pid)
    device = volume.stat().st_dev
    where = f"{os.major(device)}:{os.minor(device)}"
    (group / LIMIT).write_text(f"{where} {SLOW_BYTES_PER_S}")
    try:
        took_s = synced_in_s(group, volume / "probe")
        # Half the time that the limit allows is far slower than the disk without a limit.
        check_effect("a slow write", took_s > PROBE_BYTES / SLOW_BYTES_PER_S / 2)
        yield
    finally:
        if group.exists():
            (group / LIMIT).write_text(f"{where} 0")


def blkio_group(pid: int) -> Path:
    """The directory of a process's blkio cgroup, in which its writes can be limited."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return BLKIO / path.lstrip("/")
    raise RuntimeError(f"process {pid} is in no blkio cgroup")


def synced_in_s(group: Path, probe: Path) -> float:
    """Seconds that a program in this cgroup takes to write and sync `PROBE_BYTES` to the file
    `probe`."""
    script = (
        f"echo $$ > {group / 'cgroup.procs'} && "
        f"exec dd if=/dev/urandom of={probe} bs={PROBE_BYTES} count=1 conv=fdatasync"
    )
    began_s = time.monotonic()
    try:
        run("sh", "-c", script)
        return time.monotonic() - began_s
    finally:
        probe.unlink(missing_ok=True)


@contextmanager
def leader_full(scene: Scene) -> Iterator[None]:
    """A file of another program takes all free space on a leader's disk."""
    with filled(scene.volume(scene.some_leader())):
        yield


@contextmanager
def filled(volume: Path) -> Iterator[None]:
    """Keep the volume completely full while the block runs, with one large file."""
    filler = volume / "filler"
    try:
        with filler.open("wb") as file:
            # While this fills the disk, a broker may free space, as by truncating a preallocated
            # file.
            for _ in range(FILL_AGAIN):
                fill(file)
                if is_full(volume / "probe"):
                    break
        check_effect("a full disk", is_full(volume / "probe"))
        yield
    finally:
        filler.unlink(missing_ok=True)


def fill(file: BinaryIO) -> None:
    """Extend the file until no block is free.

    Where the free space cannot be allocated in one piece, half of it is tried, and so on.
    """
    usage = os.fstatvfs(file.fileno())
    end, size = os.fstat(file.fileno()).st_size, usage.f_bavail * usage.f_frsize
    while size >= LEAST_BYTES:
        try:
            os.posix_fallocate(file.fileno(), end, size)
            end += size
        except OSError:
            size //= 2


def is_full(probe: Path) -> bool:
    """Whether writing two blocks to the file `probe` fails; the file is removed again."""
    try:
        probe.write_bytes(bytes(2 * LEAST_BYTES))
    except OSError:
        return True
    finally:
        probe.unlink(missing_ok=True)
    return False


@contextmanager
def follower_flipped(scene: Scene) -> Iterator[None]:
    """Flip a bit in a follower's segment; the replica is fetched again from the leader."""
    place = scene.chance.choice(scene.places())
    broker = next(one for one in place.in_sync if one != place.leader)
    path = segment(scene.volume(broker), scene.topic, place.partition)
    with flipped(path):
        yield


@contextmanager
def leader_flipped(scene: Scene) -> Iterator[None]:
    """Flip a bit in a leader's segment; the leader must lose its leadership and repair the
    replica."""
    place = scene.chance.choice([one for one in scene.places() if one.leader is not None])
    assert place.leader is not None
    path = segment(scene.volume(place.leader), scene.topic, place.partition)
    with flipped(path):
        scene.wait_deposed(place.leader, {place.partition: place.leader_epoch})
        yield


def segment(volume: Path, topic: str, partition: int) -> Path:
    """The oldest segment file of a replica on a broker's volume."""
    found = sorted(volume.glob(f"**/{topic}-{partition}/*.log"))
    check_effect(f"a segment file of {topic}-{partition} to damage", found)
    return found[0]


@contextmanager
def flipped(path: Path) -> Iterator[None]:
    """Flip a bit in the middle of a segment; after the block, wait until the broker repaired it."""
    at = last_byte_of_a_batch(path)
    with path.open("r+b") as file:
        before = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([before[0] ^ 0x10]), at)
        check_effect("another byte in the file", os.pread(file.fileno(), 1, at) != before)
    yield

    def is_repaired() -> bool:
        with path.open("rb") as file:
            return os.pread(file.fileno(), 1, at) == before

    eventually(f"the flipped bit in {path} is repaired", is_repaired, HEAL_LIMIT_S, every_s=1)


def last_byte_of_a_batch(path: Path) -> int:
    """The position of the last byte of a complete batch in the middle of a segment.

    The batch's checksum covers this byte. The last batch of the file may still be incomplete.
    """
    content = path.read_bytes()
    position, found = 0, -1
    while found < len(content) // 2 and position + HEADER_BYTES <= len(content):
        position += read_header(content, position).size_bytes
        if position <= len(content):  # else the broker is still writing this batch
            found = position - 1
    check_effect("a complete batch to damage", found >= 0)
    return found
