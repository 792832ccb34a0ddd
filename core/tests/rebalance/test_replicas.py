"""Replica moves: an even spread of bytes, racks kept apart, brokers emptied."""

from collections import Counter
from dataclasses import replace
from itertools import chain

from hypothesis import given

from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_REPLICA_MOVES
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.documents import reassignment_json
from chiplog_core.rebalance.even import even_counts, is_even
from chiplog_core.rebalance.measured import Broker, Partition, PartitionName
from chiplog_core.rebalance.proposal import propose
from chiplog_core.rebalance.replicas import ReplicaChange, replica_moves, replicas_after
from chiplog_core.rebalance.settings import Settings, read_settings
from tests.rebalance.worlds import World, brokers, partition, rated, worlds

FULL = Settings()


def orders(world: World) -> dict[PartitionName, tuple[BrokerId, ...]]:
    return {one.name: one.replicas for one in world.partitions}


def after(world: World, settings: Settings = FULL) -> dict[PartitionName, tuple[BrokerId, ...]]:
    now = {one.name: one.replicas for one in world.partitions}
    moves, _ = replica_moves(world.brokers, world.partitions, now, world.measurements, settings)
    return replicas_after(now, moves)


def bytes_of(
    world: World, replicas: dict[PartitionName, tuple[BrokerId, ...]]
) -> dict[BrokerId, int]:
    return {
        broker_id: sum(
            measured.bytes
            for name, measured in world.measurements.items()
            if broker_id in replicas[name]
        )
        for broker_id in world.usable
    }


def shared_racks(world: World, replicas: tuple[BrokerId, ...]) -> int:
    racks = {one.broker_id: one.rack for one in world.brokers}
    named = [racks[one] for one in replicas if racks[one] is not None]
    return len(named) - len(set(named))


@given(worlds())
def test_the_spread_is_never_worse_and_replicas_stay_apart(world: World) -> None:
    moved = after(world)

    for one in world.partitions:
        assert len(set(moved[one.name])) == len(one.replicas)
        assert shared_racks(world, moved[one.name]) <= shared_racks(world, one.replicas)
        if one.name not in world.measurements:
            assert moved[one.name] == one.replicas
        assert set(moved[one.name]) - set(one.replicas) <= set(world.usable)
    if all(one.rack is None for one in world.brokers):
        before, now = bytes_of(world, orders(world)), bytes_of(world, moved)
        assert max(now.values()) <= max(before.values())
        assert min(now.values()) >= min(before.values())


@given(worlds())
def test_what_is_reported_is_what_the_reassignment_makes(world: World) -> None:
    found = propose(world.brokers, world.partitions, world.measurements, FULL)

    ordered = {one.name: one.replicas for one in world.partitions}
    ordered.update({one.name: one.replicas for one in found.leader_moves})
    assert all(ordered[one.name] == one.expected_replicas for one in found.replica_changes)
    ordered.update({one.name: one.replicas for one in found.replica_changes})

    reported = {one.broker_id: one.bytes for one in found.after}
    counted = bytes_of(world, ordered)
    assert {one: reported.get(one, 0) for one in counted} == counted


def test_a_new_broker_gets_its_share() -> None:
    found = tuple(partition(index, (1, 2)) for index in range(30))
    world = World(brokers(3), found, {one.name: rated(1.0, 1000) for one in found})

    assert is_even(bytes_of(world, after(world)))


def test_to_added_brokers_only() -> None:
    found = tuple(partition(index, (1, 2)) for index in range(30))
    world = World(brokers(4), found, {one.name: rated(1.0, 1000) for one in found})

    moved = after(world, read_settings(mode="add-brokers", brokers=[4]))

    loads = bytes_of(world, moved)
    assert loads[BrokerId(3)] == 0
    assert loads[BrokerId(4)] > 10_000


def test_an_added_broker_gets_no_replica_whose_partition_is_in_its_rack() -> None:
    members = tuple(
        Broker(broker_id=BrokerId(number), rack=rack)
        for number, rack in [(1, "a"), (2, "b"), (3, "b")]
    )
    found = tuple(partition(index, (1, 2)) for index in range(20))
    world = World(members, found, {one.name: rated(1.0, 1000) for one in found})

    moved = after(world, read_settings(mode="add-brokers", brokers=[3]))

    assert Counter(moved.values()) == {(1, 2): 10, (1, 3): 10}, "broker 1 stays the fullest"


def test_a_broker_gets_no_second_replica_of_a_partition() -> None:
    """The other replica is so large that its move would only reverse the difference."""
    found = (partition(0, (1, 2)), partition(1, (1,)))
    sizes = {found[0].name: rated(1.0, 100), found[1].name: rated(1.0, 900)}
    world = World(brokers(2), found, sizes)

    assert after(world) == orders(world)


def test_a_broker_that_is_removed_is_empty_afterwards() -> None:
    found = tuple(
        partition(index, order) for index, order in enumerate([(1, 2), (2, 3), (3, 1), (3, 2)])
    )
    world = World(brokers(4), found, {one.name: rated(1.0, 1000) for one in found})

    moved = after(world, read_settings(mode="remove-brokers", brokers=[3]))

    assert not [replicas for replicas in moved.values() if BrokerId(3) in replicas]
    assert moved[found[0].name] == (1, 2)


