"""The follower's side of Fetch: encodes requests and decodes answers.

Records are not copied: they are views into the frame. Only versions from 15 on, in which the
request contains the follower's session (KIP-903) and topics have ids.
"""

import struct
from typing import Final

from chiplog_wire.protocol import writer
from chiplog_wire.protocol.codec.fetch_response import TAG_MAY_HAVE_GAPS
from chiplog_wire.protocol.errors import ProtocolViolation
from chiplog_wire.protocol.messages import (
    AbortedTransaction,
    EpochEndOffset,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from chiplog_wire.protocol.reader import BROKERS_MAX_ELEMENTS, MALFORMED, Reader

LOWEST_VERSION: Final = 15
HIGHEST_VERSION: Final = 18

# max wait, min bytes, max bytes, isolation level, session id, session epoch
_LIMITS: Final = struct.Struct(">iiibii")
# partition, leader epoch, fetch offset, last fetched epoch, log start offset, max bytes, no tags
_PARTITION: Final = struct.Struct(">iiqiqib")
_REPLICA_STATE: Final = struct.Struct(">iqb")
_NO_REPLICA: Final = (-1, -1)
_TAG_CLUSTER_ID: Final = 0
_TAG_REPLICA_STATE: Final = 1

# throttle time, error code, session id
_TOP: Final = struct.Struct(">ihi")
# partition, error code, high watermark, last stable offset, log start offset
_ANSWER: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END_OFFSET: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_TAG_DIVERGING_EPOCH: Final = 0
_TAG_CURRENT_LEADER: Final = 1
_TAG_NODE_ENDPOINTS: Final = 0
_ENDPOINTS_FROM: Final = 16


def encode_request(version: int, request: FetchRequest) -> bytes:
    """The body of a request; its fields 2 to 7 are in the order in which they are encoded."""
    assert LOWEST_VERSION <= version <= HIGHEST_VERSION, f"Fetch {version} is not for followers"
    parts = [_LIMITS.pack(*request[2:8]), writer.count(len(request.topics), compact=True)]
    for topic in request.topics:
        _add_topic(parts, topic)
    parts.append(writer.count(len(request.forgotten_topics), compact=True))
    for forgotten in request.forgotten_topics:
        _add_forgotten(parts, forgotten)
    parts.append(writer.compact_string(request.rack_id))
    tags = []
    if request.cluster_id is not None:
        tags.append((_TAG_CLUSTER_ID, writer.compact_string(request.cluster_id)))
    replica = request.replica_id, request.replica_epoch
    if replica != _NO_REPLICA:
        tags.append((_TAG_REPLICA_STATE, _REPLICA_STATE.pack(*replica, 0)))
    parts.append(writer.tagged_fields(tags))
    return b"".join(parts)


def _add_topic(parts: list[bytes], topic: FetchTopic) -> None:
    parts += (writer.uuid(topic.topic_id), writer.count(len(topic.partitions), compact=True))
    parts += [_PARTITION.pack(*partition, 0) for partition in topic.partitions]
    parts.append(writer.NO_TAGS)


def _add_forgotten(parts: list[bytes], topic: ForgottenTopic) -> None:
    parts += (writer.uuid(topic.topic_id), writer.count(len(topic.partitions), compact=True))
    parts += [writer.INT32.pack(partition) for partition in topic.partitions]
    parts.append(writer.NO_TAGS)


def decode_response(version: int, body: memoryview) -> FetchResponse:
    """An answer; its records are views into the frame. Raises `ProtocolViolation`."""
    try:
        return _decode(version, Reader(body, compact=True, allowance=[BROKERS_MAX_ELEMENTS]))
    except MALFORMED as error:
        raise ProtocolViolation("malformed Fetch response") from error


def _decode(version: int, reader: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = reader.unpack(_TOP)
    topics = [_read_topic(reader) for _ in range(reader.count())]
    tags = reader.tagged_fields()
    endpoints: list[NodeEndpoint] = []
    if version >= _ENDPOINTS_FROM and _TAG_NODE_ENDPOINTS in tags:
        nested = tags[_TAG_NODE_ENDPOINTS]
        endpoints = [_read_endpoint(nested) for _ in range(nested.count())]
        nested.finish()
    return FetchResponse(topics, throttle_time_ms, error_code, session_id, endpoints)


def _read_topic(reader: Reader) -> FetchTopicResponse:
    topic_id = reader.uuid()
    partitions = [_read_partition(reader) for _ in range(reader.count())]
    reader.skip_tagged_fields()
    return FetchTopicResponse(None, topic_id, partitions)


def _read_partition(reader: Reader) -> FetchPartitionResponse:
    index, error_code, high_watermark, last_stable, log_start = reader.unpack(_ANSWER)
    count = reader.nullable_count()
    aborted = None if count < 0 else [_read_aborted(reader) for _ in range(count)]
    preferred = reader.int32()
    records = reader.nullable_view()
    diverging, leader, may_have_gaps = _read_partition_tags(reader)
    return FetchPartitionResponse(
        index,
        error_code,
        high_watermark,
        last_stable,
        log_start,
        aborted,
        preferred,
        b"" if records is None else records,
        diverging,
        leader,
        may_have_gaps,
    )


def _read_aborted(reader: Reader) -> AbortedTransaction:
    aborted = AbortedTransaction._make(reader.unpack(_ABORTED))
    reader.skip_tagged_fields()
    return aborted


def _read_partition_tags(
    reader: Reader,
) -> tuple[EpochEndOffset | None, LeaderIdAndEpoch | None, bool]:
    """The diverging epoch, the current leader, and whether the records may have gaps."""
    if reader.buffer[reader.position] == 0:
        # No tagged fields, as nearly always.
        reader.position += 1
        return None, None, False
    tags = reader.tagged_fields()
    diverging = leader = None
    if _TAG_DIVERGING_EPOCH in tags:
        diverging = EpochEndOffset._make(_structure(tags[_TAG_DIVERGING_EPOCH], _EPOCH_END_OFFSET))
    if _TAG_CURRENT_LEADER in tags:
        leader = LeaderIdAndEpoch._make(_structure(tags[_TAG_CURRENT_LEADER], _LEADER))
    return diverging, leader, TAG_MAY_HAVE_GAPS in tags


def _structure(reader: Reader, layout: struct.Struct) -> tuple[int, ...]:
    """The complete value of a tagged field: fixed fields, then unknown tagged fields."""
    values = reader.unpack(layout)
    reader.skip_tagged_fields()
    reader.finish()
    return values


def _read_endpoint(reader: Reader) -> NodeEndpoint:
    node_id, host, port = reader.int32(), reader.string(), reader.int32()
    endpoint = NodeEndpoint(node_id, host, port, reader.nullable_string())
    reader.skip_tagged_fields()
    return endpoint
