"""Encodes Fetch responses of versions 4-18, without copying records.

The response is a list of chunks: encoded bytes, and in between the records as they are, bytes or a
`RecordSource`, of which only the size is known. Sizes are sent before the records are read. So the
sender may use `sendfile` for a source, but must then send exactly as many bytes.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID

from chiplog_wire.protocol import writer
from chiplog_wire.protocol.messages import (
    AbortedTransaction,
    Chunk,
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
    Records,
)
from chiplog_wire.protocol.requests import RequestHeader

# throttle time [, error code, session id]
_TOP_7: Final = struct.Struct(">ihi")
# partition, error code, high watermark, last stable offset [, log start offset]
_PARTITION_4: Final = struct.Struct(">ihqq")
_PARTITION_5: Final = struct.Struct(">ihqqq")
# The same without aborted transactions, up to the size of the records:
_COMMITTED_4: Final = struct.Struct(">ihqqii")
_COMMITTED_5: Final = struct.Struct(">ihqqqii")
_COMMITTED_11: Final = struct.Struct(">ihqqqiii")  # ... preferred read replica before the size
_COMMITTED_12: Final = struct.Struct(">ihqqqbi")  # ... and the size not of a fixed length
_ABORTED: Final = struct.Struct(">qq")
_ABORTED_FLEXIBLE: Final = struct.Struct(">qqb")
_EPOCH_END_OFFSET: Final = struct.Struct(">iqb")
_LEADER: Final = struct.Struct(">iib")

_LOG_START_OFFSET_FROM: Final = 5
_SESSIONS_FROM: Final = 7  # KIP-227
_PREFERRED_REPLICA_FROM: Final = 11  # KIP-392
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13  # KIP-516
_NODE_ENDPOINTS_FROM: Final = 16  # KIP-951

_IN_MEMORY: Final = (bytes, bytearray, memoryview)
_NO_RECORDS_NO_TAGS: Final = b"\x01\x00"


TAG_MAY_HAVE_GAPS: Final = 10_000
"""Not Kafka's tag, but only for our followers: the field is present and empty if compaction may
have removed records. Its number is far from Kafka's tags, and readers skip unknown tags."""


