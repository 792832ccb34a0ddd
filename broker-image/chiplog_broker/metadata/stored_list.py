"""A list that a standalone broker keeps in a file of its own, in the metadata directory: as JSON
with a checksum, replaced as a whole."""

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from chiplog_broker.metadata.standalone import read_fields
from chiplog_broker.ports.checksum_line import with_checksum
from chiplog_broker.ports.disk import Disk

T = TypeVar("T")


def encode_list(field: str, items: Iterable[object]) -> bytes:
    """The content of the file, with a checksum line. `items` are what JSON can represent."""
    text = json.dumps({field: list(items)}, separators=(",", ":")) + "\n"
    return with_checksum(text.encode())


def read_list(disk: Disk, file: str, field: str, decode: Callable[[Any], T]) -> list[T]:
    """The stored list; empty if there is no file. `decode` raises `LookupError`, `TypeError`,
    `AttributeError` or `ValueError` for an item that is damaged. Raises `ValueError` if the file
    cannot be read."""
    if not disk.exists(file):
        return []
    (stored,) = read_fields(disk, file, field)
    try:
        return [decode(one) for one in stored]  # type: ignore[attr-defined] # a TypeError if so
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"metadata/{file} was changed or is damaged ({error!r}): restore it from a backup"
        ) from error
