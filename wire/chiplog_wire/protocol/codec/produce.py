"""Decodes Produce requests and encodes their answers, versions 3-12.

The records of a partition are a view into the frame. They are checked and patched there, and
written to the log without a copy. Most of the answer is one `struct` for each partition.
"""

import struct
from collections.abc import Sequence
from typing import Final

from chiplog_wire.protocol import writer
from chiplog_wire.protocol.messages import (
    LeaderIdAndEpoch,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordError,
)
from chiplog_wire.protocol.reader import Reader

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
# partition, error code, base offset, log append time [, log start offset]
_PARTITION_3: Final = struct.Struct(">ihqq")
_PARTITION_5: Final = struct.Struct(">ihqqq")
# The usual flexible request: no transactional id, one topic, one partition. Its fixed parts:
# transactional id, acks, timeout, topics, length of the name
_SINGLE_TOPIC: Final = struct.Struct(">bhiBB")
# partitions, partition
_SINGLE_PARTITION: Final = struct.Struct(">Bi")
# No tagged fields: of the partition, of the topic, of the request.
_SINGLE_END: Final = b"\x00\x00\x00"
# Compact counts and lengths are encoded with 1 added: 2 means one element.
_ONE: Final = 2
# The largest encoded length that takes one byte.
_ONE_BYTE_MAX: Final = 127
_LEADER: Final = struct.Struct(">iib")

_LOG_START_OFFSET_FROM: Final = 5
_RECORD_ERRORS_FROM: Final = 8  # KIP-467
_FLEXIBLE_FROM: Final = 9
_CURRENT_LEADER_FROM: Final = 10  # KIP-951

# No record errors, no message [, no tagged fields].
_NO_ERRORS: Final = struct.pack(">ih", 0, -1)
_NO_ERRORS_FLEXIBLE: Final = b"\x01\x00\x00"


def decode_request(version: int, body: memoryview) -> ProduceRequest:
    """A Produce request; its records are views. Raises `ProtocolViolation` or `MALFORMED`."""
    flexible = version >= _FLEXIBLE_FROM
    single = _read_single(body) if flexible else None
    if single is not None:
        return single
    reader = Reader(body, compact=flexible)
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.unpack(_ACKS_TIMEOUT)
    topics = [_read_topic(reader, flexible) for _ in range(reader.count())]
    if flexible:
        reader.skip_tagged_fields()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _read_single(body: memoryview) -> ProduceRequest | None:
    """A flexible request with records for one partition, which is the usual case and decoded faster
    than others; None if the request is another one."""
    transaction, acks, timeout_ms, topics, name_size = _SINGLE_TOPIC.unpack_from(body)
    if transaction or topics != _ONE or not _ONE <= name_size <= _ONE_BYTE_MAX:
        return None
    name_end = _SINGLE_TOPIC.size + name_size - 1
    if name_end + _SINGLE_PARTITION.size > len(body):
        return None
    partitions, partition = _SINGLE_PARTITION.unpack_from(body, name_end)
    if partitions != _ONE:
        return None
    reader = Reader(body, compact=True)
    reader.position = name_end + _SINGLE_PARTITION.size
    records = reader.nullable_view()
    if bytes(body[reader.position : reader.position + 3]) != _SINGLE_END:
        return None
    name = str(body[_SINGLE_TOPIC.size : name_end], "utf-8")
    topic = ProduceTopic(name, [ProducePartition(partition, records)])
    return ProduceRequest(None, acks, timeout_ms, [topic])


def _read_topic(reader: Reader, flexible: bool) -> ProduceTopic:
    name = reader.string()
    partitions = []
    for _ in range(reader.count()):
        partitions.append(ProducePartition(reader.int32(), reader.nullable_view()))
        if flexible:
            reader.skip_tagged_fields()
    if flexible:
        reader.skip_tagged_fields()
    return ProduceTopic(name, partitions)


def encode_response(version: int, response: ProduceResponse) -> bytes:
    """The body of the answer."""
    if version >= _FLEXIBLE_FROM:
        return _encode_flexible(version, response)
    layout = _PARTITION_5 if version >= _LOG_START_OFFSET_FROM else _PARTITION_3
    parts = [writer.INT32.pack(len(response.topics))]
    for topic in response.topics:
        parts += (writer.string(topic.name), writer.INT32.pack(len(topic.partitions)))
        for partition in topic.partitions:
            # The first fields of the value are in the order in which they are encoded.
            parts.append(layout.pack(*partition[: 5 if layout is _PARTITION_5 else 4]))
            if version >= _RECORD_ERRORS_FROM:
                parts.append(_errors(partition))
    parts.append(writer.INT32.pack(response.throttle_time_ms))
    return b"".join(parts)


def _errors(partition: ProducePartitionResponse) -> bytes:
    """The record errors and the error message of a partition, before flexible versions."""
    if not partition.record_errors and partition.error_message is None:
        return _NO_ERRORS
    parts = [writer.INT32.pack(len(partition.record_errors))]
    for error in partition.record_errors:
        parts += (writer.INT32.pack(error.batch_index), writer.nullable_string(error.message))
    parts.append(writer.nullable_string(partition.error_message))
    return b"".join(parts)


def _encode_flexible(version: int, response: ProduceResponse) -> bytes:
    """The body of an answer from version 9 on."""
    parts = [writer.uvarint(len(response.topics) + 1)]
    for topic in response.topics:
        parts += (writer.compact_string(topic.name), writer.uvarint(len(topic.partitions) + 1))
        for partition in topic.partitions:
            parts.append(_PARTITION_5.pack(*partition[:5]))
            if partition[5:] == ((), None, None):  # no errors, no message, no leader
                parts.append(_NO_ERRORS_FLEXIBLE)
            else:
                parts.append(_flexible_errors(version, partition))
        parts.append(writer.NO_TAGS)
    parts.append(writer.INT32.pack(response.throttle_time_ms))
    if version >= _CURRENT_LEADER_FROM and response.node_endpoints:
        parts.append(writer.tagged_fields([(0, writer.node_endpoints(response.node_endpoints))]))
    else:
        parts.append(writer.NO_TAGS)
    return b"".join(parts)


def _flexible_errors(version: int, partition: ProducePartitionResponse) -> bytes:
    """The record errors, the error message and the tagged fields of a partition."""
    return b"".join(
        (
            _record_errors(partition.record_errors),
            writer.compact_nullable_string(partition.error_message),
            _current_leader(version, partition.current_leader),
        )
    )


def _record_errors(errors: Sequence[RecordError]) -> bytes:
    parts = [writer.uvarint(len(errors) + 1)]
    for error in errors:
        parts += (
            writer.INT32.pack(error.batch_index),
            writer.compact_nullable_string(error.message),
            writer.NO_TAGS,
        )
    return b"".join(parts)


def _current_leader(version: int, leader: LeaderIdAndEpoch | None) -> bytes:
    """The tagged fields of a partition: the current leader, from version 10 on."""
    if leader is None or version < _CURRENT_LEADER_FROM:
        return writer.NO_TAGS
    return writer.tagged_fields([(0, _LEADER.pack(leader.leader_id, leader.leader_epoch, 0))])
