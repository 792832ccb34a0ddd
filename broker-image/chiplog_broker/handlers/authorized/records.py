"""The results of denied topics in Produce, ListOffsets, OffsetForLeaderEpoch, DeleteRecords and
DescribeProducers."""

from typing import Any, Final

from chiplog_broker.handlers.authorized.asking import FAILED, Asking, Refused, Verdict
from chiplog_broker.handlers.authorized.items import Needed, PerItem, topic_in
from chiplog_core.admin.topic_names import why_not_a_topic_name
from chiplog_core.authorizer.acls import Operation, ResourceType
from chiplog_wire.protocol.answers import answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.messages import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from chiplog_wire.records.batch import ATTRIBUTES_AT, TRANSACTIONAL_MASK
from chiplog_wire.steps import Steps

UNKNOWN = -1
LAST_ATTRIBUTES_BYTE: Final = ATTRIBUTES_AT + 1
"""Where the lower byte of a batch's attributes is."""


def produce(asking: Asking) -> Steps[Verdict]:
    """WRITE for each topic; with a batch of a transaction also for the transactional id."""
    request: ProduceRequest = asking.message
    transactional_id = request.transactional_id
    if is_transactional(request) and (
        transactional_id is None
        or not asking.may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    ):
        code = FAILED[ResourceType.TRANSACTIONAL_ID]
        if request.acks == 0:
            raise ProtocolViolation("a batch of a transaction that was denied has acks=0")
        return Refused(ProduceResponse([not_produced(topic, code) for topic in request.topics]))
    return (yield from PRODUCED_TOPICS(asking))


def is_transactional(request: ProduceRequest) -> bool:
    """Whether the request has a batch of a transaction, as far as its header can be read."""
    return any(
        records is not None
        and len(records) > LAST_ATTRIBUTES_BYTE
        and records[LAST_ATTRIBUTES_BYTE] & TRANSACTIONAL_MASK
        for topic in request.topics
        for _, records in topic.partitions
    )


def not_produced(topic: ProduceTopic, code: ErrorCode) -> ProduceTopicResponse:
    partitions = [ProducePartitionResponse(one.partition, code) for one in topic.partitions]
    return ProduceTopicResponse(topic.name, partitions)


PRODUCED_TOPICS: Final = PerItem(
    items="topics",
    operation=Operation.WRITE,
    needs=topic_in("name"),
    results="topics",
    refusal=not_produced,
)


def list_offsets(topic: Any, code: ErrorCode) -> object:
    types = answers(ApiKey.LIST_OFFSETS)
    return types.ListOffsetsTopicResponse(
        name=topic.name,
        partitions=tuple(
            types.ListOffsetsPartitionResponse(
                partition_index=partition.partition_index,
                error_code=code,
                timestamp=UNKNOWN,
                offset=UNKNOWN,
                leader_epoch=UNKNOWN,
            )
            for partition in topic.partitions
        ),
    )


def offset_for_leader_epoch(topic: Any, code: ErrorCode) -> object:
    types = answers(ApiKey.OFFSET_FOR_LEADER_EPOCH)
    return types.OffsetForLeaderTopicResult(
        topic=topic.topic,
        partitions=tuple(
            types.EpochEndOffset(
                error_code=code,
                partition=partition.partition,
                leader_epoch=UNKNOWN,
                end_offset=UNKNOWN,
            )
            for partition in topic.partitions
        ),
    )


def delete_records(topic: Any, code: ErrorCode) -> object:
    types = answers(ApiKey.DELETE_RECORDS)
    return types.DeleteRecordsTopicResult(
        name=topic.name,
        partitions=tuple(
            types.DeleteRecordsPartitionResult(
                partition_index=partition.partition_index, low_watermark=UNKNOWN, error_code=code
            )
            for partition in topic.partitions
        ),
    )


def described_topic(_: Asking, topic: Any) -> Needed | None:
    """The topic of a DescribeProducers. As in Kafka, a name that no topic can have is refused
    before anything is checked."""
    return None if why_not_a_topic_name(topic.name) else (ResourceType.TOPIC, topic.name)


def describe_producers(topic: Any, code: ErrorCode) -> object:
    types = answers(ApiKey.DESCRIBE_PRODUCERS)
    return types.TopicResponse(
        name=topic.name,
        partitions=tuple(
            types.PartitionResponse(
                partition_index=index, error_code=code, error_message=None, active_producers=()
            )
            for index in topic.partition_indexes
        ),
    )
