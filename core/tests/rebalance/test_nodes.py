"""Rebalances where several brokers run on one node."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.even import is_even
from chiplog_core.rebalance.measured import Broker, PartitionName
from chiplog_core.rebalance.replicas import replica_moves, replicas_after
from chiplog_core.rebalance.settings import Settings, read_settings
from tests.rebalance.worlds import World, partition, rated

FULL = Settings()


def members(*nodes: str, racks: str = "") -> tuple[Broker, ...]:
    """Brokers on these nodes, in the order of their ids; `racks` has one letter for each."""
    return tuple(
        Broker(broker_id=BrokerId(number), node=node, rack=racks[number - 1] if racks else None)
        for number, node in enumerate(nodes, 1)
    )


def world_of(brokers: tuple[Broker, ...], *orders: tuple[int, ...], size: int = 1000) -> World:
    found = tuple(partition(index, order) for index, order in enumerate(orders))
    return World(brokers, found, {one.name: rated(1.0, size) for one in found})


def after(world: World, settings: Settings = FULL) -> dict[PartitionName, tuple[BrokerId, ...]]:
    now = {one.name: one.replicas for one in world.partitions}
    moves, _ = replica_moves(world.brokers, world.partitions, now, world.measurements, settings)
    return replicas_after(now, moves)


def shared(world: World, replicas: tuple[BrokerId, ...], domain: str) -> int:
    """How many replicas are in a rack or on a node with another one of their partition."""
    places = {one.broker_id: getattr(one, domain) for one in world.brokers}
    known = [places[one] for one in replicas if places[one] is not None]
    return len(known) - len(set(known))


def test_two_replicas_on_one_node_are_parted() -> None:
    world = world_of(members("x", "x", "y", "y"), (1, 2), (4, 3), size=0)

    assert [shared(world, one, "node") for one in after(world).values()] == [0, 0]


def test_nodes_are_left_alone_without_the_goal() -> None:
    world = world_of(members("x", "x", "y", "y"), (1, 2), size=0)
    settings = read_settings(goals=["DiskUsageDistributionGoal"])

    assert list(after(world, settings).values()) == [(1, 2)]


def test_two_replicas_stay_on_the_only_node() -> None:
    world = world_of(members("x", "x", "x"), (1, 2), size=0)

    assert list(after(world).values()) == [(1, 2)]


def test_a_rack_of_its_own_counts_more_than_a_node_of_its_own() -> None:
    world = world_of(members("x", "x", "y", "z", racks="aaab"), (1, 2), (1, 3), size=0)

    assert list(after(world).values()) == [(1, 4), (1, 4)]


def test_replicas_in_one_rack_are_parted_onto_its_nodes() -> None:
    world = world_of(members("x", "x", "y", racks="aaa"), (1, 2), size=0)

    assert list(after(world).values()) == [(1, 3)]


def test_an_added_broker_gets_no_replica_whose_partition_is_on_its_node() -> None:
    world = world_of(members("x", "y", "y"), *[(1, 2)] * 20)

    moved = after(world, read_settings(mode="add-brokers", brokers=[3]))

    assert set(moved.values()) == {(1, 2), (1, 3)}


def test_a_broker_that_is_removed_is_emptied_onto_a_node_with_another_replica_if_need_be() -> None:
    world = world_of(members("x", "x", "y"), (1, 3), (3, 1))

    moved = after(world, read_settings(mode="remove-brokers", brokers=[3]))

    assert sorted(map(sorted, moved.values())) == [[1, 2], [1, 2]]


def test_a_broker_that_is_removed_is_emptied_onto_other_nodes_if_there_are() -> None:
    world = world_of(members("x", "x", "y", "z"), *[(1, 3), (3, 1)] * 5)

    moved = after(world, read_settings(mode="remove-brokers", brokers=[3]))

    assert {tuple(sorted(one)) for one in moved.values()} == {(1, 4)}


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two to four nodes with two brokers each, in racks or not; partitions on any brokers."""
    nodes = draw(st.integers(2, 4))
    racks = draw(st.sampled_from([None, "ab", "abc"]))
    brokers = tuple(
        Broker(
            broker_id=BrokerId(number + 1),
            node=f"n{number % nodes}",
            rack=racks[number % nodes % len(racks)] if racks else None,
        )
        for number in range(2 * nodes)
    )
    ids = [one.broker_id for one in brokers]
    count = draw(st.integers(1, 30))
    found = tuple(
        partition(index, draw(st.permutations(ids))[: draw(st.integers(1, nodes))])
        for index in range(count)
    )
    sizes = {one.name: rated(1.0, draw(st.integers(0, 10**6))) for one in found}
    return World(brokers, found, sizes)


@given(worlds())
def test_a_proposal_repairs_what_shares_a_node_and_brings_none_together(world: World) -> None:
    for replicas in after(world).values():
        assert shared(world, replicas, "node") == 0


@given(worlds(), st.data())
def test_no_mode_brings_replicas_together(world: World, data: st.DataObject) -> None:
    named = data.draw(st.sampled_from(world.usable))
    mode = data.draw(st.sampled_from(["add-brokers", "full"]))
    before = {one.name: one.replicas for one in world.partitions}

    for name, replicas in after(world, read_settings(mode=mode, brokers=[named])).items():
        assert shared(world, replicas, "node") <= shared(world, before[name], "node")
        assert shared(world, replicas, "rack") <= shared(world, before[name], "rack")


@given(worlds())
def test_bytes_become_even_on_nodes_of_the_same_size(world: World) -> None:
    """Equal partitions of one replica: nodes forbid none of the moves."""
    found = tuple(
        replace(one, replicas=one.replicas[:1], isr=one.replicas[:1]) for one in world.partitions
    )
    equal = World(world.brokers, found, {one.name: rated(1.0, 1000) for one in found})

    loads = dict.fromkeys(world.usable, 0)
    for (broker_id,) in after(equal).values():
        loads[broker_id] += 1
    assert is_even(loads) or max(loads.values()) - min(loads.values()) <= 1
