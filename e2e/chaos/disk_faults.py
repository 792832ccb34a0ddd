"""Disks that are full, slow, or that changed a bit."""

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
LEAST_BYTES = 4096
FILL_AGAIN = 20


@contextmanager
def leader_slow(scene: Scene) -> Iterator[None]:
    """A leader's disk takes 128 KiB a second."""
    broker = scene.some_leader()
    volume, group = scene.volume(broker), blkio_group(scene.processes(broker)[0].pid)
    device = volume.stat().st_dev
    where = f"{os.major(device)}:{os.minor(device)}"
    (group / LIMIT).write_text(f"{where} {SLOW_BYTES_PER_S}")
    try:
        took_s = synced_in_s(group, volume / "probe")
        check_effect("a slow write", took_s > PROBE_BYTES / SLOW_BYTES_PER_S / 2)
        yield
    finally:
        if group.exists():
            (group / LIMIT).write_text(f"{where} 0")


def blkio_group(pid: int) -> Path:
    """The cgroup in which a process's writes are counted and held back."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "blkio" in controllers.split(","):
            return BLKIO / path.lstrip("/")
    raise RuntimeError(f"process {pid} is in no blkio cgroup")


def synced_in_s(group: Path, probe: Path) -> float:
    """How long a program in this cgroup takes to write and sync a little."""
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
    """Somebody else's file takes all that is left on a leader's disk."""
    with filled(scene.volume(scene.some_leader())):
        yield


@contextmanager
def filled(volume: Path) -> Iterator[None]:
    """A volume on which nothing more can be written, within the block."""
    filler = volume / "filler"
    try:
        with filler.open("wb") as file:
            # Meanwhile a broker may give some back, as by cutting a file it had made too large.
            for _ in range(FILL_AGAIN):
                fill(file)
                if is_full(volume / "probe"):
                    break
        check_effect("a full disk", is_full(volume / "probe"))
        yield
    finally:
        filler.unlink(missing_ok=True)


def fill(file: BinaryIO) -> None:
    """Take every block there is, by halves."""
    usage = os.fstatvfs(file.fileno())
    at, size = os.fstat(file.fileno()).st_size, usage.f_bavail * usage.f_frsize
    while size >= LEAST_BYTES:
        try:
            os.posix_fallocate(file.fileno(), at, size)
            at += size
        except OSError:
            size //= 2


def is_full(probe: Path) -> bool:
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
    """Flip a bit in a leader's segment; it does not lead again until it is repaired."""
    place = scene.chance.choice([one for one in scene.places() if one.leader is not None])
    assert place.leader is not None
    path = segment(scene.volume(place.leader), scene.topic, place.partition)
    with flipped(path):
        scene.wait_deposed(place.leader, {place.partition: place.leader_epoch})
        yield


def segment(volume: Path, topic: str, partition: int) -> Path:
    """The oldest segment file of a replica."""
    found = sorted(volume.glob(f"**/{topic}-{partition}/*.log"))
    check_effect(f"true that {topic}-{partition} has a file to damage", found)
    return found[0]


@contextmanager
def flipped(path: Path) -> Iterator[None]:
    """Flip a bit in the middle of a file; at the end, wait until the file is as it was."""
    at = last_byte_of_a_batch(path)
    with path.open("r+b") as file:
        before = os.pread(file.fileno(), 1, at)
        os.pwrite(file.fileno(), bytes([before[0] ^ 0x10]), at)
        check_effect("another byte in the file", os.pread(file.fileno(), 1, at) != before)
    yield

    def is_repaired() -> bool:
        with path.open("rb") as file:
            return os.pread(file.fileno(), 1, at) == before

    eventually(f"{path} is as it was", is_repaired, HEAL_LIMIT_S, every_s=1)


def last_byte_of_a_batch(path: Path) -> int:
    """The position of the last byte of the batch in the middle of a segment; the checksum covers
    it."""
    content = path.read_bytes()
    position, found = 0, -1
    while found < len(content) // 2 and position + HEADER_BYTES <= len(content):
        position += read_header(content, position).size_bytes
        if position <= len(content):  # else it is being written
            found = position - 1
    check_effect("true that there is a batch to damage", found >= 0)
    return found