def test_a_proposal_moves_only_so_many_replicas() -> None:
    found = tuple(partition(index, (1,)) for index in range(MAX_REPLICA_MOVES + 50))
    world = World(brokers(3), found, {one.name: rated(1.0, 1000) for one in found})

    for settings in (FULL, read_settings(mode="remove-brokers", brokers=[1])):
        now = {one.name: one.replicas for one in found}
        moves, _ = replica_moves(world.brokers, found, now, world.measurements, settings)
        assert len(moves) <= MAX_REPLICA_MOVES
    assert len(moves) == MAX_REPLICA_MOVES


def test_two_replicas_in_one_rack_are_parted_where_there_is_another() -> None:
    members = tuple(
        Broker(broker_id=BrokerId(number), rack=rack)
        for number, rack in [(1, "a"), (2, "a"), (3, "b")]
    )
    found = (partition(0, (1, 2)),)
    world = World(members, found, {found[0].name: rated(1.0, 1000)})

    assert after(world) == {found[0].name: (1, 3)}


def test_a_follower_moves_rather_than_a_leader() -> None:
    found: tuple[Partition, ...] = (partition(0, (1, 2)), partition(1, (2, 1)))
    world = World(brokers(4), found, {one.name: rated(1.0, 1000) for one in found})

    moved = after(world)

    assert [replicas[0] for replicas in moved.values()] == [1, 2]


def test_the_reassignment_is_as_kafkas_tool_reads_it() -> None:
    one = partition(3, (1, 2))

    change = ReplicaChange(
        name=one.name, replicas=one.replicas, expected_replicas=(BrokerId(3), BrokerId(2))
    )
    assert reassignment_json([change]) == {
        "version": 1,
        "partitions": [{"topic": "orders", "partition": 3, "replicas": [1, 2]}],
    }


def test_without_the_goals_of_racks_and_bytes_no_replica_moves() -> None:
    members = tuple(
        Broker(broker_id=BrokerId(number), rack=rack)
        for number, rack in [(1, "a"), (2, "a"), (3, "b")]
    )
    found = tuple(partition(index, (1, 2)) for index in range(6))
    world = World(members, found, {one.name: rated(1.0, 1000) for one in found})

    leaders_only = read_settings(goals=["LeaderReplicaDistributionGoal"])
    racks_only = read_settings(goals=["RackAwareGoal"])
    bytes_only = read_settings(goals=["DiskUsageDistributionGoal"])

    assert after(world, leaders_only) == orders(world)
    assert {shared_racks(world, one) for one in after(world, racks_only).values()} == {0}
    assert is_even(bytes_of(world, after(world, bytes_only)))


def test_two_replicas_in_one_rack_stay_where_there_is_no_other() -> None:
    members = tuple(Broker(broker_id=BrokerId(number), rack="a") for number in (1, 2, 3))
    found = (partition(0, (1, 2)),)
    world = World(members, found, {found[0].name: rated(1.0, 1000)})

    assert after(world, read_settings(goals=["RackAwareGoal"])) == orders(world)


NUMBER, BYTES = "ReplicaDistributionGoal", "DiskUsageDistributionGoal"


def numbers(
    world: World, replicas: dict[PartitionName, tuple[BrokerId, ...]]
) -> dict[BrokerId, int]:
    found = Counter(chain.from_iterable(replicas.values()))
    return {broker_id: found[broker_id] for broker_id in world.usable}


@given(worlds())
def test_numbers_of_replicas_are_never_less_even(world: World) -> None:
    before = numbers(world, orders(world))
    fewest, most = even_counts(sum(before.values()), len(before))
    for goals in ([NUMBER], [NUMBER, BYTES]):
        now = numbers(world, after(world, read_settings(goals=goals)))
        assert sum(now.values()) == sum(before.values())
        assert max(now.values()) <= max(*before.values(), most)
        assert min(now.values()) >= min(*before.values(), fewest)


@given(worlds(rate="equal", all_usable=True))
def test_numbers_of_replicas_become_even_where_racks_allow_it(world: World) -> None:
    apart = replace(world, brokers=tuple(replace(one, rack=None) for one in world.brokers))
    now = numbers(apart, after(apart, read_settings(goals=[NUMBER])))
    fewest, most = even_counts(sum(now.values()), len(now))
    assert fewest <= min(now.values())
    assert max(now.values()) <= most


@given(worlds())
def test_each_replica_moves_at_most_once(world: World) -> None:
    now = orders(world)
    moves, _ = replica_moves(world.brokers, world.partitions, now, world.measurements, FULL)
    assert len({(one.name, one.from_broker) for one in moves}) == len(moves)
    at_end = replicas_after(now, moves)
    for name in now:
        come = [one.to_broker for one in moves if one.name == name]
        assert sorted(come) == sorted(set(at_end[name]) - set(now[name]))


