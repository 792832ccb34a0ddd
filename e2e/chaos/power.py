"""A cluster in which a power failure of all brokers at once can be simulated.

Operator and brokers are processes of this machine (`e2e.loopback`), and each broker has its own
disk (`e2e.clients.crash_disk`, or one that can fail: `e2e.disks.file_systems`). For a power failure
all brokers are killed, and each disk loses what was not synced. The brokers then start with another
boot id, as after a reboot.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from e2e.kafka.members import ask_all, wait_whole
from e2e.loopback.cluster import SIZE, LoopbackCluster

BOOT_ID = "/proc/sys/kernel/random/boot_id"
# The machine is not rebooted: instead another file is mounted over the kernel's boot id.
SHOW_IT = f'mount --bind "$0" {BOOT_ID} && exec "$@"'
# In a mount namespace of its own. "slave" passes on what is unmounted on the machine: otherwise a
# broker would keep a file system busy that is unmounted outside.
UNDER_ANOTHER_KERNEL = ("unshare", "--mount", "--propagation", "slave", "sh", "-c", SHOW_IT)
BROKERS = range(1, SIZE + 1)


class Disk(AbstractContextManager["Disk"], Protocol):
    """A disk that is mounted at `path` while its `with` block runs."""

    path: Path

    def cut_power(self) -> None:
        """Discard all data that was not synced.

        The processes that used the disk must have ended.
        """


D = TypeVar("D", bound=Disk)


class PoweredCluster(LoopbackCluster, Generic[D]):
    """A `LoopbackCluster` whose power can be cut; needs root, for mounts."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None, disk: Callable[[int, Path], D]
    ) -> None:
        """`disk` makes a broker's disk, from the broker id and a directory for it."""
        super().__init__(directory, settings)
        self.disks = {number: disk(number, directory / f"disk-{number}") for number in BROKERS}
        self.boot_id = directory / "boot-id"

    def volume(self, broker_id: int) -> Path:
        return self.disks[broker_id].path / "volume"

    def volumes(self) -> dict[int, Path]:
        """Broker id -> directory of its data."""
        return {number: self.volume(number) for number in BROKERS}

    def around(self, broker_id: int) -> Sequence[str | Path]:
        """The command that runs the broker's command with the boot id of `boot`."""
        return (*UNDER_ANOTHER_KERNEL, self.boot_id)

    def start(self) -> None:
        """Mount the disks and start the cluster; at its end, the disks are unmounted last."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.boot()
        for disk in self.disks.values():
            self.running.enter_context(disk)
        super().start()

    def boot(self) -> None:
        """Write a new boot id, which all brokers started from now on read."""
        self.boot_id.write_text(f"{uuid.uuid4()}\n")

    def cut_power(self) -> None:
        """Kill all brokers and discard what their disks had not synced; returns when it is done."""
        # All at once first, without waiting for each: no broker may notice that others are gone.
        for child in self.brokers.values():
            child.send_kill()
        for number in BROKERS:
            self.kill(number)
        for disk in self.disks.values():
            disk.cut_power()

    def power_again(self) -> None:
        """Start all brokers after a power failure, without waiting until they are ready."""
        self.boot()
        for number in BROKERS:
            self.start_again(number)

    def power_of_one(self, broker_id: int) -> None:
        """Start only this broker after a power failure; `power_of_the_others` starts the others."""
        self.boot()
        self.start_again(broker_id)

    def power_of_the_others(self) -> None:
        """Start all brokers that do not run."""
        for number in BROKERS:
            if not self.brokers[number].runs:
                self.start_again(number)

    def wait_whole(self) -> None:
        """Wait until all brokers run and all replicas are in sync."""
        wait_whole(self, SIZE, SIZE)

    def is_led(self, topic: str) -> bool:
        """Whether, for every broker, each partition of a topic has a leader, whatever its ISR
        is."""
        try:
            return all(min(one.leaders[topic].values()) > 0 for one in ask_all(self))
        except (OSError, KeyError):
            return False
