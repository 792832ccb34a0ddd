"""OffsetCommit and OffsetFetch against kio: the same bytes, the same values, in every version."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from chiplog_wire.protocol import codec
from chiplog_wire.protocol import offset_messages as m
from chiplog_wire.protocol.apis import APIS, Api, ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.requests import Request, RequestHeader

Messages = Callable[[type[Any]], Iterator[Any]]
KioBytes = Callable[[Any], bytes]
Header = Callable[[Api, int], RequestHeader]

COMMIT, FETCH = APIS[ApiKey.OFFSET_COMMIT], APIS[ApiKey.OFFSET_FETCH]


def versions(api: Api) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("wire", range(api.min_served, api.max_version + 1))


def topic_ref(topic: Any) -> m.TopicRef:
    """Either a name or an id, as the version has it."""
    names = schema.shapes(type(topic))
    return m.TopicRef(topic.name) if "name" in names else m.TopicRef(None, topic.topic_id)


def field(message: Any, name: str, default: Any) -> Any:
    return getattr(message, name) if name in schema.shapes(type(message)) else default


def body_of(header: RequestHeader, message: object) -> bytes:
    (frame,) = codec.encode_response(header, message)
    assert isinstance(frame, bytes)
    return frame[8 + header.api.response_header_version(header.version) :]


@versions(COMMIT)
def test_commit_request(wire: int, messages: Messages, kio_bytes: KioBytes, header: Header) -> None:
    for theirs in messages(schema.request_class(ApiKey.OFFSET_COMMIT, wire)):
        request = Request(header(COMMIT, wire), memoryview(kio_bytes(theirs)))
        retention = field(theirs, "retention_time", timedelta(milliseconds=-1))
        assert codec.decode_request(request) == m.OffsetCommitRequest(
            theirs.group_id,
            theirs.generation_id_or_member_epoch,
            theirs.member_id,
            field(theirs, "group_instance_id", None),
            retention // timedelta(milliseconds=1),
            tuple(
                m.CommitTopic(
                    topic_ref(topic),
                    tuple(
                        m.CommitPartition(
                            one.partition_index,
                            one.committed_offset,
                            field(one, "committed_leader_epoch", -1),
                            one.committed_metadata,
                        )
                        for one in topic.partitions
                    ),
                )
                for topic in theirs.topics
            ),
        )


@versions(COMMIT)
def test_commit_response(
    wire: int, messages: Messages, kio_bytes: KioBytes, header: Header
) -> None:
    for theirs in messages(schema.response_class(ApiKey.OFFSET_COMMIT, wire)):
        ours = m.OffsetCommitResponse(
            tuple(
                m.CommittedTopic(
                    topic_ref(topic),
                    tuple((one.partition_index, one.error_code) for one in topic.partitions),
                )
                for topic in theirs.topics
            )
        )
        assert body_of(header(COMMIT, wire), ours) == kio_bytes(unthrottled(theirs))


@versions(FETCH)
def test_fetch_request(wire: int, messages: Messages, kio_bytes: KioBytes, header: Header) -> None:
    for theirs in messages(schema.request_class(ApiKey.OFFSET_FETCH, wire)):
        request = Request(header(FETCH, wire), memoryview(kio_bytes(theirs)))
        assert codec.decode_request(request) == m.OffsetFetchRequest(
            tuple(
                m.WantedGroup(
                    group.group_id,
                    None
                    if group.topics is None
                    else tuple(
                        m.WantedTopic(topic_ref(one), one.partition_indexes) for one in group.topics
                    ),
                    field(group, "member_id", None),
                    field(group, "member_epoch", -1),
                )
                for group in (theirs.groups if wire >= 8 else (theirs,))
            ),
            field(theirs, "require_stable", False),
        )


@versions(FETCH)
def test_fetch_response(wire: int, messages: Messages, kio_bytes: KioBytes, header: Header) -> None:
    for theirs in messages(schema.response_class(ApiKey.OFFSET_FETCH, wire)):
        ours = m.OffsetFetchResponse(
            tuple(found_group(group) for group in (theirs.groups if wire >= 8 else (theirs,)))
        )
        assert body_of(header(FETCH, wire), ours) == kio_bytes(unthrottled(theirs))


def found_group(group: Any) -> m.FoundGroup:
    return m.FoundGroup(
        field(group, "group_id", ""),
        tuple(
            m.FoundTopic(
                topic_ref(topic),
                tuple(
                    m.FoundPartition(
                        one.partition_index,
                        one.committed_offset,
                        field(one, "committed_leader_epoch", -1),
                        one.metadata,
                        one.error_code,
                    )
                    for one in topic.partitions
                ),
            )
            for topic in group.topics
        ),
        field(group, "error_code", ErrorCode.none),
    )


def unthrottled(theirs: Any) -> Any:
    """As we answer: nobody is held back."""
    values = {name: getattr(theirs, name) for name in schema.shapes(type(theirs))}
    if "throttle_time" in values:
        values["throttle_time"] = timedelta(0)
    return type(theirs)(**values)
