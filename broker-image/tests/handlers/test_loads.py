"""The size and the traffic of led partitions, told by a whole broker over HTTP."""

from typing import TYPE_CHECKING, Any

from chiplog_broker.handlers.loads import Loads
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.ports.clock import SystemClock
from chiplog_core.model.load_exchange import LOADS_PATH, LoadsAnswer, LoadsRequest
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.writer import NewRecord, build_batch
from tests.server.inquiry_kit import Asker, asking

if TYPE_CHECKING:
    import pytest

    from tests.conftest import Kit


def batch(records: int) -> bytes:
    return bytes(build_batch([NewRecord(b"v" * 100, b"k") for _ in range(records)]))


async def loads(asker: Asker, after: str | None = None) -> LoadsAnswer:
    return await asker.ask(LOADS_PATH, LoadsRequest(after=after), LoadsAnswer)


def test_sizes_are_those_of_the_logs_and_counters_those_of_producers(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders", 2)
            await client.create("audit")
            for _ in range(3):
                await client.produce("orders", batch(5), partition=1)
            found = await loads(asker)
            (audit, orders) = found.topics
            assert (audit.topic, orders.topic, found.next_after) == ("audit", "orders", None)
            quiet, busy = orders.partitions
            assert (quiet.bytes, quiet.bytes_in, quiet.records_in) == (0, 0, 0)
            size = 3 * len(batch(5))
            assert (busy.partition, busy.bytes, busy.bytes_in) == (1, size, size)
            assert busy.records_in == 15
            log = kit.broker._replicas.get("orders", 1)
            assert log is not None
            assert log.log.size_bytes == size
            assert busy.leader_epoch == log.leader_epoch

            later = await loads(asker, after="audit")
            assert [one.topic for one in later.topics] == ["orders"]
            assert later.ticks_ms >= found.ticks_ms
        async with asking(kit) as (client, asker):
            (audit, orders) = (await loads(asker)).topics
            assert (orders.partitions[1].bytes, orders.partitions[1].bytes_in) == (size, 0)

    kit.run(scenario)


def test_a_page_ends_with_a_whole_topic_and_the_next_one_continues(kit: "Kit") -> None:
    async def scenario() -> None:
        async with asking(kit) as (client, _asker):
            for name in ("a", "b", "c"):
                await client.create(name, 2)
            broker = kit.broker
            small = Loads(broker._cluster, broker._replicas, SystemClock(), partitions_per_page=3)
            first = await small.answer(LoadsRequest())
            assert ([one.topic for one in first.topics], first.next_after) == (["a", "b"], "b")
            last = await small.answer(LoadsRequest(after=first.next_after))
            assert ([one.topic for one in last.topics], last.next_after) == (["c"], None)

    kit.run(scenario)


def test_what_this_broker_does_not_lead_is_left_out(
    kit: "Kit", monkeypatch: "pytest.MonkeyPatch"
) -> None:
    led = Replicas.leader

    def damaged(self: Replicas, topic: str, index: int, epoch: int = -1) -> Any:
        if index == 0:
            raise PartitionError(ErrorCode.kafka_storage_error)
        return led(self, topic, index, epoch)

    async def scenario() -> None:
        async with asking(kit) as (client, asker):
            await client.create("orders", 2)
            monkeypatch.setattr(Replicas, "leader", damaged)
            (orders,) = (await loads(asker)).topics
            assert [one.partition for one in orders.partitions] == [1]
            kit.broker._cluster.broker_id += 1
            assert (await loads(asker)).topics == ()
            kit.broker._cluster.broker_id -= 1

    kit.run(scenario)
