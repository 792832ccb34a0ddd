"""Decodes Metadata requests and encodes their answers, versions 0-13.

Every client sends this request when it connects, and all of them again when a leader changes. A
topic is encoded once for each version and cached in its `MetadataTopic`. So the answer to the next
client only joins encoded pieces.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from chiplog_wire.protocol import writer
from chiplog_wire.protocol.messages import (
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
    NodeEndpoint,
)
from chiplog_wire.protocol.reader import Reader

# error code, partition, leader [, leader epoch]
_PARTITION_0: Final = struct.Struct(">hii")
_PARTITION_7: Final = struct.Struct(">hiii")

_NULL_TOPICS_FROM: Final = 1  # before, an empty array asks for all topics
_CLUSTER_ID_FROM: Final = 2  # KIP-78
_THROTTLE_FROM: Final = 3
_AUTO_CREATION_FROM: Final = 4  # KAFKA-5291
_OFFLINE_REPLICAS_FROM: Final = 5  # KIP-112
_LEADER_EPOCH_FROM: Final = 7  # KIP-320
_TOPIC_OPERATIONS_FROM: Final = 8  # KIP-430
_CLUSTER_OPERATIONS: Final = range(8, 11)  # KIP-700 moved them to DescribeCluster
_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 10  # KIP-516
_NULL_NAMES_FROM: Final = 12
_TOP_ERROR_FROM: Final = 13  # KIP-1102


def decode_request(version: int, body: memoryview) -> MetadataRequest:
    """A Metadata request. Raises `ProtocolViolation` or `MALFORMED`."""
    reader = Reader(body, compact=version >= _FLEXIBLE_FROM)
    topics = _read_topics(reader, version)
    allow_auto_creation = reader.boolean() if version >= _AUTO_CREATION_FROM else True
    cluster_operations = reader.boolean() if version in _CLUSTER_OPERATIONS else False
    topic_operations = reader.boolean() if version >= _TOPIC_OPERATIONS_FROM else False
    if reader.compact:
        reader.skip_tagged_fields()
    return MetadataRequest(topics, allow_auto_creation, cluster_operations, topic_operations)


def _read_topics(reader: Reader, version: int) -> list[MetadataRequestTopic] | None:
    """The requested topics; None for all topics."""
    if version < _NULL_TOPICS_FROM:
        return [MetadataRequestTopic(None, reader.string()) for _ in range(reader.count())] or None
    count = reader.nullable_count()
    if count < 0:
        return None
    return [_read_topic(reader, version) for _ in range(count)]


def _read_topic(reader: Reader, version: int) -> MetadataRequestTopic:
    if version < _TOPIC_IDS_FROM:
        topic = MetadataRequestTopic(None, reader.string())
    else:
        topic = MetadataRequestTopic(reader.uuid(), reader.nullable_string())
    if reader.compact:
        reader.skip_tagged_fields()
    return topic


def encode_response(version: int, response: MetadataResponse) -> bytes:
    """The body of the answer, from cached pieces where possible."""
    return b"".join(_response_parts(version, response))


def _response_parts(version: int, response: MetadataResponse) -> Iterator[bytes]:
    flexible = version >= _FLEXIBLE_FROM
    if version >= _THROTTLE_FROM:
        yield writer.INT32.pack(response.throttle_time_ms)
    yield writer.count(len(response.brokers), compact=flexible)
    for broker in response.brokers:
        yield _broker(version, broker)
    if version >= _CLUSTER_ID_FROM:
        yield _nullable_string(version, response.cluster_id)
    if version >= 1:
        yield writer.INT32.pack(response.controller_id)
    yield writer.count(len(response.topics), compact=flexible)
    for topic in response.topics:
        yield topic.encoded.get(version) or _encode_topic(version, topic)
    yield _response_end(version, response)


def _response_end(version: int, response: MetadataResponse) -> bytes:
    """The fields after the topics."""
    end = b""
    if version in _CLUSTER_OPERATIONS:
        end += writer.INT32.pack(response.cluster_authorized_operations)
    if version >= _TOP_ERROR_FROM:
        end += writer.INT16.pack(response.error_code)
    return end + writer.NO_TAGS if version >= _FLEXIBLE_FROM else end


def _broker(version: int, broker: NodeEndpoint) -> bytes:
    parts = (
        writer.INT32.pack(broker.node_id),
        _string(version, broker.host),
        writer.INT32.pack(broker.port),
        _nullable_string(version, broker.rack) if version >= 1 else b"",
        writer.NO_TAGS if version >= _FLEXIBLE_FROM else b"",
    )
    return b"".join(parts)


def _encode_topic(version: int, topic: MetadataTopic) -> bytes:
    """Encode a topic and cache the result in it."""
    encoded = b"".join(_topic_parts(version, topic))
    topic.encoded[version] = encoded
    return encoded


def _topic_parts(version: int, topic: MetadataTopic) -> Iterator[bytes]:
    """The fields of a topic, encoded."""
    flexible = version >= _FLEXIBLE_FROM
    yield writer.INT16.pack(topic.error_code)
    if version >= _NULL_NAMES_FROM:
        yield _nullable_string(version, topic.name)
    else:
        # Names cannot be null here; versions 10 and 11 have an empty one for an unknown id.
        yield _string(version, topic.name or "")
    if version >= _TOPIC_IDS_FROM:
        yield writer.uuid(topic.topic_id)
    if version >= 1:
        yield b"\x01" if topic.is_internal else b"\x00"
    yield writer.count(len(topic.partitions), compact=flexible)
    yield _partitions(version, topic.partitions)
    if version >= _TOPIC_OPERATIONS_FROM:
        yield writer.INT32.pack(topic.authorized_operations)
    if flexible:
        yield writer.NO_TAGS


def _partitions(version: int, partitions: Sequence[MetadataPartition]) -> bytes:
    """The partitions of a topic, encoded one after the other."""
    layout = _PARTITION_7 if version >= _LEADER_EPOCH_FROM else _PARTITION_0
    parts: list[bytes] = []
    for partition in partitions:
        # The first fields of `MetadataPartition` are in the order in which they are encoded.
        fixed = partition[:4] if layout is _PARTITION_7 else partition[:3]
        nodes = (
            tuple(partition.replica_nodes),
            tuple(partition.isr_nodes),
            tuple(partition.offline_replicas),
        )
        parts += (layout.pack(*fixed), _nodes(version, *nodes))
    return b"".join(parts)


Nodes: TypeAlias = tuple[int, ...]


@lru_cache(maxsize=4096)
def _nodes(version: int, replicas: Nodes, isr: Nodes, offline: Nodes) -> bytes:
    """The lists of brokers at the end of a partition. Cached, because thousands of partitions have
    the same few lists."""
    flexible = version >= _FLEXIBLE_FROM
    lists = [replicas, isr]
    if version >= _OFFLINE_REPLICAS_FROM:
        lists.append(offline)
    parts = [
        writer.count(len(nodes), compact=flexible) + struct.pack(f">{len(nodes)}i", *nodes)
        for nodes in lists
    ]
    if flexible:
        parts.append(writer.NO_TAGS)
    return b"".join(parts)


def _string(version: int, value: str) -> bytes:
    return writer.compact_string(value) if version >= _FLEXIBLE_FROM else writer.string(value)


def _nullable_string(version: int, value: str | None) -> bytes:
    if version >= _FLEXIBLE_FROM:
        return writer.compact_nullable_string(value)
    return writer.nullable_string(value)
