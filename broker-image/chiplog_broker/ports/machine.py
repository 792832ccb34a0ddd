"""The machine and the pod in which the process runs."""

from pathlib import Path
from typing import Protocol

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Machine(Protocol):
    """Information about the machine, and a message for its kubelet."""

    def boot_id(self) -> str:
        """An id that stays the same as long as the page cache has kept unsynced records: it changes
        with every boot of the kernel, and with every pod, because the volume may have been mounted
        again. Empty if it is not known."""

    def leave(self, termination_message: str) -> None:
        """Set the message that the kubelet shows after the process has ended, if possible."""


class SystemMachine:
    """The kernel, and the termination message file of the container."""

    def __init__(self, termination_log: Path, pod_uid: str) -> None:
        self._termination_log = termination_log
        self._pod_uid = pod_uid

    def boot_id(self) -> str:
        """The id of the kernel's boot and the uid of the pod; empty if it cannot be read."""
        try:
            return f"{BOOT_ID.read_text().strip()}/{self._pod_uid}"
        except OSError:
            return ""

    def leave(self, termination_message: str) -> None:
        """Write the message to the file that the kubelet reads after the process has ended. Errors
        are ignored."""
        try:
            # The kubelet creates the file. Without it nobody reads the message.
            if self._termination_log.exists():
                self._termination_log.write_text(termination_message)
        except OSError:
            return
