"""Small files of JSON that brokers write for themselves, with a checksum as their last line."""

import json

from chiplog_broker.ports.checksum_line import with_checksum, without_checksum
from chiplog_broker.ports.disk import Disk
from chiplog_broker.ports.whole_files import read_file


def read_json(disk: Disk, path: str) -> object:
    """What was written last. Raises `FileNotFoundError`, and `ValueError` for anything else."""
    content, _ = without_checksum(read_file(disk, path))
    value: object = json.loads(content)
    return value


async def write_json(disk: Disk, path: str, value: object) -> None:
    """Durable on return. Raises `OSError`."""
    text = json.dumps(value, separators=(",", ":")) + "\n"
    await disk.replace(path, with_checksum(text.encode()))
