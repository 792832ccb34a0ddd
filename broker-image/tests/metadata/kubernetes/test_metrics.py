"""What several brokers tell Prometheus: each thing once, so that it can be added up."""

from chiplog_core.config.broker_keys import METRICS_PARTITIONS
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run
from tests.server.exposition_kit import told

TRAFFIC = "kafka_server_brokertopicmetrics"
MANAGER = "kafka_server_replicamanager"


def test_only_the_leader_exposes_a_partition_and_all_expose_their_size(
    brokers: Brokers,
) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, minIsr=2)
        await brokers.settled(1)
        for broker_id in ALL:
            brokers.operator.write_broker(broker_id, config={METRICS_PARTITIONS.name: "true"})
        config = brokers.up[3].broker._config
        await brokers.eventually(lambda: METRICS_PARTITIONS.name in config)
        await brokers.produce(1, b"a")
        await brokers.equal(1)
        each = [await told(brokers.up[broker_id].broker) for broker_id in ALL]
        leader = "kafka_topic_partition_leader", "0", "orders"
        assert [one.get(leader) for one in each] == [1, None, None]
        whole = "kafka_topic_partitions", "orders"
        assert [one.get(whole) for one in each] == [1, None, None]
        sizes = [one["kafka_log_log_size", "0", "orders"] for one in each]
        assert sizes == [brokers.up[1].replica().log.size_bytes] * 3
        # What followers copy is not what consumers are given, but they ask like them.
        assert each[0][f"{TRAFFIC}_bytesout_total", "orders"] == 0
        assert each[0][f"{TRAFFIC}_totalfetchrequests_total", "orders"] > 0
        for broker_id in ALL:
            brokers.operator.write_broker(broker_id, config={METRICS_PARTITIONS.name: None})
        await brokers.eventually(lambda: METRICS_PARTITIONS.name not in config)
        assert ("kafka_log_log_size", "orders") in await told(brokers.up[3].broker)

    run(brokers, scenario)


def test_replicas_in_sync_that_come_and_go_are_counted_by_their_leader(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.start(*ALL)
        brokers.lead(1, minIsr=2)
        await brokers.settled(1)
        before = await told(brokers.up[1].broker)

        def in_sync(count: int) -> bool:
            (topic,) = brokers.up[1].broker._cluster
            return len(topic.partitions[0].isr) == count

        async def told_when(count: int) -> list[float]:
            await brokers.eventually(lambda: in_sync(count) and brokers.leads(1))
            found = await told(brokers.up[1].broker)
            return [
                *(
                    found[f"{MANAGER}_{one}",]
                    for one in (
                        "underreplicatedpartitions",
                        "atminisrpartitioncount",
                        "underminisrpartitioncount",
                    )
                ),
                *(
                    found[f"{MANAGER}_isr{one}_total",] - before[f"{MANAGER}_isr{one}_total",]
                    for one in ("shrinks", "expands")
                ),
            ]

        assert await told_when(3) == [0, 0, 0, 0, 0]
        brokers.lead(1, isr=(1, 2), minIsr=2)
        assert await told_when(2) == [1, 1, 0, 1, 0]
        brokers.lead(1, isr=(1,), minIsr=2)
        assert await told_when(1) == [1, 0, 1, 2, 0]
        brokers.lead(1, minIsr=2)
        assert await told_when(3) == [0, 0, 0, 2, 1]
        others = await told(brokers.up[2].broker)
        assert others[f"{MANAGER}_isrshrinks_total",] == 0

    run(brokers, scenario)
