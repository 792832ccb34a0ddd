"""A broker's folder: its data beside its metadata."""

from pathlib import Path

from chiplog_broker.broker import Ports
from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.ports.rng import SystemRng
from chiplog_broker.ports.system_disk import SystemDisk
from chiplog_broker.process import allowance
from chiplog_core.broker_shares import descriptor_shares


def folder_ports(option: str, folder: Path) -> Ports:
    """The real world, with the disks of this folder. Raises `CannotStart` naming the option."""
    try:
        may_take = allowance()
        below = descriptor_shares(may_take.descriptors).files_below
        data, metadata = SystemDisk(folder / "data", below), SystemDisk(folder / "metadata", below)
    except OSError as error:
        raise CannotStart(
            f"{option} {folder} cannot be used: {error.strerror}; choose a writable directory"
        ) from error
    return Ports(SystemClock(), SystemRng(), data, metadata, may_take)