def many_small_and_few_large() -> World:
    """Broker 1 has 30 replicas of 10 bytes, broker 2 has 10 of 1,000."""
    found = tuple(partition(index, (1 if index < 30 else 2,)) for index in range(40))
    sizes = {one.name: rated(1.0, 10 if index < 30 else 1000) for index, one in enumerate(found)}
    return World(brokers(2), found, sizes)


def test_numbers_and_bytes_become_even_together() -> None:
    """By number alone the smallest replicas move. By bytes alone, 5 large ones would: broker 1 had
    35 replicas then. With both, as many small ones move in exchange."""
    world = many_small_and_few_large()
    by_number = after(world, read_settings(goals=[NUMBER]))
    assert sorted(numbers(world, by_number).values()) == [19, 21]
    assert bytes_of(world, by_number) == {1: 210, 2: 10_090}

    by_bytes = after(world, read_settings(goals=[BYTES]))
    assert sorted(numbers(world, by_bytes).values()) == [5, 35]
    assert is_even(bytes_of(world, by_bytes))

    both = after(world, read_settings(goals=[BYTES, NUMBER]))
    assert sorted(numbers(world, both).values()) == [19, 21]
    assert is_even(bytes_of(world, both))


def test_empty_partitions_are_moved_to_make_numbers_even() -> None:
    found = tuple(partition(index, (1, 2)) for index in range(30))
    world = World(brokers(3), found, {one.name: rated(0.0, 0) for one in found})
    assert sorted(numbers(world, after(world)).values()) == [19, 20, 21]
    assert after(world, read_settings(goals=[BYTES])) == orders(world)


def test_an_added_broker_gets_its_number_of_replicas_and_gives_none_back() -> None:
    found = tuple(partition(index, (1 + index % 3,)) for index in range(40))
    sizes = {one.name: rated(1.0, 10 + 90 * (index % 2)) for index, one in enumerate(found)}
    world = World(brokers(4), found, sizes)
    moved = after(world, read_settings(mode="add-brokers", brokers=[4]))
    assert numbers(world, moved)[BrokerId(4)] >= 9
    for name, replicas in orders(world).items():
        assert moved[name] in (replicas, (BrokerId(4),))


def test_a_broker_that_is_removed_gives_each_other_one_as_many() -> None:
    """The bytes alone would give broker 3 everything."""
    large = tuple(partition(index, (2,)) for index in range(10))
    small = tuple(partition(index, (1,)) for index in range(10, 30))
    sizes = {one.name: rated(1.0, 100_000) for one in large}
    sizes |= {one.name: rated(1.0, 10) for one in small}
    world = World(brokers(3), (*large, *small), sizes)
    for goals, expected in (([NUMBER, BYTES], [14, 16]), ([BYTES], [10, 20])):
        settings = read_settings(mode="remove-brokers", brokers=[1], goals=goals)
        assert sorted(numbers(world, after(world, settings)).values())[1:] == expected


def test_numbers_leave_half_of_the_moves_to_bytes() -> None:
    """Two brokers are added to one with very many replicas."""
    found = tuple(partition(index, (1,)) for index in range(4 * MAX_REPLICA_MOVES))
    sizes = {one.name: rated(1.0, 1000 if index < 4 else 1) for index, one in enumerate(found)}
    world = World(brokers(3), found, sizes)
    now = orders(world)
    moves, _ = replica_moves(world.brokers, found, now, world.measurements, FULL)
    assert len(moves) == MAX_REPLICA_MOVES
    by_number = read_settings(goals=[NUMBER])
    moves, _ = replica_moves(world.brokers, found, now, world.measurements, by_number)
    assert len(moves) == MAX_REPLICA_MOVES
    assert {one.bytes for one in moves} == {1}


def test_an_exchange_only_where_a_replica_may_move_back() -> None:
    world = many_small_and_few_large()
    full = Capacity(total_bytes=10**6, free_bytes=5)
    without_room = replace(
        world, brokers=(world.brokers[0], replace(world.brokers[1], capacity=full))
    )
    assert after(without_room) == orders(world)
    assert after(world, read_settings(mode="add-brokers", brokers=[1])) == orders(world)


def test_no_exchange_where_every_large_replica_would_reverse_the_difference() -> None:
    found = (partition(0, (1,)), *(partition(index, (2,)) for index in (1, 2)))
    sizes = {found[0].name: rated(1.0, 1000)} | {one.name: rated(1.0, 10) for one in found[1:]}
    world = World(brokers(2), found, sizes)
    assert after(world) == orders(world)


def test_a_broker_whose_only_replica_cannot_help_is_passed_over() -> None:
    """The fullest broker stays as it is, while others become even."""
    found = (partition(0, (1,)), *(partition(index, (2,)) for index in range(1, 7)))
    sizes = {found[0].name: rated(1.0, 100)} | {one.name: rated(1.0, 10) for one in found[1:]}
    world = World(brokers(4), found, sizes)
    moved = after(world, read_settings(goals=["DiskUsageDistributionGoal"]))
    assert bytes_of(world, moved) == {1: 100, 2: 20, 3: 20, 4: 20}
