"""Partitions that their Topics place stay where they are, and count as load."""

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import PartitionIndex
from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.manifest.writing import write
from chiplog_core.observed.pinned import Pinned
from chiplog_core.rebalance.documents import proposal_json
from chiplog_core.rebalance.job import RebalanceJob, pinned_runs
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.settings import Settings
from tests.rebalance.worlds import World, brokers, partition, rated, worlds

PINNED = st.dictionaries(
    st.sampled_from(("orders", "clicks")),
    st.frozensets(st.integers(0, 30).map(PartitionIndex), min_size=1),
)


@given(PINNED)
def test_the_job_gets_them_as_runs(pinned: Pinned) -> None:
    job = RebalanceJob(pinned_partitions=pinned_runs(pinned))

    document = write(job)

    assert read(object_shape(RebalanceJob), document, "job", Unknown.REFUSE) == job
    assert job.settings().pinned == pinned


def test_neighbours_take_one_entry() -> None:
    numbers = frozenset(map(PartitionIndex, (0, 1, 2, 5)))
    runs = pinned_runs({"orders": numbers, "clicks": frozenset({PartitionIndex(3)})})

    assert [(run.topic, run.first, run.last) for run in runs] == [
        ("clicks", 3, 3),
        ("orders", 0, 2),
        ("orders", 5, 5),
    ]
    settings = RebalanceJob(pinned_partitions=runs).settings()
    assert settings.pinned == {"orders": numbers, "clicks": {3}}


@given(worlds(), st.data())
def test_none_of_them_moves(world: World, data: st.DataObject) -> None:
    names = [one.name for one in world.partitions]
    chosen = data.draw(st.frozensets(st.sampled_from(names))) if names else frozenset()
    pinned: dict[str, frozenset[PartitionIndex]] = {}
    for one in chosen:
        pinned[one.topic] = pinned.get(one.topic, frozenset()) | {one.partition}
    settings = Settings(pinned=pinned)
    found = propose(world.brokers, world.partitions, world.measurements, settings)

    moved = {one.name for one in found.leader_moves}
    moved |= {change.name for change in found.replica_changes}
    assert moved.isdisjoint(chosen)
    assert found.num_pinned_partitions == len(chosen)
    assert proposal_json(found)["numPinnedPartitions"] == len(chosen)


def test_others_move_around_them() -> None:
    partitions = tuple(partition(index, (1, 2)) for index in range(4))
    measured = {one.name: rated(1.0, 100) for one in partitions}
    pinned = {"orders": frozenset(map(PartitionIndex, (0, 1)))}
    found = propose(brokers(2), partitions, measured, Settings(pinned=pinned))

    assert {move.name.partition for move in found.leader_moves if move.is_movement} == {2, 3}
    assert [one.leaders for one in found.after] == [2, 2]
