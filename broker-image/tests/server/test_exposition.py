"""What a broker tells Prometheus: read as Prometheus reads it, from brokers that really ran."""

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_broker.metadata.view import PartitionView
from chiplog_broker.partitions.counters import IsrChanges
from chiplog_broker.server.exposition.partitions import PARTITION_SERIES
from chiplog_broker.server.exposition.topics import TOPIC_SERIES
from chiplog_core.config.broker_keys import METRICS_PARTITIONS
from chiplog_wire.protocol.errors import ErrorCode
from tests.server.exposition_kit import Samples, told

if TYPE_CHECKING:
    from tests.conftest import Kit

TRAFFIC = "kafka_server_brokertopicmetrics"


def names(samples: Samples) -> set[str]:
    return {name for name, *_ in samples}


def test_requests_for_a_topic_are_counted_and_those_that_fail(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 2)
            topic_id = await client.topic_id("orders")
            for _ in range(3):
                await client.produce("orders", kit.batch(b"a"))
            await client.fetch(topic_id, (0, 0), (1, 0))
            # An attempt that finds too little is no request of its own.
            await client.fetch(topic_id, (1, 0), wait_ms=20)
            counted = ("totalproduce", "failedproduce", "totalfetch", "failedfetch")

            async def counts() -> list[float]:
                found = await told(kit.broker)
                return [found[f"{TRAFFIC}_{one}requests_total", "orders"] for one in counted]

            assert await counts() == [3, 0, 3, 0]
            broken = bytearray(kit.batch(b"b"))
            broken[-1] ^= 1
            (answer,) = await client.produce("orders", bytes(broken))
            assert answer.error_code == ErrorCode.corrupt_message
            assert await counts() == [4, 1, 3, 0]
            # In the ordinary course of things: what is not here, and what is not there any more.
            await client.produce("orders", kit.batch(b"c"), partition=7)
            ((code, _),) = await client.fetch(topic_id, (0, 99))
            assert code is ErrorCode.offset_out_of_range
            assert (await counts())[1::2] == [1, 0]
            kit.disk.break_syncs()
            (answer,) = await client.produce("orders", kit.batch(b"d"))
            ((code, _),) = await client.fetch(topic_id, (0, 0))
            assert code is ErrorCode.kafka_storage_error
            assert (await counts())[1::2] == [1, 1]

    kit.run(scenario)


def test_topics_are_exposed_and_partitions_only_if_enabled(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders", 3)
            await client.produce("orders", kit.batch(b"a"), partition=2)
            await client.produce("orders", kit.batch(b"b"), partition=2)
            found = await told(kit.broker)
            assert {one.name for one in TOPIC_SERIES} <= names(found)
            assert not names(found) & {one.name for one in PARTITION_SERIES}
            assert found["kafka_topic_partitions", "orders"] == 3
            sizes = [one.log.size_bytes for one in kit.partitions("orders")]
            assert found["kafka_log_log_size", "orders"] == sum(sizes) > 0
            port = kit.broker.addresses["PLAINTEXT"][1]
            assert found["kafka_broker_info", f"127.0.0.1:{port}", "1"] == 1
            assert found["process_resident_memory_bytes",] > 0
            # Nothing is known of the volume before somebody looked.
            async with asyncio.timeout(10):
                while not (await told(kit.broker))["chiplog_broker_disk_size_bytes",] > 0:
                    await client.metadata()
            await client.delete("orders")
            assert "orders" not in {label for one in await told(kit.broker) for label in one}

    kit.run(scenario)


def test_every_partition_by_itself(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running(**{METRICS_PARTITIONS.name.replace(".", "_"): "true"}) as client:
            await client.create("orders", 2)
            for _ in range(3):
                await client.produce("orders", kit.batch(b"a"), partition=1)
            await client.delete_records("orders", 0)
            found = await told(kit.broker)
            log = kit.partitions("orders")[1].log
            # The labels come by their names: partition, topic.
            assert ("kafka_log_log_size", "orders") not in found
            assert found["kafka_log_log_size", "1", "orders"] == log.size_bytes
            own = {one[0]: value for one, value in found.items() if one[1:] == ("1", "orders")}
            del own["kafka_log_log_size"]
            assert own == {
                "kafka_topic_partition_current_offset": 3,
                "kafka_topic_partition_oldest_offset": 0,
                "kafka_topic_partition_in_sync_replica": 1,
                "kafka_topic_partition_leader": 1,
                "kafka_topic_partition_leader_is_preferred": 1,
                "kafka_topic_partition_replicas": 1,
                "kafka_topic_partition_under_replicated_partition": 0,
                "kafka_cluster_partition_underminisr": 0,
                "kafka_cluster_partition_atminisr": 1,
            }

    kit.run(scenario)


def test_one_in_the_place_of_another_is_both() -> None:
    changes = IsrChanges()
    changes.count_change(None, (1, 2))
    assert (changes.shrinks, changes.expands) == (0, 0)
    changes.count_change((1, 2), (1, 3))
    assert (changes.shrinks, changes.expands) == (1, 1)


def test_other_tasks_run_while_a_scrape_is_made(kit: "Kit") -> None:
    async def scenario() -> None:
        async with kit.running() as client:
            await client.create("orders")
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            counting = asyncio.create_task(count())
            await kit.broker.exposition().text()
            counting.cancel()
            assert turns > len(TOPIC_SERIES)

    kit.run(scenario)


@pytest.mark.parametrize(("isr", "is_missing"), [((1, 3), 0), ((1, 2), 1), ((1, 2, 3), 0)])
def test_a_replica_that_is_being_added_is_not_missing(
    isr: tuple[int, ...], is_missing: int
) -> None:
    (series,) = [one for one in PARTITION_SERIES if one.name.endswith("under_replicated_partition")]
    view = PartitionView(0, 1, 5, (1, 2, 3), isr, adding=(2,), removing=(3,))
    led: Any = SimpleNamespace(view=view, min_isr=1, partition=None)
    assert series.value(led) == is_missing
