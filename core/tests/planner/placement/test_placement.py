"""Where new partitions go."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.observed.places import NOT_KNOWN, Place
from chiplog_core.planner.placement.striping import Load, Placement, place

THREE_ZONES = {BrokerId(1): Place("a"), BrokerId(2): Place("b"), BrokerId(3): Place("c")}


def racks(**zones: list[int]) -> dict[BrokerId, Place]:
    return {BrokerId(number): Place(zone) for zone, numbers in zones.items() for number in numbers}


def on_nodes(*names: str, rack: str | None = None) -> dict[BrokerId, Place]:
    """Brokers on these nodes, in the order of their ids."""
    return {BrokerId(number): Place(rack, name) for number, name in enumerate(names, 1)}


def placed(
    brokers: Mapping[BrokerId, Place],
    count: int,
    replicas: int,
    existing: tuple[Placement, ...] = (),
) -> tuple[Placement, ...]:
    return place(brokers, existing=existing, count=count, replicas=replicas, load=Load())


def test_six_partitions_on_three_brokers_as_kafka_stripes_them() -> None:
    assert placed(THREE_ZONES, 6, 3) == (
        (1, 2, 3),
        (2, 3, 1),
        (3, 1, 2),
        (1, 3, 2),
        (2, 1, 3),
        (3, 2, 1),
    )


def test_leaders_alone() -> None:
    assert placed(THREE_ZONES, 6, 1) == ((1,), (2,), (3,), (1,), (2,), (3,))


def test_one_broker() -> None:
    assert placed({BrokerId(7): NOT_KNOWN}, 2, 1) == ((7,), (7,))


def test_a_topic_that_grows_continues_its_stripe() -> None:
    first = placed(THREE_ZONES, 2, 1)

    assert placed(THREE_ZONES, 2, 1, existing=first) == ((3,), (1,))


@given(st.integers(1, 7), st.integers(0, 20), st.integers(1, 20), st.data())
def test_growing_in_steps_is_growing_at_once(
    size: int, before: int, more: int, data: st.DataObject
) -> None:
    brokers = {BrokerId(n): NOT_KNOWN for n in range(1, size + 1)}
    replicas = data.draw(st.integers(1, size))

    first = placed(brokers, before, replicas)

    assert first + placed(brokers, more, replicas, first) == placed(
        brokers, before + more, replicas
    )


def test_topics_of_one_partition_spread_as_evenly_as_one_of_many() -> None:
    load = Load()

    for _ in range(300):
        place(THREE_ZONES, count=1, replicas=2, load=load)

    assert set(load.leaders.values()) == {100}
    assert set(load.replicas.values()) == {200}


def test_a_new_broker_gets_the_next_topics() -> None:
    load = Load()
    load.add([(BrokerId(1),), (BrokerId(2),)] * 5)
    brokers = {**THREE_ZONES}

    first = [place(brokers, count=1, replicas=1, load=load)[0][0] for _ in range(6)]

    assert first == [3, 3, 3, 3, 3, 1]


def test_replicas_go_to_as_many_racks_as_there_are() -> None:
    brokers = racks(a=[1, 2], b=[3, 4])

    for placement in placed(brokers, 12, 2):
        assert len({brokers[broker_id] for broker_id in placement}) == 2


@given(
    st.dictionaries(
        st.integers(1, 20).map(BrokerId),
        st.sampled_from([Place("a"), Place("b"), Place("c"), NOT_KNOWN]),
        min_size=1,
    ),
    st.integers(1, 40),
    st.data(),
)
def test_what_holds_of_every_placement(
    brokers: dict[BrokerId, Place], count: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, len(brokers)))

    placements = placed(brokers, count, replicas)

    leaders = Counter(placement[0] for placement in placements)
    assert max(leaders.values()) - min(leaders[one] for one in brokers) <= 1
    sizes = Counter(brokers.values())
    for placement in placements:
        assert len(set(placement)) == replicas
        used = Counter(brokers[one] for one in placement)
        # No rack holds two replicas more than another that still had a broker free.
        roomy = [used[rack] for rack, size in sizes.items() if used[rack] < size]
        assert not roomy or max(used.values()) - min(roomy) <= 1


def test_too_few_brokers_are_a_fault_of_the_caller() -> None:
    with pytest.raises(AssertionError):
        placed(THREE_ZONES, 1, 4)


def test_followers_of_a_topic_that_grows_continue_their_stripe_too() -> None:
    all_at_once = placed(THREE_ZONES, 6, 3)

    assert placed(THREE_ZONES, 4, 3, existing=all_at_once[:2]) == all_at_once[2:]


def test_a_topic_whose_first_follower_is_away_continues_without_a_shift() -> None:
    two = {BrokerId(1): Place("a"), BrokerId(2): Place("b")}
    first = ((BrokerId(1), BrokerId(3)),)

    assert placed(two, 1, 2, existing=first) == ((2, 1),)


def test_replicas_go_to_different_nodes_and_neighbours_lead_in_turn() -> None:
    two_each = on_nodes("x", "x", "y", "y", "z", "z")

    found = placed(two_each, 60, 2)

    assert [placement[0] for placement in found[:6]] == [1, 3, 5, 2, 4, 6]
    for placement in found:
        assert len({two_each[one].node for one in placement}) == 2
    held = Counter(one for placement in found for one in placement)
    assert max(held.values()) - min(held.values()) <= 2


@st.composite
def domains(draw: st.DrawFn) -> dict[BrokerId, Place]:
    """Nodes with one to three brokers each; each is in one rack, or no rack is known."""
    has_racks = draw(st.booleans())
    found: dict[BrokerId, Place] = {}
    for node in range(draw(st.integers(1, 6))):
        rack = draw(st.sampled_from("abc")) if has_racks else None
        for _ in range(draw(st.integers(1, 3))):
            found[BrokerId(len(found) + 1)] = Place(rack, f"n{node}")
    return found


@given(domains(), st.integers(1, 40), st.data())
def test_every_partition_is_in_as_many_racks_and_then_on_as_many_nodes_as_there_are(
    brokers: dict[BrokerId, Place], count: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(1, len(brokers)))

    for placement in placed(brokers, count, replicas):
        for domain in ("rack", "node"):
            there_are = {getattr(place, domain) for place in brokers.values()}
            used = {getattr(brokers[one], domain) for one in placement}
            assert len(used) == min(replicas, len(there_are))
        assert len(set(placement)) == replicas
