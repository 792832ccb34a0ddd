"""Stored bytes change under a broker that runs: it serves none of them and fetches them anew."""

import os
from functools import partial

import pytest

from chiplog_broker.storage.directory import LogDirectory
from chiplog_broker.storage.errors import DiskFullError
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.records.batch import iter_batches
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run

LOG = "00000000000000000000.log"
OFTEN = {"chiplog_scrub_interval_ms": "500"}


def flip(brokers: Brokers, broker_id: int, byte: int = 30) -> None:
    """A bit of what was durable."""
    path = brokers.directory / str(broker_id) / "data/orders-0" / LOG
    with path.open("r+b") as file:
        file.seek(byte)
        (before,) = file.read(1)
        file.seek(byte)
        file.write(bytes([before ^ 1]))


def told_of(brokers: Brokers, broker_id: int) -> list[tuple[str, int | None, bool]]:
    """The damaged replicas in its status: file, offset, and whether they are fetched anew."""
    (directory,) = brokers.status(broker_id).directories
    return [(one.file, one.offset, one.refetching) for one in directory.damaged]


def past_of(brokers: Brokers, broker_id: int) -> list[tuple[str, int | None, str, bool]]:
    """The history in its status: file, offset, kind, and whether it is whole again."""
    (directory,) = brokers.status(broker_id).directories
    return [
        (one.file, one.offset, one.kind.value, one.whole_at is not None)
        for one in directory.damage_history
    ]


async def fetched(brokers: Brokers, broker_id: int) -> ErrorCode:
    """What a consumer is answered."""
    client = await brokers.client(broker_id)
    try:
        topic_id = await client.topic_id("orders")
        ((code, _),) = await client.fetch(topic_id, (0, 0))
        return ErrorCode(code)
    finally:
        client.writer.close()


def knows_isr(brokers: Brokers, isr: tuple[int, ...]) -> bool:
    """Whether broker 3 has applied a map with these."""
    topic = brokers.up[3].broker._cluster.topic("orders")
    return topic is not None and topic.partitions[0].isr == isr


async def with_records(brokers: Brokers, **config: str) -> None:
    await brokers.start(*ALL, **config)
    brokers.lead(1)
    await brokers.settled(1)
    for number in range(5):
        await brokers.produce(1, b"%d" % number)
    await brokers.equal(5)
    await brokers.eventually(
        lambda: {m.replica().log.durable_end_offset for m in brokers.up.values()} == {5}
    )


def test_a_leader_that_reads_what_is_damaged_resigns_and_is_rebuilt(brokers: Brokers) -> None:
    async def scenario() -> None:
        await with_records(brokers)
        flip(brokers, 1)
        assert await fetched(brokers, 1) is ErrorCode.kafka_storage_error
        await brokers.eventually(lambda: told_of(brokers, 1) == [(f"orders-0/{LOG}", 0, False)])
        assert brokers.replicas(1) == [None]
        where = {"topic": "orders", "partition": "0", "file": f"orders-0/{LOG}", "offset": "0"}
        assert past_of(brokers, 1) == [(f"orders-0/{LOG}", 0, "Changed", False)]
        registry = brokers.up[1].broker.exposition().registry
        labels = where | {"refetching": "false"}
        assert registry.get_sample_value("chiplog_broker_damaged_replica", labels) == 1
        assert await fetched(brokers, 1) is ErrorCode.kafka_storage_error
        # The map makes it the leader still: nothing is thrown aside before another leads.
        assert not list((brokers.directory / "1/data").glob("*-stray"))
        brokers.lead(2, isr=(2, 3))
        await brokers.settled(2)
        await brokers.equal(5)
        await brokers.eventually(lambda: told_of(brokers, 1) == [(f"orders-0/{LOG}", 0, True)])
        assert len(list((brokers.directory / "1/data").glob("orders-0.*-stray"))) == 1
        brokers.lead(2, isr=ALL)
        await brokers.eventually(lambda: told_of(brokers, 1) == [])
        assert past_of(brokers, 1) == [(f"orders-0/{LOG}", 0, "Changed", True)]
        brokers.lead(1, isr=ALL)
        await brokers.settled(1)
        await brokers.produce(1, b"5")
        await brokers.equal(6)
        assert await fetched(brokers, 1) is ErrorCode.none

    run(brokers, scenario)


