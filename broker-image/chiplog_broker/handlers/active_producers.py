"""DescribeProducers: the idempotent producers that a partition's leader knows (KIP-664)."""

from typing import Any

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.slices import Slices
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.ports.clock import Clock
from chiplog_broker.server.call import Call
from chiplog_broker.storage.producers import NO_TRANSACTION, ProducerEntry
from chiplog_core.admin.topic_names import code_of_unknown
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

UNKNOWN = -1
"""Kafka's value for a sequence, timestamp or offset that does not exist."""


class ActiveProducers:
    """Answers DescribeProducers for the partitions that this broker leads."""

    def __init__(self, leaders: Leaders, clock: Clock) -> None:
        self._leaders = leaders
        self._clock = clock

    async def describe_producers(self, call: Call[Any]) -> object:
        """The producers of each requested partition.

        A partition that is requested twice is answered once: its name takes a few bytes, its answer
        may take thousands.
        """
        types, slices = answers(ApiKey.DESCRIBE_PRODUCERS), Slices(self._clock)
        by_topic: dict[str, dict[int, object]] = {}
        for topic in call.message.topics:
            found = by_topic.setdefault(topic.name, {})
            for index in topic.partition_indexes:
                await slices.pause()
                if index not in found:
                    found[index] = await self._described(types, topic.name, index, slices)
        return types.DescribeProducersResponse(
            throttle_time=NO_THROTTLE,
            topics=tuple(
                types.TopicResponse(name=name, partitions=tuple(partitions.values()))
                for name, partitions in by_topic.items()
            ),
        )

    async def _described(self, types: Any, topic: str, index: int, slices: Slices) -> object:
        """One partition of the answer, with its producers or an error."""
        code, producers = ErrorCode.none, []
        try:
            # A copy, so that all producers are of one instant: the loop may take several slices.
            for producer in list(self._leaders.get(topic, index).log.producers()):
                producers.append(described(types, *producer))
                await slices.pause()
        except (PartitionError, *REFUSALS) as refused:
            code = code_of(refused)
            if code is ErrorCode.unknown_topic_or_partition:
                code = ErrorCode(code_of_unknown(topic))
        return types.PartitionResponse(
            partition_index=index,
            error_code=code,
            error_message=None,
            active_producers=tuple(producers),
        )


def described(types: Any, producer_id: int, entry: ProducerEntry) -> object:
    """One producer of the answer, with the coordinator epoch of its last end marker and the first
    offset of its open transaction."""
    last = entry.batches[-1] if entry.batches else None
    is_open = entry.transaction_start != NO_TRANSACTION
    return types.ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=UNKNOWN if last is None else last.last_sequence,
        last_timestamp=UNKNOWN if last is None else last.timestamp_ms,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_start if is_open else UNKNOWN,
    )
