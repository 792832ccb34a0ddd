"""The machine and the pod around the process."""

from pathlib import Path
from typing import Protocol

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Machine(Protocol):
    """What a broker asks of it, and tells it."""

    def boot_id(self) -> str:
        """Of the page cache that the data is seen through: another one after every start of the
        kernel, and in every pod, for which the volume may have been mounted again. Empty where it
        is not known.
        """

    def leave(self, termination_message: str) -> None:
        """Have the kubelet show this when the process has ended, if it can."""


class SystemMachine:
    """The kernel, and the file that the kubelet reads when the container has ended."""

    def __init__(self, termination_log: Path, pod_uid: str) -> None:
        self._termination_log = termination_log
        self._pod_uid = pod_uid

    def boot_id(self) -> str:
        try:
            return f"{BOOT_ID.read_text().strip()}/{self._pod_uid}"
        except OSError:
            return ""

    def leave(self, termination_message: str) -> None:
        try:
            # The kubelet makes the file: where it is missing, nobody reads it.
            if self._termination_log.exists():
                self._termination_log.write_text(termination_message)
        except OSError:
            return
