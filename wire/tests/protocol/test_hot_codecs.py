"""The hand-written codecs against kio: the same bytes, the same values, in every version."""

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol import messages as m
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.codec.api_versions import FEATURES
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.requests import Request, RequestHeader

Messages = Callable[[type[Any]], Iterator[Any]]
KioBytes = Callable[[Any], bytes]
Header = Callable[[Api, int], RequestHeader]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def versions(key: ApiKey) -> pytest.MarkDecorator:
    api = APIS[key]
    return pytest.mark.parametrize("wire", range(api.min_served, api.max_version + 1))


def milliseconds(delta: timedelta) -> int:
    return delta // timedelta(milliseconds=1)


def unless_default(value: Any, make: Callable[..., Any]) -> Any:
    """kio writes a tagged structure unless it equals its default; ours is None then."""
    if value is None or value == type(value)():
        return None
    return make(*(getattr(value, name) for name in schema.shapes(type(value))))


def body_of(chunks: list[m.Chunk], header: RequestHeader) -> bytes:
    """The response without length and header, which are checked on the way."""
    frame = b"".join(bytes(chunk) for chunk in chunks if not hasattr(chunk, "size_bytes"))
    flexible = header.api.response_header_version(header.version) == 1
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    assert frame[4:8] == (7).to_bytes(4)
    assert not flexible or frame[8] == 0
    return frame[9 if flexible else 8 :]


# Produce