class _Chunks:
    """Collects the chunks of a response: `parts` of encoded bytes are joined, records are not
    copied."""

    __slots__ = ("_chunks", "_size_bytes", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._chunks: list[Chunk] = []
        self._size_bytes = 0

    def records(self, records: Records, size_bytes: int) -> None:
        """Add records after all parts so far."""
        if size_bytes:
            self._join()
            self._chunks.append(records)
            self._size_bytes += size_bytes

    def finish(self, header: RequestHeader) -> list[Chunk]:
        """The chunks of the whole frame, with its header."""
        self._join()
        first = self._chunks[0]
        assert isinstance(first, bytes)  # a body begins with its throttle time
        self._chunks[0] = writer.frame_header(header, self._size_bytes) + first
        return self._chunks

    def _join(self) -> None:
        """Make one chunk of the parts so far."""
        joined = b"".join(self.parts)
        self.parts.clear()
        self._chunks.append(joined)
        self._size_bytes += len(joined)


def encode_response(header: RequestHeader, response: FetchResponse) -> list[Chunk]:
    """The whole frame, header included, as pieces to send in order."""
    version = header.version
    flexible = version >= _FLEXIBLE_FROM
    chunks = _Chunks()
    chunks.parts += (
        _top(version, response),
        writer.count(len(response.topics), compact=flexible),
    )
    for topic in response.topics:
        chunks.parts += (
            _topic_key(version, topic.name, topic.topic_id),
            writer.count(len(topic.partitions), compact=flexible),
        )
        if flexible:
            _add_flexible_partitions(chunks, topic)
        else:
            _add_partitions(chunks, version, topic)
    if flexible:
        chunks.parts.append(_response_tags(version, response))
    return chunks.finish(header)


def records_size(records: Records) -> int:
    """The number of bytes that records, or another chunk of a response, take when they are sent."""
    if isinstance(records, _IN_MEMORY):
        return len(records)
    return records.size_bytes


def _top(version: int, response: FetchResponse) -> bytes:
    """The fields before the topics."""
    if version >= _SESSIONS_FROM:
        return _TOP_7.pack(response.throttle_time_ms, response.error_code, response.session_id)
    return writer.INT32.pack(response.throttle_time_ms)


def _topic_key(version: int, name: str | None, topic_id: UUID | None) -> bytes:
    if version >= _TOPIC_IDS_FROM:
        return writer.uuid(topic_id)
    assert name is not None  # an answer has names of topics if the request has
    return writer.compact_string(name) if version >= _FLEXIBLE_FROM else writer.string(name)


def _add_partitions(chunks: _Chunks, version: int, topic: FetchTopicResponse) -> None:
    """Add the partitions of a topic before version 12."""
    for partition in topic.partitions:
        size_bytes = records_size(partition.records)
        if partition.aborted_transactions is None:
            chunks.parts.append(_committed(version, partition, size_bytes))
        else:
            chunks.parts += _with_aborted(
                version, partition, partition.aborted_transactions, size_bytes
            )
        chunks.records(partition.records, size_bytes)


# The first fields of `FetchPartitionResponse` are in the order in which they are encoded.


def _committed(version: int, partition: FetchPartitionResponse, size_bytes: int) -> bytes:
    """A partition without a list of aborted transactions (-1 is a null list), up to the size of its
    records. The first fields of `partition` are in the order in which they are encoded."""
    if version >= _PREFERRED_REPLICA_FROM:
        preferred = partition.preferred_read_replica
        return _COMMITTED_11.pack(*partition[:5], -1, preferred, size_bytes)
    if version >= _LOG_START_OFFSET_FROM:
        return _COMMITTED_5.pack(*partition[:5], -1, size_bytes)
    return _COMMITTED_4.pack(*partition[:4], -1, size_bytes)


def _with_aborted(
    version: int,
    partition: FetchPartitionResponse,
    aborted: Sequence[AbortedTransaction],
    size_bytes: int,
) -> Iterator[bytes]:
    """A partition with a list of aborted transactions, up to the size of its records."""
    if version >= _LOG_START_OFFSET_FROM:
        yield _PARTITION_5.pack(*partition[:5])
    else:
        yield _PARTITION_4.pack(*partition[:4])
    yield writer.INT32.pack(len(aborted))
    for transaction in aborted:
        yield _ABORTED.pack(*transaction)
    if version >= _PREFERRED_REPLICA_FROM:
        yield writer.INT32.pack(partition.preferred_read_replica)
    yield writer.INT32.pack(size_bytes)


def _add_flexible_partitions(chunks: _Chunks, topic: FetchTopicResponse) -> None:
    """Add the partitions of a topic from version 12 on."""
    parts = chunks.parts
    for partition in topic.partitions:
        if partition.aborted_transactions is None:
            parts.append(_COMMITTED_12.pack(*partition[:5], 0, partition.preferred_read_replica))
        else:
            parts += (
                _PARTITION_5.pack(*partition[:5]),
                _flexible_aborted(partition.aborted_transactions),
                writer.INT32.pack(partition.preferred_read_replica),
            )
        # In a large fetch most partitions have neither records nor tagged fields.
        if partition[7:] == (b"", None, None, False):  # the fields from `records` on
            parts.append(_NO_RECORDS_NO_TAGS)
            continue
        size_bytes = records_size(partition.records)
        parts.append(writer.uvarint(size_bytes + 1))
        chunks.records(partition.records, size_bytes)
        parts.append(_partition_tags(partition))
    parts.append(writer.NO_TAGS)


def _flexible_aborted(transactions: Sequence[AbortedTransaction]) -> bytes:
    packed = [_ABORTED_FLEXIBLE.pack(*transaction, 0) for transaction in transactions]
    return writer.uvarint(len(packed) + 1) + b"".join(packed)


def _partition_tags(partition: FetchPartitionResponse) -> bytes:
    """The tagged fields of a partition, in ascending order of their tags."""
    if (
        partition.diverging_epoch is None
        and partition.current_leader is None
        and not partition.may_have_gaps
    ):
        return writer.NO_TAGS
    fields = []
    if partition.diverging_epoch is not None:
        fields.append((0, _EPOCH_END_OFFSET.pack(*partition.diverging_epoch, 0)))
    if partition.current_leader is not None:
        fields.append((1, _LEADER.pack(*partition.current_leader, 0)))
    if partition.may_have_gaps:
        fields.append((TAG_MAY_HAVE_GAPS, b""))
    return writer.tagged_fields(fields)


def _response_tags(version: int, response: FetchResponse) -> bytes:
    if version < _NODE_ENDPOINTS_FROM or not response.node_endpoints:
        return writer.NO_TAGS
    return writer.tagged_fields([(0, writer.node_endpoints(response.node_endpoints))])
