"""Decodes Fetch requests of versions 4-18.

A consumer may request thousands of partitions each time. They have a fixed size, so all partitions
of a topic are read as one block. If one of them has tagged fields, which no supported version
defines, they are read one by one.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.messages import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from chiplog_wire.protocol.reader import INT32, MAX_ELEMENTS, Reader

# max wait, min bytes, max bytes, isolation level [, session id, session epoch]
_LIMITS_4: Final = struct.Struct(">iiib")
_LIMITS_7: Final = struct.Struct(">iiibii")
_REPLICA_STATE: Final = struct.Struct(">iq")

# Partitions by version, in the order of the wire:
_PARTITION_4: Final = struct.Struct(">iqi")  # partition, fetch offset, max bytes
_PARTITION_5: Final = struct.Struct(">iqqi")  # ... log start offset before max bytes
_PARTITION_9: Final = struct.Struct(">iiqqi")  # ... leader epoch after partition (KIP-320)
_PARTITION_12: Final = struct.Struct(">iiqiqi")  # ... last fetched epoch after fetch offset
_PARTITION_12_AND_TAGS: Final = struct.Struct(">iiqiqib")

_SESSIONS_FROM: Final = 7  # KIP-227
_RACK_FROM: Final = 11  # KIP-392
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13  # KIP-516
_REPLICA_STATE_FROM: Final = 15  # KIP-903

_TAG_CLUSTER_ID: Final = 0
_TAG_REPLICA_STATE: Final = 1


class _Limits(NamedTuple):
    """The fields of fixed size at the start of a request, with defaults for older versions."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int = 0
    session_epoch: int = -1


def decode_request(
    version: int, body: memoryview, max_elements: int = MAX_ELEMENTS
) -> FetchRequest:
    """A Fetch request with at most `max_elements` array elements. Raises `ProtocolViolation` or
    `MALFORMED`."""
    reader = Reader(body, compact=version >= _FLEXIBLE_FROM, allowance=[max_elements])
    replica_id = reader.int32() if version < _REPLICA_STATE_FROM else -1
    limits = _Limits(*reader.unpack(_LIMITS_7 if version >= _SESSIONS_FROM else _LIMITS_4))
    topics = [_read_topic(reader, version) for _ in range(reader.count())]
    forgotten = []
    if version >= _SESSIONS_FROM:
        forgotten = [_read_forgotten_topic(reader, version) for _ in range(reader.count())]
    rack_id = reader.string() if version >= _RACK_FROM else ""
    tags = reader.tagged_fields() if reader.compact else {}
    replica_epoch = -1
    if version >= _REPLICA_STATE_FROM and _TAG_REPLICA_STATE in tags:
        replica_id, replica_epoch = _read_replica_state(tags[_TAG_REPLICA_STATE])
    return FetchRequest(
        replica_id=replica_id,
        replica_epoch=replica_epoch,
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation_level,
        session_id=limits.session_id,
        session_epoch=limits.session_epoch,
        topics=topics,
        forgotten_topics=forgotten,
        rack_id=rack_id,
        cluster_id=_read_cluster_id(tags.get(_TAG_CLUSTER_ID)),
    )


def _read_topic(reader: Reader, version: int) -> FetchTopic:
    name, topic_id = _read_topic_key(reader, version)
    partitions = _read_partitions(reader, version, reader.count())
    if reader.compact:
        reader.skip_tagged_fields()
    return FetchTopic(name, topic_id, partitions)


def _read_topic_key(reader: Reader, version: int) -> tuple[str | None, UUID | None]:
    """The topic's name or its id; the other one is None."""
    if version >= _TOPIC_IDS_FROM:
        return None, reader.uuid()
    return reader.string(), None


def _read_partitions(reader: Reader, version: int, count: int) -> list[FetchPartition]:
    """The partitions of a topic; fields that a version does not have are -1."""
    if version >= _FLEXIBLE_FROM:
        return _read_flexible_partitions(reader, count)
    if version >= 9:
        return [
            FetchPartition(partition, epoch, offset, -1, log_start, max_bytes)
            for partition, epoch, offset, log_start, max_bytes in _block(
                reader, _PARTITION_9, count
            )
        ]
    if version >= 5:
        return [
            FetchPartition(partition, -1, offset, -1, log_start, max_bytes)
            for partition, offset, log_start, max_bytes in _block(reader, _PARTITION_5, count)
        ]
    return [
        FetchPartition(partition, -1, offset, -1, -1, max_bytes)
        for partition, offset, max_bytes in _block(reader, _PARTITION_4, count)
    ]


def _read_flexible_partitions(reader: Reader, count: int) -> list[FetchPartition]:
    """The partitions of a topic from version 12 on, as one block if they have no tagged fields."""
    start = reader.position
    layout = _PARTITION_12_AND_TAGS
    # Without tagged fields, the last byte of each partition is 0, which is their number. If one of
    # these bytes is not 0, the partitions have no fixed size, and are read one by one.
    tag_counts = reader.buffer[start + layout.size - 1 : start + count * layout.size : layout.size]
    if not any(tag_counts):
        return [FetchPartition._make(row[:6]) for row in _block(reader, layout, count)]
    partitions = []
    for _ in range(count):
        partitions.append(FetchPartition._make(reader.unpack(_PARTITION_12)))
        reader.skip_tagged_fields()
    return partitions


def _block(reader: Reader, layout: struct.Struct, count: int) -> Sequence[tuple[Any, ...]]:
    """The next `count` structures of fixed size, each as a tuple of its fields."""
    start = reader.position
    end = start + count * layout.size
    if end > len(reader.buffer):
        raise ProtocolViolation("array beyond the end of the message")
    reader.position = end
    return list(layout.iter_unpack(reader.buffer[start:end]))


def _read_forgotten_topic(reader: Reader, version: int) -> ForgottenTopic:
    name, topic_id = _read_topic_key(reader, version)
    partitions = [row[0] for row in _block(reader, INT32, reader.count())]
    if reader.compact:
        reader.skip_tagged_fields()
    return ForgottenTopic(name, topic_id, partitions)


def _read_replica_state(reader: Reader) -> tuple[int, int]:
    """The follower's replica id and replica epoch (KIP-903)."""
    replica_id, replica_epoch = reader.unpack(_REPLICA_STATE)
    reader.skip_tagged_fields()
    return replica_id, replica_epoch


def _read_cluster_id(reader: Reader | None) -> str | None:
    if reader is None:
        return None
    return reader.nullable_string()
