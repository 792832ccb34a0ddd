"""Simulated consumer groups: they consume, recover, and what a coordinator knows is in its log."""

import json
from dataclasses import replace

import pytest

from chiplog_wire.protocol.consumer_protocol import subscribed_topics
from e2e.lanes import sample
from e2e.sim.faults import FAULT_NAMES, OF_GROUPS, Mix
from e2e.sim.groups.assignments import assigned, assignment, in_ranges, subscription
from e2e.sim.groups.habits import GroupHabits
from e2e.sim.groups.notes import who_is
from e2e.sim.groups.replay import replay, shard_differences, shards_on
from e2e.sim.loop import START_S, SimLoop
from e2e.sim.run import GROUPS_S, chosen, options_of
from e2e.sim.seed import Result, groups_of, mix_from, mix_of, mix_of_groups, run_seed
from e2e.sim.table import table
from e2e.sim.world import World

pytestmark = pytest.mark.usefixtures("no_log_lines")

FEW = GroupHabits(groups=1, members=2, commit_s=2.0)
AN_HOUR = range(1, 3)


def test_a_group_without_faults() -> None:
    result = run_seed(1, Mix(faults_s=20.0, groups=FEW))
    assert result.anomalies == []
    assert result.rebalances >= 1
    assert result.commits > 20


@pytest.mark.parametrize("fault", ["coordinator killed", "member frozen", "member twice"])
def test_one_fault_of_groups_again_and_again(fault: str) -> None:
    mix = Mix(brokers=3, faults_s=40.0, every_s=8.0, weights={fault: 1.0}, groups=FEW)
    result = run_seed(2, replace(mix, groups=replace(FEW, static_share=1.0)))
    assert result.anomalies == []
    assert result.faults[fault] > 1
    assert result.commits > 10


@pytest.mark.sim
@pytest.mark.parametrize("fault", sample(sorted(OF_GROUPS), 6))
def test_each_fault_of_groups(fault: str) -> None:
    mix = Mix(brokers=3, faults_s=60.0, every_s=10.0, weights={fault: 1.0}, groups=FEW)
    result = run_seed(3, mix)
    assert result.anomalies == []
    assert result.faults[fault] > 1


@pytest.mark.sim
@pytest.mark.parametrize("seed", sample(AN_HOUR, 2))
def test_an_hour_of_groups_only(seed: int) -> None:
    """Together; the first runs of `make sim-groups`."""
    result = run_seed(seed, mix_of_groups(seed, GROUPS_S))
    assert result.anomalies == []
    assert result.simulated_s >= GROUPS_S
    assert result.rebalances > 5
    assert result.commits > 100
    print(table([result]))


def test_an_hour_is_so_many_runs() -> None:
    assert [seed for seed, _ in chosen(options_of(["--group-hours", "1"]))] == list(AN_HOUR)


def test_faults_of_groups_only_where_there_are_groups() -> None:
    assert not set(OF_GROUPS) & set(FAULT_NAMES)
    mix = Mix(faults_s=3.0, every_s=0.1, weights=dict.fromkeys(sorted(OF_GROUPS), 1.0))
    result = run_seed(1, replace(mix, weights={"member killed": 1.0, "group deleted": 1.0}))
    assert result.anomalies == []


def test_some_seeds_have_groups_and_all_else_of_theirs_is_as_without() -> None:
    with_groups = [seed for seed in range(1, 61) if groups_of(seed)[0] is not None]
    assert 10 < len(with_groups) < 30
    mix = mix_of(with_groups[0])
    assert mix.groups is not None
    assert set(mix.weights) <= {*FAULT_NAMES, *OF_GROUPS}


def test_what_is_kept_of_a_seed_with_groups_is_the_same_seed() -> None:
    mix = mix_of_groups(4, 100.0)
    kept = Result(seed=4, mix=mix).to_json()
    assert mix_from(json.loads(kept)["mix"]) == mix


def test_ranges_of_partitions() -> None:
    places = [("a", 0), ("a", 1), ("a", 2), ("b", 0)]
    shares = in_ranges(["y", "x"], places)
    assert shares == {"x": [("a", 0), ("a", 1), ("b", 0)], "y": [("a", 2)]}
    assert assigned(assignment(shares["x"])) == frozenset(shares["x"])
    assert assigned(b"") == frozenset()
    assert subscribed_topics(subscription(["a", "b"])) == frozenset({"a", "b"})


def test_a_static_member_is_known_by_its_instance() -> None:
    unique = "-00000000-0000-0000-0000-000000000000"
    assert who_is("fixed-m1" + unique) == "fixed-m1"
    assert who_is("m1" + unique) == "m1" + unique


def test_live_state_that_is_not_in_the_log_is_seen() -> None:
    loop = SimLoop()
    loop.set_exception_handler(lambda _loop, _context: None)
    found: list[str] = []

    async def world_with_a_group() -> None:
        from e2e.sim import seed as of_seed  # noqa: PLC0415

        world = World(loop, "a seed", 1, 1)
        mix = Mix(brokers=1, operators=1, faults_s=5.0, groups=FEW)
        assert await of_seed._phases(world, mix, world.own_chance()) == []
        (shard,) = shards_on(world.nodes[1])
        replayed = replay(shard.partition)
        assert replayed is not None
        assert list(shard_differences(shard, replayed)) == []
        shard._log.state._offsets["group-1"].popitem()
        found.extend(shard_differences(shard, replayed))
        world.server.on_write.clear()
        await world.end()

    try:
        loop.run_until_complete(world_with_a_group())
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
    assert loop.now_s > START_S
    assert len(found) == 1
    assert found[0].startswith("group-1 committed")
