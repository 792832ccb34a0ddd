"""A broker's folder: its data beside its metadata."""

from pathlib import Path

from chiplog_broker.broker import Ports
from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.process import allowance


def folder_ports(option: str, folder: Path) -> Ports:
    """The real world, with the disks of this folder. Raises `CannotStart` naming the option."""
    try:
        data, metadata = SystemDisk(folder / "data"), SystemDisk(folder / "metadata")
    except OSError as error:
        raise CannotStart(
            f"{option} {folder} cannot be used: {error.strerror}; name a directory that can be "
            "written"
        ) from error
    return Ports(SystemClock(), SystemRng(), data, metadata, allowance())
