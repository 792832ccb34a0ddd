"""A replica that was moved away: its data stays until the proof is recorded, and then goes."""

import errno
from collections.abc import Mapping
from typing import Any

import pytest

from chiplog_broker.storage.errors import DiskFullError
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.model.broker_status import RemovedReplica, SettledPartition
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode
from tests.metadata.kubernetes.brokers_kit import ALL, Brokers, run

LEFT = (1, 2)
"""The brokers that have the partition after the move; broker 3 had it before."""


def move_away(brokers: Brokers, *, removable: bool = False) -> None:
    """A map by which broker 3 has no replica any more."""
    leftover: dict[str, Any] = {"broker": 3}
    if removable:
        leftover["removableSince"] = brokers.epoch + 1
    brokers.lead(1, isr=LEFT, replicas=LEFT, state={"leftovers": [leftover]})


def has_data(brokers: Brokers, broker_id: int) -> bool:
    return (brokers.directory / str(broker_id) / "data" / "orders-0").exists()


def settled(brokers: Brokers, broker_id: int = 1) -> tuple[SettledPartition, ...]:
    return brokers.status(broker_id).settled_partitions


def removed(brokers: Brokers, broker_id: int = 3) -> tuple[RemovedReplica, ...]:
    return brokers.status(broker_id).removed_replicas


@pytest.mark.parametrize("durability", ["Fsync", "PageCache"])
def test_the_data_goes_when_the_map_says_so_and_not_before(
    brokers: Brokers, durability: str
) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a", b"b")
        move_away(brokers)
        await brokers.eventually(lambda: bool(settled(brokers)))
        (proof,) = settled(brokers)
        assert (proof.partition, proof.session, proof.leader_epoch) == (0, 1, brokers.epoch)
        assert brokers.up[3].broker._replicas.get("orders", 0) is None
        assert has_data(brokers, 3)
        assert removed(brokers) == ()

        move_away(brokers, removable=True)
        await brokers.eventually(lambda: bool(removed(brokers)))
        assert [one.partition_epoch for one in removed(brokers)] == [brokers.epoch]
        assert not has_data(brokers, 3)
        assert has_data(brokers, 2)
        # Nothing waits for the proof any more.
        await brokers.eventually(lambda: settled(brokers) == ())

        brokers.lead(1, isr=LEFT, replicas=LEFT)
        await brokers.eventually(lambda: removed(brokers) == ())
        brokers.lead(1, isr=LEFT)
        await brokers.settled(1)
        await brokers.equal(2)

    run(brokers, scenario)


