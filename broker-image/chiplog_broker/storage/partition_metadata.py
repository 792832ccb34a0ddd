"""`partition.metadata`: the topic id of a replica's directory.

A topic of the same name may be created later, but never one with the same id. Without this file it
is unknown which topic the records belong to.
"""

from uuid import UUID

from chiplog_core.ids import Uuid

VERSION = 0


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: {VERSION}\ntopic_id: {Uuid(topic_id.bytes)}".encode()


def decode_partition_metadata(data: bytes) -> UUID:
    """The topic id. Raises `ValueError` unless the file is complete and of version 0."""
    lines = data.decode("ascii", "strict").splitlines()
    if len(lines) != 2 or lines[0] != f"version: {VERSION}":
        raise ValueError("not a partition.metadata file of version 0")
    name, _, text = lines[1].partition(": ")
    if name != "topic_id":
        raise ValueError("no topic id")
    return UUID(bytes=Uuid.from_text(text).value)