def test_a_replica_follows_although_a_full_disk_keeps_its_mark(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_full(*_: object) -> None:
        raise DiskFullError("no room for the mark")

    async def scenario() -> None:
        await with_records(brokers)
        flip(brokers, 1)
        assert await fetched(brokers, 1) is ErrorCode.kafka_storage_error
        brokers.lead(2, isr=(2, 3))
        await brokers.settled(2)
        await brokers.equal(5)
        with monkeypatch.context() as full:
            full.setattr(LogDirectory, "mark_undamaged", is_full)
            brokers.lead(3, isr=ALL)
            await brokers.settled(3)
            await brokers.produce(3, b"5")
            await brokers.equal(6)
            assert told_of(brokers, 1) != []
        await brokers.eventually(lambda: told_of(brokers, 1) == [])

    run(brokers, scenario)


def test_a_follower_is_found_damaged_by_the_scrub_and_stays_listed_at_the_floor(
    brokers: Brokers,
) -> None:
    """No map changes: it is whole when it has what it was counted for."""

    async def scenario() -> None:
        await with_records(brokers, **OFTEN)
        before = brokers.replicas(3)[0]
        flip(brokers, 3)
        await brokers.eventually(lambda: brokers.replicas(3)[0] is not before)
        await brokers.eventually(
            lambda: bool(list((brokers.directory / "3/data").glob("orders-0.*-stray")))
        )
        await brokers.eventually(lambda: told_of(brokers, 3) == [])
        await brokers.equal(5)
        # The leader counts it: acks=all waits for it and gets its word.
        await brokers.produce(1, b"5")
        await brokers.equal(6)
        assert brokers.replicas(3)[0].is_undamaged  # type: ignore[union-attr]
        registry = brokers.up[3].broker.exposition().registry
        name = "chiplog_broker_scrubbed_bytes_total"
        await brokers.eventually(lambda: (registry.get_sample_value(name) or 0) > 0)

    run(brokers, scenario)


def test_of_a_tail_that_is_cut_off_the_first_missing_offset_stays_reported(
    brokers: Brokers,
) -> None:
    """Also when the replica is whole again and not among the damaged ones any more."""

    async def scenario() -> None:
        await with_records(brokers, **OFTEN)
        path = brokers.directory / "3/data/orders-0" / LOG
        *_, (last, header) = iter_batches(path.read_bytes())
        assert header.base_offset == 4
        os.truncate(path, last)
        await brokers.eventually(
            lambda: past_of(brokers, 3) == [(f"orders-0/{LOG}", 4, "Truncated", True)]
        )
        assert told_of(brokers, 3) == []
        await brokers.equal(5)
        (directory,) = brokers.status(3).directories
        (past,) = directory.damage_history
        assert (past.topic, past.partition) == ("orders", 0)
        assert past.whole_at is not None
        assert past.whole_at >= past.found_at
        assert "ends" in past.message

    run(brokers, scenario)


def test_in_sync_by_an_old_word_of_its_leader_it_is_not_whole(brokers: Brokers) -> None:
    """The leader remembers how far it was before, and does not know what it has lost."""

    async def scenario() -> None:
        await with_records(brokers, **OFTEN)
        leader = brokers.replicas(1)[0]
        assert leader is not None
        replicas = brokers.up[3].broker._replicas
        # Nothing is fetched: what counts is what it is taken for.
        assert replicas._fetchers is not None
        await brokers.up[3].broker.fetching.close()  # type: ignore[union-attr]
        replicas._fetchers = None
        flip(brokers, 3)
        await brokers.eventually(lambda: bool(told_of(brokers, 3)))
        await brokers.eventually(lambda: brokers.replicas(3)[0] is not None)
        assert leader.followers is not None
        assert leader.followers.safe_offset(5) == 5
        for isr in ((1, 2), ALL):
            brokers.operator.write_map(
                "orders",
                [
                    {
                        "partition": 0,
                        "replicas": list(ALL),
                        "isr": brokers.refs(*isr),
                        "leader": brokers.refs(1)[0],
                        "leaderEpoch": brokers.epoch,
                        "partitionEpoch": brokers.epoch + len(isr),
                    }
                ],
            )
            await brokers.eventually(partial(knows_isr, brokers, isr))
        assert [one[2] for one in told_of(brokers, 3)] == [False]
        assert not brokers.replicas(3)[0].is_undamaged  # type: ignore[union-attr]

    run(brokers, scenario)
