"""OffsetCommit, TxnOffsetCommit, OffsetFetch: kio's layouts, and the types of `offset_messages`."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.codec.generic import read_exactly, write_exactly
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.offset_messages import (
    IDS_FROM_VERSION,
    NO_GENERATION,
    NO_LEADER_EPOCH,
    RETENTION_OF_BROKER,
    CommitPartition,
    CommittedTopic,
    CommitTopic,
    FoundGroup,
    FoundTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TopicRef,
    TxnOffsetCommitRequest,
    WantedGroup,
    WantedTopic,
)

MANY_GROUPS_FROM_VERSION = 8
THROTTLE_FROM_VERSION = 3
GROUP_ERRORS_FROM_VERSION = 2
LEADER_EPOCHS_FROM_VERSION = 5
LOADING_FROM_VERSION = 2
"""From here on producers retry a TxnOffsetCommit after COORDINATOR_LOAD_IN_PROGRESS."""
LOADING = ErrorCode.coordinator_load_in_progress
NOT_AVAILABLE = ErrorCode.coordinator_not_available


def decode_commit(version: int, body: memoryview) -> OffsetCommitRequest:
    """An OffsetCommit request. Raises `ProtocolViolation` or `MALFORMED`."""
    request = read_exactly(ApiKey.OFFSET_COMMIT, version, body)
    retention = getattr(request, "retention_time", None)
    return OffsetCommitRequest(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        getattr(request, "group_instance_id", None),
        RETENTION_OF_BROKER if retention is None else retention // timedelta(milliseconds=1),
        _topics_to_commit(request),
    )


def _topics_to_commit(request: Any) -> tuple[CommitTopic, ...]:
    """The offsets in an OffsetCommit or TxnOffsetCommit."""
    return tuple(
        CommitTopic(
            topic_ref(topic),
            tuple(
                CommitPartition(
                    partition.partition_index,
                    partition.committed_offset,
                    getattr(partition, "committed_leader_epoch", NO_LEADER_EPOCH),
                    partition.committed_metadata,
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )


def encode_commit(version: int, response: OffsetCommitResponse) -> bytes:
    """The body of an OffsetCommit answer."""
    response_class = schema.response_class(ApiKey.OFFSET_COMMIT, version)
    fields: dict[str, Any] = {"topics": _committed_topics(version, response_class, response)}
    if version >= THROTTLE_FROM_VERSION:
        fields["throttle_time"] = timedelta(milliseconds=response.throttle_time_ms)
    return write_exactly(response_class(**fields))


def _committed_topics(
    version: int, response_class: type[Any], response: OffsetCommitResponse
) -> tuple[Any, ...]:
    """The results in kio's dataclasses of `response_class`. `version` is that of OffsetCommit by
    which topics have names or ids."""
    topics = schema.element(response_class, "topics")
    partitions = schema.element(topics, "partitions")
    return tuple(
        topics(
            **topic_fields(version, topic.topic),
            partitions=tuple(
                partitions(partition_index=index, error_code=code)
                for index, code in topic.partitions
            ),
        )
        for topic in response.topics
    )


def decode_transactional_commit(version: int, body: memoryview) -> TxnOffsetCommitRequest:
    """A TxnOffsetCommit request. Raises `ProtocolViolation` or `MALFORMED`."""
    request = read_exactly(ApiKey.TXN_OFFSET_COMMIT, version, body)
    commit = OffsetCommitRequest(
        request.group_id,
        getattr(request, "generation_id", NO_GENERATION),
        getattr(request, "member_id", ""),
        getattr(request, "group_instance_id", None),
        RETENTION_OF_BROKER,
        _topics_to_commit(request),
    )
    return TxnOffsetCommitRequest(
        request.transactional_id, request.producer_id, request.producer_epoch, commit
    )


def encode_transactional_commit(version: int, response: OffsetCommitResponse) -> bytes:
    """The body of a TxnOffsetCommit answer, whose topics have names in every version."""
    if version < LOADING_FROM_VERSION:
        response = response._replace(topics=tuple(map(_without_loading, response.topics)))
    response_class = schema.response_class(ApiKey.TXN_OFFSET_COMMIT, version)
    topics = _committed_topics(0, response_class, response)
    throttle_time = timedelta(milliseconds=response.throttle_time_ms)
    return write_exactly(response_class(topics=topics, throttle_time=throttle_time))


def _without_loading(topic: CommittedTopic) -> CommittedTopic:
    """The results for clients that do not retry after COORDINATOR_LOAD_IN_PROGRESS."""
    return topic._replace(
        partitions=tuple(
            (index, NOT_AVAILABLE if code is LOADING else code) for index, code in topic.partitions
        )
    )


def decode_fetch(version: int, body: memoryview) -> OffsetFetchRequest:
    """An OffsetFetch request. Raises `ProtocolViolation` or `MALFORMED`."""
    request = read_exactly(ApiKey.OFFSET_FETCH, version, body)
    groups = request.groups if version >= MANY_GROUPS_FROM_VERSION else (request,)
    return OffsetFetchRequest(
        tuple(
            WantedGroup(
                group.group_id,
                None
                if group.topics is None
                else tuple(WantedTopic(topic_ref(t), t.partition_indexes) for t in group.topics),
                getattr(group, "member_id", None),
                getattr(group, "member_epoch", NO_GENERATION),
            )
            for group in groups
        ),
        getattr(request, "require_stable", False),
    )


def encode_fetch(version: int, response: OffsetFetchResponse) -> bytes:
    """The body of an OffsetFetch answer."""
    response_class = schema.response_class(ApiKey.OFFSET_FETCH, version)
    fields: dict[str, Any] = {}
    if version >= THROTTLE_FROM_VERSION:
        fields["throttle_time"] = timedelta(milliseconds=response.throttle_time_ms)
    if version >= MANY_GROUPS_FROM_VERSION:
        groups = schema.element(response_class, "groups")
        fields["groups"] = tuple(
            groups(
                group_id=group.group_id,
                topics=_found_topics(version, groups, group),
                error_code=group.error_code,
            )
            for group in response.groups
        )
    else:
        (group,) = response.groups
        fields["topics"] = _found_topics(version, response_class, group)
        if version >= GROUP_ERRORS_FROM_VERSION:
            fields["error_code"] = group.error_code
    return write_exactly(response_class(**fields))


def _found_topics(version: int, parent: type[Any], group: FoundGroup) -> tuple[Any, ...]:
    """The offsets of a group in kio's dataclasses. `parent` is the dataclass with the field
    `topics`: a group, or before version 8 the answer itself."""
    topics = schema.element(parent, "topics")
    partitions = schema.element(topics, "partitions")

    def found(topic: FoundTopic) -> Any:
        values = []
        for partition in topic.partitions:
            fields: dict[str, Any] = {
                "partition_index": partition.number,
                "committed_offset": partition.offset,
                "metadata": partition.metadata,
                "error_code": partition.error_code,
            }
            if version >= LEADER_EPOCHS_FROM_VERSION:
                fields["committed_leader_epoch"] = partition.leader_epoch
            values.append(partitions(**fields))
        return topics(**topic_fields(version, topic.topic), partitions=tuple(values))

    return tuple(found(topic) for topic in group.topics)


def topic_ref(topic: Any) -> TopicRef:
    """The topic that a kio structure names, by name or by id."""
    return TopicRef(getattr(topic, "name", None), getattr(topic, "topic_id", None))


def topic_fields(version: int, topic: TopicRef) -> dict[str, Any]:
    """The fields with the name or the id of a topic in this version."""
    if version >= IDS_FROM_VERSION:
        return {"topic_id": topic.topic_id}
    return {"name": topic.name}


DECODERS: Final[Mapping[ApiKey, Callable[[int, memoryview], object]]] = {
    ApiKey.OFFSET_COMMIT: decode_commit,
    ApiKey.TXN_OFFSET_COMMIT: decode_transactional_commit,
    ApiKey.OFFSET_FETCH: decode_fetch,
}
ENCODERS: Final[Mapping[ApiKey, Callable[[int, Any], bytes]]] = {
    ApiKey.OFFSET_COMMIT: encode_commit,
    ApiKey.TXN_OFFSET_COMMIT: encode_transactional_commit,
    ApiKey.OFFSET_FETCH: encode_fetch,
}
