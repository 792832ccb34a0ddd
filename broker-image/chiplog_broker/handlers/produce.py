"""Produce: append at once, answer when the records are as safe as `acks` asks.

acks=0 is never answered; a refused batch closes the connection instead, as in Kafka.
acks=1 is answered after the append, acks=all when the high watermark has passed the
batch. A duplicate of an idempotent batch waits exactly like the original.
"""

import asyncio
from functools import partial

from chiplog_broker.handlers.call import Answer, Call
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, code_of
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import Clock
from chiplog_broker.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_broker.protocol.messages import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)

ACKS_ALL = -1
VALID_ACKS = (ACKS_ALL, 0, 1)
OK = int(ErrorCode.none)


class ProduceHandler:
    """Appends batches to the partitions that this broker leads."""

    def __init__(self, cluster: ClusterView, replicas: Replicas, clock: Clock) -> None:
        self._cluster = cluster
        self._replicas = replicas
        self._clock = clock

    def __call__(
        self, call: Call[ProduceRequest]
    ) -> ProduceResponse | asyncio.Future[Answer] | None:
        request = call.message
        pending = PendingProduce(call)
        now_ms = self._clock.now_ms()
        for topic in request.topics:
            answers = [
                self._append(topic.name, partition, pending, now_ms)
                for partition in topic.partitions
            ]
            pending.topics.append((topic.name, answers))
        if request.acks == 0:
            if any(one.error_code != OK for _, answers in pending.topics for one in answers):
                raise ProtocolViolation("a batch sent with acks=0 was refused")
            return None
        return pending.start() if pending.unsafe else pending.response()

    def _append(
        self, topic: str, partition: ProducePartition, pending: "PendingProduce", now_ms: int
    ) -> ProducePartitionResponse:
        index = partition.partition
        acks = pending.call.message.acks
        if acks not in VALID_ACKS:
            return ProducePartitionResponse(index, ErrorCode.invalid_required_acks)
        try:
            replica = self._replicas.leader(topic, index)
            appended = replica.append(partition.records or memoryview(b""), now_ms)
        except (PartitionError, *REFUSALS) as refused:
            return ProducePartitionResponse(
                index, self._refusal_code(topic, index, refused), error_message=str(refused)
            )
        if acks == ACKS_ALL:
            position = (len(pending.topics), index)
            done = partial(pending.settle, position)
            if not replica.when_safe(appended.last_offset + 1, done):
                pending.unsafe.add(position)
        return ProducePartitionResponse(
            index,
            OK,
            appended.base_offset,
            appended.log_append_time_ms,
            appended.log_start_offset,
        )

    def _refusal_code(self, topic: str, index: int, refused: Exception) -> int:
        """A partition that is led elsewhere and one that does not exist are different news."""
        view = self._cluster.topic(topic)
        if view is None or not 0 <= index < len(view.partitions):
            return ErrorCode.unknown_topic_or_partition
        assert isinstance(refused, PartitionError | REFUSALS)
        return code_of(refused)


class PendingProduce:
    """A Produce with acks=all whose records are not all safe yet."""

    def __init__(self, call: Call[ProduceRequest]) -> None:
        self.call = call
        self.topics: list[tuple[str, list[ProducePartitionResponse]]] = []
        # (position of the topic in the request, partition) of what is not safe.
        self.unsafe: set[tuple[int, int]] = set()
        self._failed: dict[tuple[int, int], ErrorCode] = {}
        self._future: asyncio.Future[Answer]
        self._timeout: asyncio.TimerHandle

    def start(self) -> asyncio.Future[Answer]:
        """Wait, for as long as the producer said it would."""
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        timeout_s = max(self.call.message.timeout_ms, 0) / 1000
        self._timeout = loop.call_later(timeout_s, self._time_out)
        return self._future

    def settle(self, position: tuple[int, int], safe: bool) -> None:
        """One partition's records are safe, or will not be here."""
        self.unsafe.discard(position)
        if not safe:
            self._failed[position] = ErrorCode.not_leader_or_follower
        if not self.unsafe and not self._future.done():
            self._timeout.cancel()
            self._future.set_result(self.call.encode(self.response()))

    def response(self) -> ProduceResponse:
        """The answer as things stand."""
        topics = [
            ProduceTopicResponse(
                name, [self._judged((position, one.partition), one) for one in answers]
            )
            for position, (name, answers) in enumerate(self.topics)
        ]
        return ProduceResponse(topics)

    def _judged(
        self, position: tuple[int, int], answer: ProducePartitionResponse
    ) -> ProducePartitionResponse:
        code = self._failed.get(position)
        return answer if code is None else ProducePartitionResponse(answer.partition, code)

    def _time_out(self) -> None:
        """The records may still become safe: the producer is told that nobody knows."""
        if not self._future.done():
            self._failed |= dict.fromkeys(self.unsafe, ErrorCode.request_timed_out)
            self._future.set_result(self.call.encode(self.response()))
