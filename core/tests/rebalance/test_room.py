"""The capacity goals: nothing moves to a broker without room, and what is above a limit moves."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.measured import Broker, sizes_of
from chiplog_core.rebalance.proposal import Proposal, propose
from chiplog_core.rebalance.room import Room
from chiplog_core.rebalance.settings import Settings, read_settings
from tests.rebalance.worlds import World, brokers, partition, rated, worlds

MIB = 2**20
HARD = ["ReplicaCapacityGoal", "DiskCapacityGoal"]
REPLICAS_ONLY, DISK_ONLY = ([goal] for goal in HARD)


def limited(count: int, **capacity: int) -> tuple[Broker, ...]:
    return tuple(replace(one, capacity=Capacity(**capacity)) for one in brokers(count))


def volumes(*mib: int, percent: int = 100) -> tuple[Broker, ...]:
    return tuple(
        replace(one, capacity=Capacity(total_bytes=size * MIB, max_disk_percent=percent))
        for one, size in zip(brokers(len(mib)), mib, strict=True)
    )


def world(members: tuple[Broker, ...], *placed: tuple[tuple[int, ...], int]) -> World:
    """Partitions with these replicas and MiB."""
    found = tuple(partition(index, replicas) for index, (replicas, _) in enumerate(placed))
    sizes = {one.name: rated(0.0, mib * MIB) for one, (_, mib) in zip(found, placed, strict=True)}
    return World(members, found, sizes)


def proposed(of: World, settings: Settings) -> Proposal:
    return propose(of.brokers, of.partitions, of.measurements, settings)


def held(proposal: Proposal) -> dict[int, tuple[int, int]]:
    """Replicas and MiB of each broker after the moves."""
    return {one.broker_id: (one.replicas, one.bytes // MIB) for one in proposal.after}


@st.composite
def limits(draw: st.DrawFn) -> World:
    found = draw(worlds())
    optional = st.one_of(st.none(), st.integers(0, 6 * 10**6))
    members = tuple(
        replace(
            one,
            capacity=Capacity(
                max_replicas=draw(st.one_of(st.none(), st.integers(1, 20))),
                internal_replicas=draw(st.integers(0, 3)),
                max_disk_percent=draw(st.sampled_from((50, 80, 100))),
                total_bytes=draw(optional),
                free_bytes=draw(optional),
            ),
        )
        for one in found.brokers
    )
    return replace(found, brokers=members)


@given(limits(), st.sampled_from(["full", "add-brokers", "remove-brokers"]))
def test_no_broker_gets_more_than_it_may_hold(of: World, mode: str) -> None:
    named = [one.broker_id for one in of.brokers if one.broker_id != of.usable[0]]
    settings = read_settings(mode=mode, brokers=named[:1]) if named else Settings()
    found = proposed(of, settings)
    orders = {one.name: one.replicas for one in of.partitions}
    sizes = sizes_of(of.partitions, of.measurements)
    before = Room(of.brokers, orders, sizes, settings)
    orders.update({one.name: one.replicas for one in found.leader_moves})
    orders.update({one.name: one.replicas for one in found.replica_changes})
    after = Room(of.brokers, orders, sizes, settings)
    for broker in of.brokers:
        one = broker.broker_id
        assert after.excess_replicas(one) <= before.excess_replicas(one)
        assert after.excess_bytes(one) <= before.excess_bytes(one)
        gained = sum(move.bytes for move in found.replica_moves if move.to_broker == one)
        assert broker.capacity.free_bytes is None or gained <= broker.capacity.free_bytes
        if after.excess_replicas(one) or after.excess_bytes(one):
            assert "is not met: broker" in found.capacity_message


def test_a_broker_with_too_many_replicas_gives_the_smallest_away() -> None:
    of = world(limited(3, max_replicas=3), *[((1,), size) for size in (5, 1, 9, 2, 7)], ((2,), 1))
    found = proposed(of, read_settings(goals=REPLICAS_ONLY))
    assert sorted(one.bytes // MIB for one in found.replica_moves) == [1, 2]
    assert {one: replicas for one, (replicas, _) in held(found).items()} == {1: 3, 2: 2, 3: 1}
    assert found.capacity_message == ""


def test_a_broker_with_too_many_bytes_gives_what_is_too_much() -> None:
    of = world(volumes(100, 100, percent=80), *[((1,), size) for size in (50, 22, 15, 3)])
    found = proposed(of, read_settings(goals=DISK_ONLY))
    assert [one.bytes // MIB for one in found.replica_moves] == [3, 15], found.replica_moves
    of = world(volumes(100, 100, percent=80), ((1,), 50), ((1,), 48))
    found = proposed(of, read_settings(goals=DISK_ONLY))
    assert [one.bytes // MIB for one in found.replica_moves] == [48]


def test_followers_move_before_leaders() -> None:
    of = world(limited(3, max_replicas=2), ((1, 2), 1), ((2, 1), 5), ((1, 2), 1))
    found = proposed(of, read_settings(goals=REPLICAS_ONLY))
    assert [(one.name.partition, one.from_broker) for one in found.replica_moves] == [
        (1, 1),
        (0, 2),
    ]


def test_internal_replicas_and_those_of_other_topics_count() -> None:
    capacity = {"max_replicas": 3, "internal_replicas": 2}
    of = world(limited(2, **capacity), ((1,), 1), ((1,), 1))
    settings = read_settings(goals=HARD, excluded_topics="nothing")
    assert held(proposed(of, settings)) == {1: (1, 1), 2: (1, 1)}
    stuck = proposed(of, read_settings(goals=HARD, excluded_topics="orders"))
    assert stuck.capacity_message == (
        "ReplicaCapacityGoal is not met: broker 1 would hold 4 replicas, 1 more than 3: add "
        "brokers, delete data, or raise spec.brokerCapacity of the BrokerCluster"
    )


def test_without_the_goal_there_is_no_limit() -> None:
    of = world(volumes(10, 10), *[((1,), 8)] * 4)
    assert len(proposed(of, read_settings()).replica_moves) == 1
    even = proposed(of, read_settings(goals=["DiskUsageDistributionGoal"]))
    assert (len(even.replica_moves), even.capacity_message) == (2, "")


def test_an_even_spread_stops_at_the_limit() -> None:
    of = world(volumes(1000, 30), *[((1,), 10)] * 10)
    found = proposed(of, read_settings())
    assert held(found) == {1: (7, 70), 2: (3, 30)}
    of = world(volumes(1000, 30), ((1,), 50), ((1,), 40), ((1,), 20), ((1,), 10))
    assert held(proposed(of, read_settings()))[2] == (2, 30), "the largest that fit"
    full = tuple(replace(one, capacity=Capacity(free_bytes=10 * MIB)) for one in brokers(2))
    of = world(full, *[((1,), 10)] * 10)
    assert held(proposed(of, read_settings())) == {1: (9, 90), 2: (1, 10)}


def unmeasured(of: World, index: int, **partition: Any) -> World:
    """The same, but nobody measured this partition."""
    changed = replace(of.partitions[index], **partition)
    partitions = (*of.partitions[:index], changed, *of.partitions[index + 1 :])
    sizes = {name: size for name, size in of.measurements.items() if name != changed.name}
    return replace(of, partitions=partitions, measurements=sizes)


PLACED: tuple[tuple[tuple[int, ...], int], ...] = (
    *(((1,), 300),) * 2,
    *(((2,), 350),) * 2,
    ((3,), 700),
)


@pytest.mark.parametrize("known", [True, False])
def test_a_partition_that_was_not_measured_is_not_empty(known: bool) -> None:
    members = volumes(1000, 1000, 1000, percent=80)
    if known:
        of = unmeasured(world(members, *PLACED), 4, known_bytes=700 * MIB)
    else:
        third = replace(members[2].capacity, log_bytes=700 * MIB)
        members = (*members[:2], replace(members[2], capacity=third))
        of = unmeasured(world(members, *PLACED), 4)
    found = proposed(of, Settings())
    assert (found.replica_moves, found.capacity_message) == ((), "")
    assert held(found)[3] == (1, 700 if known else 0)
    full = proposed(of, read_settings(mode="remove-brokers", brokers=[1]))
    assert [move.to_broker for move in full.replica_moves] == []


def test_what_is_being_copied_takes_free_space() -> None:
    first, second = brokers(2)
    second = replace(second, capacity=Capacity(free_bytes=100 * MIB))
    of = world((first, second), *[((1,), 30)] * 3, ((1, 2), 50))
    moves = proposed(of, Settings()).replica_moves
    assert len(moves) == 1
    copying = unmeasured(of, 3, known_bytes=80 * MIB, adding=(BrokerId(2),))
    assert proposed(copying, Settings()).replica_moves == ()


def test_what_cannot_be_met_is_told_with_figures() -> None:
    of = world(volumes(10, 10, percent=80), *[((1,), 6)] * 2, ((2,), 7))
    assert proposed(of, read_settings()).capacity_message == (
        "DiskCapacityGoal is not met: broker 1 would hold 12 MB, 4 MB more than 80 % of its "
        "volume: add brokers, delete data, or raise spec.brokerCapacity of the BrokerCluster"
    )


def test_at_most_five_brokers_are_named() -> None:
    of = world(volumes(*[1] * 7), *[((one + 1,), 2) for one in range(7)])
    message = proposed(of, read_settings()).capacity_message
    assert message.count("is not met") == 5
    assert "; 2 more: add brokers" in message


@pytest.mark.parametrize(("spare", "moved"), [(100, 3), (20, 2), (0, 0)])
def test_a_removed_broker_keeps_what_has_no_room_elsewhere(spare: int, moved: int) -> None:
    of = world(volumes(1000, spare), *[((1,), 10)] * 3)
    found = proposed(of, read_settings(mode="remove-brokers", brokers=[1]))
    assert len(found.replica_moves) == moved
    expected = (
        f"broker 1 cannot be emptied: it keeps {'1 replica' if moved == 2 else '3 replicas'} "
        f"({30 - 10 * moved} MB), and no other broker has room for a replica of more than 0 "
        "MB: add brokers, delete data, or raise spec.brokerCapacity of the BrokerCluster"
    )
    assert found.capacity_message == ("" if moved == 3 else expected)


def test_what_the_next_proposal_can_move_is_not_stuck() -> None:
    of = world(brokers(2), *[((1,), 1)] * 1_001)
    found = proposed(of, read_settings(mode="remove-brokers", brokers=[1]))
    assert (len(found.replica_moves), found.capacity_message) == (1_000, "")


FULL_TEXT = "no other broker that may take them has room for a replica of more than 100 MB"


@pytest.mark.parametrize(
    ("racks", "mib", "placed", "why"),
    [
        ("aabb", (1000, 1000, 1000, 100), (1, 3), FULL_TEXT),
        ("abc", (1000, 100, 1000), (1, 3), FULL_TEXT),
        ("ab", (1000, 1000), (1, 2), "all others hold a replica of the partition"),
        ("abb", (1000, 1000, 1000), (1, 3), ""),
        ("aab", (1000, 1000, 1000), (1, 3), "or are in the rack of one"),
    ],
)
def test_a_removed_broker_is_named_if_none_that_may_take_a_replica_has_room(
    racks: str, mib: tuple[int, ...], placed: tuple[int, ...], why: str
) -> None:
    members = tuple(replace(one, rack=rack) for one, rack in zip(volumes(*mib), racks, strict=True))
    removed = BrokerId(placed[-1])
    of = world(members, (placed, 500))
    found = proposed(of, read_settings(mode="remove-brokers", brokers=[removed]))
    assert why in found.capacity_message
    if why:
        assert found.replica_moves == ()
        begin = f"broker {removed} cannot be emptied: it keeps 1 replica (500 MB), and "
        assert found.capacity_message.startswith(begin)
    else:
        assert (len(found.replica_moves), found.capacity_message) == (1, "")


def test_a_removed_broker_that_only_the_number_of_replicas_holds_back_is_told_so() -> None:
    placed = (((1,), 0), ((1,), 0), ((2,), 0), ((2,), 0), ((3,), 0), ((3,), 5))
    settings = read_settings(mode="remove-brokers", brokers=[3])
    found = proposed(world(limited(3, max_replicas=2), *placed), settings)
    assert found.capacity_message.startswith(
        "broker 3 cannot be emptied: it keeps 2 replicas (5 MB), and all others hold maxReplicas:"
    )
    few = Capacity(max_replicas=1)
    members = (replace(brokers(1)[0], capacity=few), *brokers(3)[1:])
    found = proposed(world(members, ((1,), 1), ((2, 3), 5)), settings)
    assert "and all others that may take them hold maxReplicas:" in found.capacity_message


def test_a_broker_that_nothing_is_known_of_has_room() -> None:
    room = Room(brokers(1), {}, {}, Settings())
    assert room.largest[BrokerId(1)] == float("inf")
    room.move(BrokerId(9), BrokerId(1), 5)
    assert room.largest[BrokerId(9)] == float("inf")
