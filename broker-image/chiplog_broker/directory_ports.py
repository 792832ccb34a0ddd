"""The directory of a broker process: `data` and `metadata` are its subdirectories."""

from pathlib import Path

from chiplog_broker.broker import Ports
from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.process import allowance
from chiplog_core.broker_shares import descriptor_shares


def directory_ports(option: str, directory: Path) -> Ports:
    """The machine's clock and randomness, and the disks in `directory`.

    Raises `CannotStart`, whose message names `option`.
    """
    try:
        limits = allowance()
        files_below = descriptor_shares(limits.descriptors).files_below
        data, metadata = (
            SystemDisk(directory / "data", files_below),
            SystemDisk(directory / "metadata", files_below),
        )
    except OSError as error:
        raise CannotStart(
            f"{option} {directory} cannot be used: {error.strerror}; choose a writable directory"
        ) from error
    return Ports(SystemClock(), SystemRng(), data, metadata, limits)
