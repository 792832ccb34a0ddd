"""Up to which offset a replica would survive a power cut now.

It assumes the worst outcome: nothing that is not synced is kept, neither bytes nor file names.
"""

from typing import TYPE_CHECKING, Any, Final

from chiplog_broker.storage.names import LOG_SUFFIX, SWAP_SUFFIX, offset_in_name
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.errors import CorruptBatchError

if TYPE_CHECKING:
    from tests.storage.memory_disk import MemoryDisk

PIECE_BYTES: Final = 4096
NOT_READABLE: Final = 2**63 - 1
"""Stands for a replica with all bytes synced, but a damaged batch header: its end is unknown."""


def durable_end(disk: "MemoryDisk", directory: str, log_start_offset: int) -> int:
    """The offset up to which all records are on the device, in files whose names are, too.

    A batch counts if its bytes on the device and in the page cache are equal, even if they were
    damaged: other checkers look for damage. 0 if the directory's name is not synced. If a file is
    synced but has a damaged header, it is `NOT_READABLE`, which is above all offsets: so no checker
    reports that too little was synced.
    """
    root: Any = disk._root  # noqa: SLF001
    node: Any = root.names.get(directory)
    if node is None or root.durable.get(directory) is not node:
        return 0
    synced_names = {id(one): name for name, one in node.durable.items()}
    end_offset = log_start_offset
    for name in sorted(node.names):
        if offset_in_name(name, LOG_SUFFIX) is None:
            continue
        file: Any = node.names[name]
        if synced_names.get(id(file), "").removesuffix(SWAP_SUFFIX) != name:
            # A power cut would lose the file's name, and so its records.
            return end_offset
        equal_bytes = alike(file.content, file.durable)
        if equal_bytes == len(file.content) and not is_readable(file.content):
            return NOT_READABLE  # a damaged header: the end of the records cannot be found
        file_end = read_up_to(file.content, len(file.content))
        synced_end = read_up_to(file.content, equal_bytes)
        end_offset = max(end_offset, synced_end)
        if synced_end != file_end:
            return end_offset
    return end_offset


def alike(content: bytearray, durable: bytearray) -> int:
    """Length of the common prefix of a file's page cache (`content`) and the device (`durable`)."""
    if durable.startswith(content):
        return len(content)
    begin = 0
    while content[begin : begin + PIECE_BYTES] == durable[begin : begin + PIECE_BYTES]:
        begin += PIECE_BYTES
    while begin < len(durable) and content[begin] == durable[begin]:
        begin += 1
    return begin


def is_readable(content: bytearray) -> bool:
    """Whether the file consists of complete batches with valid headers."""
    position = 0
    try:
        while position < len(content):
            position += read_header(content, position).size_bytes
    except CorruptBatchError:
        return False
    return position == len(content)


def read_up_to(content: bytearray, end: int) -> int:
    """The offset after the last batch that is complete in the first `end` bytes; -1 for none."""
    found, position = -1, 0
    try:
        while position < end:
            header = read_header(content, position)
            position += header.size_bytes
            if position <= end:
                found = header.last_offset + 1
    except CorruptBatchError:
        pass
    return found
