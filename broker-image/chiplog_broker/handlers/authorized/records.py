"""The results of denied topics in Produce, ListOffsets, OffsetForLeaderEpoch, DeleteRecords and
DescribeProducers."""

from typing import Any

from chiplog_wire.protocol.answers import answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import (
    ProducePartitionResponse,
    ProduceTopic,
    ProduceTopicResponse,
)

UNKNOWN = -1


def produce(topic: ProduceTopic, code: ErrorCode) -> object:
    partitions = [ProducePartitionResponse(one.partition, code) for one in topic.partitions]
    return ProduceTopicResponse(topic.name, partitions)


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