@versions(ApiKey.PRODUCE)
def test_produce_request(
    wire: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    for theirs in messages(schema.request_class(ApiKey.PRODUCE, wire)):
        request = Request(header(APIS[ApiKey.PRODUCE], wire), memoryview(kio_bytes(theirs)))
        assert codec.decode_request(request) == m.ProduceRequest(
            theirs.transactional_id,
            theirs.acks,
            milliseconds(theirs.timeout),
            [
                m.ProduceTopic(
                    topic.name,
                    [m.ProducePartition(p.index, p.records) for p in topic.partition_data],
                )
                for topic in theirs.topic_data
            ],
        )


@versions(ApiKey.PRODUCE)
def test_produce_response(
    wire: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    to = header(APIS[ApiKey.PRODUCE], wire)
    for theirs in messages(schema.response_class(ApiKey.PRODUCE, wire)):
        ours = m.ProduceResponse(
            [
                m.ProduceTopicResponse(
                    topic.name, [produce_partition(p) for p in topic.partition_responses]
                )
                for topic in theirs.responses
            ],
            milliseconds(theirs.throttle_time),
            node_endpoints(theirs),
        )
        assert body_of(codec.encode_response(to, ours), to) == kio_bytes(theirs)


def produce_partition(theirs: Any) -> m.ProducePartitionResponse:
    appended = theirs.log_append_time
    return m.ProducePartitionResponse(
        theirs.index,
        theirs.error_code,
        theirs.base_offset,
        -1 if appended is None else milliseconds(appended - EPOCH),
        getattr(theirs, "log_start_offset", -1),
        tuple(
            m.RecordError(e.batch_index, e.batch_index_error_message)
            for e in getattr(theirs, "record_errors", ())
        ),
        getattr(theirs, "error_message", None),
        unless_default(getattr(theirs, "current_leader", None), m.LeaderIdAndEpoch),
    )


def node_endpoints(theirs: Any) -> list[m.NodeEndpoint]:
    return [
        m.NodeEndpoint(e.node_id, e.host, e.port, e.rack)
        for e in getattr(theirs, "node_endpoints", ())
    ]


def test_old_produce_versions_leave_out_what_they_lack(header: Header) -> None:
    leader = m.LeaderIdAndEpoch(1, 2)
    with_leader = m.ProducePartitionResponse(0, 6, current_leader=leader)
    without = m.ProducePartitionResponse(0, 6)
    to = header(APIS[ApiKey.PRODUCE], 9)
    assert codec.encode_response(to, produce_one(with_leader)) == codec.encode_response(
        to, produce_one(without)
    )


def produce_one(partition: m.ProducePartitionResponse) -> m.ProduceResponse:
    return m.ProduceResponse([m.ProduceTopicResponse("t", [partition])])


# Fetch


@versions(ApiKey.FETCH)
def test_fetch_request(wire: int, messages: Messages, kio_bytes: KioBytes, header: Header) -> None:
    for theirs in messages(schema.request_class(ApiKey.FETCH, wire)):
        request = Request(header(APIS[ApiKey.FETCH], wire), memoryview(kio_bytes(theirs)))
        state: Any = getattr(theirs, "replica_state", theirs)
        assert codec.decode_request(request) == m.FetchRequest(
            replica_id=state.replica_id,
            replica_epoch=getattr(state, "replica_epoch", -1),
            max_wait_ms=milliseconds(theirs.max_wait),
            min_bytes=theirs.min_bytes,
            max_bytes=theirs.max_bytes,
            isolation_level=theirs.isolation_level,
            session_id=getattr(theirs, "session_id", 0),
            session_epoch=getattr(theirs, "session_epoch", -1),
            topics=[
                m.FetchTopic(*topic_key(topic), [fetch_partition(p) for p in topic.partitions])
                for topic in theirs.topics
            ],
            forgotten_topics=[
                m.ForgottenTopic(*topic_key(topic), list(topic.partitions))
                for topic in getattr(theirs, "forgotten_topics_data", ())
            ],
            rack_id=getattr(theirs, "rack_id", ""),
            cluster_id=getattr(theirs, "cluster_id", None),
        )


def topic_key(theirs: Any) -> tuple[Any, Any]:
    return getattr(theirs, "topic", None), getattr(theirs, "topic_id", None)


def fetch_partition(theirs: Any) -> m.FetchPartition:
    return m.FetchPartition(
        theirs.partition,
        getattr(theirs, "current_leader_epoch", -1),
        theirs.fetch_offset,
        getattr(theirs, "last_fetched_epoch", -1),
        getattr(theirs, "log_start_offset", -1),
        theirs.partition_max_bytes,
    )


@versions(ApiKey.FETCH)
def test_fetch_response(wire: int, messages: Messages, kio_bytes: KioBytes, header: Header) -> None:
    to = header(APIS[ApiKey.FETCH], wire)
    for theirs in messages(schema.response_class(ApiKey.FETCH, wire)):
        without_null = bytes_for_null_records(theirs)
        ours = m.FetchResponse(
            [
                m.FetchTopicResponse(*topic_key(topic), [fetched(p) for p in topic.partitions])
                for topic in without_null.responses
            ],
            milliseconds(theirs.throttle_time),
            getattr(theirs, "error_code", 0),
            getattr(theirs, "session_id", 0),
            node_endpoints(theirs),
        )
        assert body_of(codec.encode_response(to, ours), to) == kio_bytes(without_null)


def bytes_for_null_records(theirs: Any) -> Any:
    """Kafka allows null records in an answer but sends empty ones, and so do we."""
    for topic in theirs.responses:
        for partition in topic.partitions:
            if partition.records is None:
                object.__setattr__(partition, "records", b"")
    return theirs


def fetched(theirs: Any) -> m.FetchPartitionResponse:
    aborted = theirs.aborted_transactions
    return m.FetchPartitionResponse(
        theirs.partition_index,
        theirs.error_code,
        theirs.high_watermark,
        theirs.last_stable_offset,
        getattr(theirs, "log_start_offset", -1),
        aborted and [m.AbortedTransaction(a.producer_id, a.first_offset) for a in aborted],
        getattr(theirs, "preferred_read_replica", -1),
        theirs.records,
        unless_default(getattr(theirs, "diverging_epoch", None), m.EpochEndOffset),
        unless_default(getattr(theirs, "current_leader", None), m.LeaderIdAndEpoch),
    )


class Slice:
    """Record data that was never read."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes


@versions(ApiKey.FETCH)
def test_fetch_response_counts_records_it_has_not_seen(wire: int, header: Header) -> None:
    to = header(APIS[ApiKey.FETCH], wire)

    def response(*records: m.Records) -> m.FetchResponse:
        partitions = [
            m.FetchPartitionResponse(index, 0, 9, records=data)
            for index, data in enumerate(records)
        ]
        return m.FetchResponse([m.FetchTopicResponse("t", None, partitions)])

    data = (b"a" * 61, b"", bytearray(b"b" * 300), memoryview(b"c" * 20_000))
    slices = [Slice(len(piece)) for piece in data]
    promised = codec.encode_response(to, response(*slices))
    sizes = {id(piece): bytes(content) for piece, content in zip(slices, data, strict=True)}
    sent = b"".join(sizes.get(id(chunk)) or bytes(chunk) for chunk in promised)  # type: ignore[arg-type]
    in_memory = codec.encode_response(to, response(*data))
    assert sent == b"".join(bytes(chunk) for chunk in in_memory)  # type: ignore[arg-type]
    # Record data is neither copied nor joined with what is around it.
    assert sum(chunk is data[3] for chunk in in_memory) == 1
    assert len(promised) == 7


# Metadata


@versions(ApiKey.METADATA)
def test_metadata_request(
    wire: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    for theirs in messages(schema.request_class(ApiKey.METADATA, wire)):
        request = Request(header(APIS[ApiKey.METADATA], wire), memoryview(kio_bytes(theirs)))
        topics = theirs.topics
        if topics is not None:
            topics = [m.MetadataRequestTopic(getattr(t, "topic_id", None), t.name) for t in topics]
        if wire == 0 and not topics:
            topics = None  # no list was the way to ask for all
        assert codec.decode_request(request) == m.MetadataRequest(
            topics,
            getattr(theirs, "allow_auto_topic_creation", True),
            getattr(theirs, "include_cluster_authorized_operations", False),
            getattr(theirs, "include_topic_authorized_operations", False),
        )


@versions(ApiKey.METADATA)
def test_metadata_response(
    wire: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    to = header(APIS[ApiKey.METADATA], wire)
    unknown = m.AUTHORIZED_OPERATIONS_UNKNOWN
    for theirs in messages(schema.response_class(ApiKey.METADATA, wire)):
        ours = m.MetadataResponse(
            [
                m.NodeEndpoint(b.node_id, b.host, b.port, getattr(b, "rack", None))
                for b in theirs.brokers
            ],
            getattr(theirs, "cluster_id", None),
            getattr(theirs, "controller_id", -1),
            [metadata_topic(topic) for topic in theirs.topics],
            milliseconds(getattr(theirs, "throttle_time", timedelta(0))),
            getattr(theirs, "cluster_authorized_operations", unknown),
            getattr(theirs, "error_code", 0),
        )
        assert body_of(codec.encode_response(to, ours), to) == kio_bytes(theirs)
        # A second time from what the topics remember.
        assert body_of(codec.encode_response(to, ours), to) == kio_bytes(theirs)


def metadata_topic(theirs: Any) -> m.MetadataTopic:
    return m.MetadataTopic(
        theirs.error_code,
        theirs.name,
        getattr(theirs, "topic_id", None),
        [
            m.MetadataPartition(
                p.error_code,
                p.partition_index,
                p.leader_id,
                getattr(p, "leader_epoch", -1),
                p.replica_nodes,
                p.isr_nodes,
                getattr(p, "offline_replicas", ()),
            )
            for p in theirs.partitions
        ],
        is_internal=getattr(theirs, "is_internal", False),
        authorized_operations=getattr(
            theirs, "topic_authorized_operations", m.AUTHORIZED_OPERATIONS_UNKNOWN
        ),
    )


def test_versions_without_null_names_get_an_empty_one(header: Header) -> None:
    topics = [m.MetadataTopic(ErrorCode.unknown_topic_id, None, None)]
    to = header(APIS[ApiKey.METADATA], 10)
    body = body_of(codec.encode_response(to, m.MetadataResponse([], None, -1, topics)), to)
    assert struct.pack(">hb", ErrorCode.unknown_topic_id, 1) in body


# ApiVersions


@versions(ApiKey.API_VERSIONS)
def test_api_versions_request(
    wire: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    for theirs in messages(schema.request_class(ApiKey.API_VERSIONS, wire)):
        request = Request(header(APIS[ApiKey.API_VERSIONS], wire), memoryview(kio_bytes(theirs)))
        assert codec.decode_request(request) == m.ApiVersionsRequest(
            getattr(theirs, "client_software_name", ""),
            getattr(theirs, "client_software_version", ""),
        )


@versions(ApiKey.API_VERSIONS)
def test_api_versions_response(wire: int, kio_bytes: KioBytes, header: Header) -> None:
    newest = schema.response_class(ApiKey.API_VERSIONS, wire)
    entry = schema.shapes(newest)["api_keys"].element
    assert not isinstance(entry, str)
    values = schema.defaults(newest) | {
        "error_code": ErrorCode.none,
        "api_keys": tuple(
            entry(api_key=int(api.key), min_version=api.min_version, max_version=api.max_version)
            for api in APIS.values()
        ),
    }
    if "throttle_time" in values:
        values["throttle_time"] = timedelta(milliseconds=5)
    if "supported_features" in values:
        supported = schema.element(newest, "supported_features")
        finalized = schema.element(newest, "finalized_features")
        values["supported_features"] = tuple(
            supported(name=name, min_version=1, max_version=level)
            for name, level in FEATURES.items()
        )
        values["finalized_features_epoch"] = 1
        values["finalized_features"] = tuple(
            finalized(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        )
    theirs = newest(**values)
    to = header(APIS[ApiKey.API_VERSIONS], wire)
    ours = m.ApiVersionsResponse(throttle_time_ms=5)
    assert body_of(codec.encode_response(to, ours), to) == kio_bytes(theirs)
