"""Small JSON files of the broker, with a checksum as their last line."""

import json
from typing import Any

from chiplog_broker.ports.checksum_line import with_checksum, without_checksum
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file


def read_json(disk: Disk, path: str) -> dict[str, Any]:
    """The stored object. Raises `FileNotFoundError`, and `ValueError` if the file is invalid."""
    value = json.loads(without_checksum(read_file(disk, path)))
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


async def write_json(disk: Disk, path: str, value: dict[str, Any]) -> None:
    """Replace the file by this object and its checksum line, durable on return. Raises
    `OSError`."""
    text = json.dumps(value, separators=(",", ":")) + "\n"
    await disk.replace(path, with_checksum(text.encode()))
