"""How far a replica would survive a power cut at this very moment.

The strictest outcome: of all that was not synced, of bytes and of names, nothing is kept.
"""

from typing import TYPE_CHECKING, Any, Final

from chiplog_broker.storage.names import LOG_SUFFIX, SWAP_SUFFIX, offset_in_name
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.errors import CorruptBatchError

if TYPE_CHECKING:
    from tests.storage.memory_disk import MemoryDisk

PIECE_BYTES: Final = 4096
NOT_READABLE: Final = 2**63 - 1
"""Of a replica all of whose bytes are on the device, and one of whose headers does not read."""


def durable_end(disk: "MemoryDisk", directory: str, log_start_offset: int) -> int:
    """Everything from the log start to here is on the device, under names that are.

    A batch whose bytes are the same on the device and in the page cache is there, even one that
    rotted: what became of it since is the business of other checkers.
    """
    root: Any = disk._root  # noqa: SLF001
    node: Any = root.names.get(directory)
    if node is None or root.durable.get(directory) is not node:
        return 0
    known = {id(one): name for name, one in node.durable.items()}
    end_offset = log_start_offset
    for name in sorted(node.names):
        if offset_in_name(name, LOG_SUFFIX) is None:
            continue
        file: Any = node.names[name]
        if known.get(id(file), "").removesuffix(SWAP_SUFFIX) != name:
            # Its records are only as safe as the name they were written under.
            return end_offset
        equal_bytes = alike(file.content, file.durable)
        if equal_bytes == len(file.content) and not is_readable(file.content):
            return NOT_READABLE  # a header rotted: how far the records go, nobody can say
        whole = read_up_to(file.content, len(file.content))
        safe = read_up_to(file.content, equal_bytes)
        end_offset = max(end_offset, safe)
        if safe != whole:
            return end_offset
    return end_offset


def alike(content: bytearray, durable: bytearray) -> int:
    """How many bytes of a file are on the device as they are read."""
    if durable.startswith(content):
        return len(content)
    begin = 0
    while content[begin : begin + PIECE_BYTES] == durable[begin : begin + PIECE_BYTES]:
        begin += PIECE_BYTES
    while begin < len(durable) and content[begin] == durable[begin]:
        begin += 1
    return begin


def is_readable(content: bytearray) -> bool:
    """Whether it is batch after batch to its end."""
    position = 0
    try:
        while position < len(content):
            position += read_header(content, position).size_bytes
    except CorruptBatchError:
        return False
    return position == len(content)


def read_up_to(content: bytearray, end: int) -> int:
    """The end of the last batch that is whole within so many bytes; -1 where there is none."""
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
