"""Markers find the leaders of their partitions, whatever happens on the way."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest

from chiplog_broker.metadata.view import BrokerView, ClusterView, PartitionView, TopicView
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.peers.errors import PeerLost
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.transaction_coordinator import marker_sending
from chiplog_broker.transaction_coordinator.marker_sending import MarkerSender
from chiplog_broker.transaction_coordinator.markers import UnwrittenMarkers
from chiplog_core.config.effective import TopicConfig
from chiplog_core.groups.at import At
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.codec import schema
from chiplog_wire.protocol.errors import ErrorCode

OK = ErrorCode.none
MARKER = Marker(
    producer_id=5, producer_epoch=2, is_commit=True, coordinator_epoch=3, transaction_version=2
)


@dataclass
class Leader:
    """The leader of every partition on one broker: answers what it is given, then success."""

    refuses: list[ErrorCode | Exception] = field(default_factory=list)
    written: list[tuple[int, At]] = field(default_factory=list)
    requests: int = 0

    def answer(self, producer_id: int, at: At) -> ErrorCode:
        if not self.refuses:
            self.written.append((producer_id, at))
            return OK
        refusal = self.refuses.pop(0)
        if isinstance(refusal, Exception):
            raise refusal
        return refusal

    # As `MarkerWriter`.

    def write(self, at: At, marker: Marker, then: Callable[[ErrorCode], None]) -> None:
        then(self.answer(marker.producer_id, at))

    # As `PeerConnection`.

    is_open = True

    def common_version(self, _: ApiKey) -> int:
        return 1

    def close(self) -> None:
        """Nothing is open."""

    async def send_request(self, key: ApiKey, version: int, message: Any, _: float) -> Any:
        self.requests += 1
        types = schema.response_class(key, version)
        result = schema.element(types, "markers")
        topic_result = schema.element(result, "topics")
        partition_result = schema.element(topic_result, "partitions")
        await asyncio.sleep(0)
        return types(
            markers=tuple(
                result(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        topic_result(
                            name=topic.name,
                            partitions=tuple(
                                partition_result(
                                    partition_index=index,
                                    error_code=self.answer(
                                        marker.producer_id, At(topic.name, index)
                                    ),
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in message.markers
            )
        )


class Cluster:
    """Broker 1 sends; broker 2 is another one."""

    def __init__(self) -> None:
        self.view = ClusterView("c", 1)
        for broker_id in (1, 2):
            self.view.brokers[broker_id] = BrokerView(broker_id, None, {"internal": ("h", 1)})
        self.here, self.there = Leader(), Leader()
        dialer: Any = self
        writer: Any = self.here
        self.sender = MarkerSender(self.view, writer, dialer, SystemClock())

    async def dial(self, *_: Any, **__: Any) -> Any:
        return self.there

    def lead(self, topic: str, *leaders: int) -> None:
        partitions = [
            PartitionView(index, leader, 1, (1, 2), (1, 2)) for index, leader in enumerate(leaders)
        ]
        self.view.put(TopicView(topic, uuid4(), tuple(partitions), TopicConfig({}, {})))

    async def send(self, *partitions: At, marker: Marker = MARKER) -> None:
        """Send markers, and wait until all are written."""
        done = asyncio.Event()
        self.sender.send(UnwrittenMarkers(marker, partitions, done.set))
        async with asyncio.timeout(10):
            await done.wait()


def run(scenario: Callable[[Cluster], Any]) -> None:
    async def main() -> None:
        cluster = Cluster()
        try:
            await scenario(cluster)
        finally:
            await cluster.sender.close()

    asyncio.run(main())


def test_each_leader_gets_its_own() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.lead("a", 1, 2)
        cluster.lead("b", 2)
        await cluster.send(At("a", 0), At("a", 1), At("b", 0))
        assert cluster.here.written == [(5, At("a", 0))]
        assert cluster.there.written == [(5, At("a", 1)), (5, At("b", 0))]
        assert cluster.there.requests == 1
        await cluster.send()

    run(scenario)


@pytest.mark.parametrize(
    "refusal",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.transaction_coordinator_fenced,
        PeerLost("gone"),
        RuntimeError("a bug"),
    ],
)
def test_what_passes_is_tried_again(refusal: ErrorCode | Exception) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.lead("a", 2)
        cluster.there.refuses = [refusal, refusal]
        await cluster.send(At("a", 0))
        assert cluster.there.written == [(5, At("a", 0))]

    run(scenario)


def test_a_marker_of_an_old_epoch_was_written_earlier() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.lead("a", 2)
        cluster.there.refuses = [ErrorCode.invalid_producer_epoch]
        await cluster.send(At("a", 0))
        assert cluster.there.written == []

    run(scenario)


def test_a_partition_without_a_leader_is_waited_for() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.lead("a", -1)
        sending = asyncio.create_task(cluster.send(At("a", 0)))
        await asyncio.sleep(0.05)
        assert cluster.sender.unwritten == 1
        cluster.lead("a", 9)  # this broker is not known
        await asyncio.sleep(0.05)
        cluster.lead("a", 1)
        await sending
        assert cluster.here.written == [(5, At("a", 0))]

    run(scenario)


def test_a_topic_that_was_deleted_needs_no_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(cluster: Cluster) -> None:
        # A topic that is not known yet is waited for.
        sending = asyncio.create_task(cluster.send(At("late", 0)))
        await asyncio.sleep(0.05)
        cluster.lead("late", 1)
        await sending
        assert cluster.here.written == [(5, At("late", 0))]
        monkeypatch.setattr(marker_sending, "ABSENT_S", 0.1)
        cluster.lead("late", 1)
        await cluster.send(At("gone", 0), At("late", 7))
        assert cluster.here.written == [(5, At("late", 0))]

    run(scenario)


def test_a_topic_whose_metadata_is_lost_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes back from the brokers that have its replicas. Without its marker the transaction
    would stay open there for good."""

    async def scenario(cluster: Cluster) -> None:
        monkeypatch.setattr(marker_sending, "ABSENT_S", 0.05)
        cluster.lead("a", 2)
        cluster.view.remove("a", is_lost=True)
        sending = asyncio.create_task(cluster.send(At("a", 0)))
        await asyncio.sleep(0.3)
        assert not sending.done()
        cluster.lead("a", 2)
        await sending
        assert cluster.there.written == [(5, At("a", 0))]
        # Nobody has a replica any more.
        cluster.view.remove("a", is_lost=True)
        monkeypatch.setattr(marker_sending, "LOST_S", 0.1)
        await cluster.send(At("a", 0))
        assert cluster.there.written == [(5, At("a", 0))]

    run(scenario)


def test_nothing_is_sent_after_the_end_of_a_leadership() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.lead("a", -1)
        markers = UnwrittenMarkers(MARKER, [At("a", 0)], pytest.fail)
        cluster.sender.send(markers)
        markers.give_up()
        cluster.lead("a", 1)
        other = replace(MARKER, producer_id=6)
        await cluster.send(At("a", 0), marker=other)
        await asyncio.sleep(0.1)
        assert cluster.here.written == [(6, At("a", 0))]
        assert cluster.sender.unwritten == 0

    run(scenario)


def test_many_transactions_share_requests() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.lead("a", *[2] * 10)
        partitions = [At("a", index) for index in range(10)]
        await asyncio.gather(
            *(
                cluster.send(*partitions, marker=replace(MARKER, producer_id=number))
                for number in range(250)
            )
        )
        assert len(cluster.there.written) == 2_500
        assert cluster.there.requests <= 5

    run(scenario)
