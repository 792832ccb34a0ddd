"""Reads small files as a whole."""

from chiplog_broker.ports.disk import Disk


def read_file(disk: Disk, path: str) -> bytes:
    """The content of a file. Raises `FileNotFoundError`."""
    file = disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def file_size(disk: Disk, path: str) -> int:
    """The size of a file in bytes. Raises `FileNotFoundError`."""
    file = disk.open(path)
    try:
        return file.size()
    finally:
        file.close()
