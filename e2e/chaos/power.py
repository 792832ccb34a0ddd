"""A cluster whose power fails everywhere at once, by crash images of all its disks.

Operator and brokers are processes of this machine (`e2e.loopback`), and each broker has a disk
of its own (`e2e.clients.crash_disk`, or one that can fail: `e2e.disks.file_systems`). All brokers
are killed, each disk is put back to what was synced, and what starts again finds another boot id:
that of a kernel that has just started.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from e2e.kafka.members import ask_all, wait_whole
from e2e.loopback.cluster import SIZE, LoopbackCluster

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The kernel of this machine goes on; its processes are shown another name of it.
SHOW_IT = f'mount --bind "$0" {BOOT_ID} && exec "$@"'
# It hears of what is unmounted here, so that it keeps no file system that is gone here.
UNDER_ANOTHER_KERNEL = ("unshare", "--mount", "--propagation", "slave", "sh", "-c", SHOW_IT)
BROKERS = range(1, SIZE + 1)


class Disk(AbstractContextManager["Disk"], Protocol):
    """Mounted at `path` inside the `with` block."""

    path: Path

    def cut_power(self) -> None:
        """Forget everything that was not synced. The processes that used it must have ended."""


D = TypeVar("D", bound=Disk)


class PoweredCluster(LoopbackCluster, Generic[D]):
    """As a `LoopbackCluster`, with `cut_power`; needs root."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None, disk: Callable[[int, Path], D]
    ) -> None:
        """`disk` makes that of a broker, by its id and a directory."""
        super().__init__(directory, settings)
        self.disks = {number: disk(number, directory / f"disk-{number}") for number in BROKERS}
        self.boot_id = directory / "boot-id"

    def volume(self, broker_id: int) -> Path:
        return self.disks[broker_id].path / "volume"

    def volumes(self) -> dict[int, Path]:
        """All of them, by broker."""
        return {number: self.volume(number) for number in BROKERS}

    def around(self, broker_id: int) -> Sequence[str | Path]:
        return (*UNDER_ANOTHER_KERNEL, self.boot_id)

    def start(self) -> None:
        """Start the cluster on disks that are unmounted after all else has ended."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.boot()
        for disk in self.disks.values():
            self.running.enter_context(disk)
        super().start()

    def boot(self) -> None:
        """The kernel that starts next has another name than all before it."""
        self.boot_id.write_text(f"{uuid.uuid4()}\n")

    def cut_power(self) -> None:
        """Cut the power of all brokers; returns when none runs and what was not synced is gone."""
        for child in self.brokers.values():
            child.send_kill()
        for number in BROKERS:
            self.kill(number)
        for disk in self.disks.values():
            disk.cut_power()

    def power_again(self) -> None:
        """Start all brokers, without waiting for them."""
        self.boot()
        for number in BROKERS:
            self.start_again(number)

    def power_of_one(self, broker_id: int) -> None:
        """Start one broker, as the first; the others are for `power_of_the_others`."""
        self.boot()
        self.start_again(broker_id)

    def power_of_the_others(self) -> None:
        for number in BROKERS:
            if not self.brokers[number].runs:
                self.start_again(number)

    def wait_whole(self) -> None:
        wait_whole(self, SIZE, SIZE)

    def is_led(self, topic: str) -> bool:
        """Whether every partition of a topic has a leader, in sync with others or not."""
        try:
            return all(min(one.leaders[topic].values()) > 0 for one in ask_all(self))
        except (OSError, KeyError):
            return False
