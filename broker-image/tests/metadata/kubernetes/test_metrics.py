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


def test_a_reassignment_is_counted_by_the_leader_with_the_bytes_that_are_left(
    brokers: Brokers,
) -> None:
    names = (
        f"{MANAGER}_reassigningpartitions",
        f"{MANAGER}_underreplicatedpartitions",
        "chiplog_broker_reassignment_bytes_left",
    )

    async def told_of(broker_id: int) -> list[float]:
        found = await told(brokers.up[broker_id].broker)
        return [found[name,] for name in names]

    async def scenario() -> None:
        await brokers.start(1, 2)
        brokers.lead(1, replicas=(1, 2), isr=(1, 2))
        await brokers.settled(1)
        await brokers.produce(1, b"a", b"b", b"c")
        await brokers.equal(3)
        assert await told_of(1) == [0, 0, 0]
        # Broker 3 does not run yet: nothing is copied. It is not missing.
        brokers.lead(1, isr=(1, 2), state={"adding": [3], "removing": [2]})
        await brokers.settled(1)
        size = brokers.up[1].replica().log.size_bytes
        assert size > 0
        assert await told_of(1) == [1, 0, size]
        assert await told_of(2) == [0, 0, 0]
        await brokers.start(3)
        await brokers.equal(3)
        left = brokers.up[1].replica()
        await brokers.eventually(lambda: left.reassignment_bytes_left == 0)
        assert await told_of(1) == [1, 0, 0]
        # One that the partition had before is missing.
        brokers.lead(1, isr=(1,), state={"adding": [3], "removing": [2]})
        await brokers.settled(1)
        assert (await told_of(1))[:2] == [1, 1]
        # The switch is made: what is left is old data.
        leftovers = [{"broker": 2}]
        brokers.lead(1, replicas=(1, 3), isr=(1, 3), state={"leftovers": leftovers})
        await brokers.eventually(lambda: brokers.leads(1) and brokers.follows(3))
        assert await told_of(1) == [0, 0, 0]

    run(brokers, scenario)