def test_there_is_no_proof_while_a_replica_does_not_fetch(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a")
        await brokers.stop(2)
        move_away(brokers)
        await brokers.eventually(lambda: brokers.leads(1))
        await brokers.eventually(lambda: brokers.status(1).session == 1)
        assert settled(brokers) == ()

        brokers.fence(2)
        await brokers.start(2)
        # In its new session the broker is in sync when the operator says so.
        move_away(brokers)
        await brokers.eventually(lambda: bool(settled(brokers)))

    run(brokers, scenario)


def test_there_is_no_proof_for_a_replica_that_is_not_in_sync(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a")
        brokers.lead(1, isr=(1,), replicas=LEFT, state={"leftovers": [{"broker": 3}]})
        await brokers.eventually(lambda: brokers.leads(1) and brokers.follows(2))
        await brokers.produce(1, b"b")
        await brokers.eventually(lambda: bool(brokers.status(1).proposals))
        assert settled(brokers) == ()

    run(brokers, scenario)


def test_a_restarted_broker_deletes_and_confirms_again(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a")
        await brokers.stop(3)
        brokers.fence(3)
        move_away(brokers, removable=True)
        await brokers.start(3)
        await brokers.eventually(lambda: bool(removed(brokers)))
        assert not has_data(brokers, 3)
        await brokers.stop(3)
        brokers.fence(3)
        await brokers.start(3)
        await brokers.eventually(lambda: bool(removed(brokers)))

    run(brokers, scenario)


def test_who_was_moved_to_says_so_when_an_older_map_comes_back(brokers: Brokers) -> None:
    """After a restore the map names a broker whose data is deleted: it reports who has it now."""

    async def scenario() -> None:
        await brokers.begin_with(b"a")
        before = brokers.epoch
        move_away(brokers, removable=True)
        await brokers.eventually(lambda: bool(removed(brokers)))
        moved = brokers.epoch
        brokers.epoch = before - 1
        brokers.lead(1)
        await brokers.eventually(lambda: all(brokers.status(one).replica_reports for one in ALL))
        for broker_id in ALL:
            (report,) = brokers.status(broker_id).replica_reports
            assert report.replicas == LEFT
            assert report.leader_epoch == moved
            assert [one.broker for one in report.leftovers] == [3]

    run(brokers, scenario)


def test_a_proof_that_comes_again_is_written_again(brokers: Brokers) -> None:
    """A follower in a new session has to fetch again, in the same leader epoch."""

    async def scenario() -> None:
        await brokers.begin_with(b"a")
        move_away(brokers)
        await brokers.eventually(lambda: bool(settled(brokers)))
        await brokers.stop(2)
        brokers.fence(2)
        state = {
            "partition": 0,
            "replicas": list(LEFT),
            "isr": ["1@1", "2@2"],
            "leader": "1@1",
            "leaderEpoch": brokers.epoch,
            "partitionEpoch": brokers.epoch + 1,
            "leftovers": [{"broker": 3}],
        }
        brokers.operator.write_map("orders", [state])
        await brokers.eventually(lambda: settled(brokers) == ())
        await brokers.start(2)
        await brokers.eventually(lambda: bool(settled(brokers)))

    run(brokers, scenario)


def test_a_failed_deletion_is_not_confirmed(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a")
        disk = brokers.up[3].broker._replicas._directory._disk
        rename, failures = disk.rename, []

        def fail(old: str, new: str) -> None:
            if old == "orders-0":
                failures.append(new)
                raise OSError(errno.EIO, "EIO")
            rename(old, new)

        monkeypatch.setattr(disk, "rename", fail)
        move_away(brokers, removable=True)
        await brokers.eventually(lambda: bool(failures))
        # The broker has applied a later map of another topic, so it has tried again.
        brokers.operator.write_map("other", [state_of_other(brokers)])
        await brokers.eventually(lambda: brokers.up[3].broker._cluster.topic("other") is not None)
        assert removed(brokers) == ()
        assert has_data(brokers, 3)

    run(brokers, scenario)


def state_of_other(brokers: Brokers) -> dict[str, Any]:
    return {
        "partition": 0,
        "replicas": [1],
        "isr": ["1@1"],
        "leader": "1@1",
        "leaderEpoch": 0,
        "partitionEpoch": 0,
    }


def no_room_for(brokers: Brokers, partition: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of broker 3 is too full for a replica of this partition."""
    directory = brokers.up[3].broker._replicas._directory
    create = directory.create

    async def fail(name: TopicPartition, *rest: Any) -> Any:
        if name.partition == partition:
            raise DiskFullError("no space")
        return await create(name, *rest)

    monkeypatch.setattr(directory, "create", fail)


def test_a_full_disk_does_not_keep_what_was_moved_away(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a")
        no_room_for(brokers, 1, monkeypatch)
        brokers.epoch += 1
        state = {
            "isr": brokers.refs(*LEFT),
            "leader": "1@1",
            "leaderEpoch": brokers.epoch,
            "partitionEpoch": brokers.epoch,
        }
        leftovers = [{"broker": 3, "removableSince": brokers.epoch}]
        gone = {"partition": 0, "replicas": list(LEFT), "leftovers": leftovers} | state
        new = {"partition": 1, "replicas": list(ALL)} | state
        brokers.operator.write_map("orders", [gone, new])
        await brokers.eventually(lambda: bool(removed(brokers)))
        assert not has_data(brokers, 3)

    run(brokers, scenario)


def test_a_second_removal_is_carried_out_too(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker has seen neither that the first was complete, nor that it had a replica again: the
    maps in between failed to be applied as a whole."""

    async def scenario() -> None:
        await brokers.begin_with(b"a")
        move_away(brokers, removable=True)
        await brokers.eventually(lambda: bool(removed(brokers)))
        no_room_for(brokers, 1, monkeypatch)
        brokers.lead(1, isr=LEFT, state={"adding": [3]}, partitions=2)
        await brokers.eventually(lambda: has_data(brokers, 3))
        leftover = {"broker": 3, "removableSince": brokers.epoch + 1}
        brokers.lead(1, isr=LEFT, replicas=LEFT, partitions=2, state={"leftovers": [leftover]})
        await brokers.eventually(
            lambda: {one.partition_epoch for one in removed(brokers)} == {brokers.epoch}
        )
        assert not has_data(brokers, 3)

    run(brokers, scenario)


async def ongoing(brokers: Brokers, topics: Any = None) -> Mapping[str, Any]:
    """ListPartitionReassignments: topic -> its reassignments."""
    client = await brokers.client(1)
    types = client.types(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    if topics is not None:
        topics = tuple(
            types.ListPartitionReassignmentsTopics(name=name, partition_indexes=tuple(indexes))
            for name, indexes in topics.items()
        )
    request = types.ListPartitionReassignmentsRequest(topics=topics)
    answer = await client.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request, 0)
    assert answer.error_code == ErrorCode.none
    return {
        topic.name: [
            (one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
            for one in topic.partitions
        ]
        for topic in answer.topics
    }


def test_clients_see_what_moves(brokers: Brokers) -> None:
    async def scenario() -> None:
        await brokers.begin_with(b"a")
        assert await ongoing(brokers) == {}
        brokers.lead(1, isr=(1, 3), replicas=(1, 2, 3), state={"adding": [2], "removing": [3]})
        await brokers.settled(1)
        moving = [(0, (1, 2, 3), (2,), (3,))]
        assert await ongoing(brokers) == {"orders": moving}
        assert await ongoing(brokers, {"orders": [0, 5], "none": [0]}) == {"orders": moving}
        assert await ongoing(brokers, {"orders": [1]}) == {}
        client = await brokers.client(1)
        (topic,) = (await client.metadata("orders")).topics
        assert tuple(topic.partitions[0].replica_nodes) == (1, 2, 3)

    run(brokers, scenario)
