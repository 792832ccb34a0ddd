"""What two readings of the brokers' counters say of the load, and what they do not say."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    Incarnation,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.load_exchange import LoadsAnswer, PartitionLoad, TopicLoad
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.observed.processes import Identity
from chiplog_core.rebalance.brokers_load import (
    RATE_WINDOW_MS,
    Reading,
    Readings,
    as_partition,
    continues,
    is_window_over,
    leading,
    measured_load,
    partitions_of,
    reading_of,
    reported_bytes,
)
from chiplog_core.rebalance.measured import PartitionName

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def process(broker_id: BrokerId, life: int = 1) -> Identity:
    return Identity(
        broker_id=broker_id,
        incarnation=Incarnation(f"{broker_id:08x}{life:024x}"),
        pod_uid=f"pod-{broker_id}",
        address=f"10.0.0.{broker_id}",
    )


def state(
    index: int, leader: BrokerId | None = ONE, epoch: int = 7, **more: object
) -> PartitionState:
    found = PartitionState(
        partition=PartitionIndex(index),
        replicas=(ONE, TWO),
        isr=(ReplicaRef(ONE, Session(1)), ReplicaRef(TWO, Session(1))),
        leader=None if leader is None else ReplicaRef(leader, Session(1)),
        leader_epoch=LeaderEpoch(epoch),
        partition_epoch=PartitionEpoch(epoch),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def named(*states: PartitionState) -> dict[PartitionName, PartitionState]:
    return {PartitionName("orders", one.partition): one for one in states}


def page(
    ticks_ms: int, bytes_in: Mapping[int, int], epoch: int = 7, size: int = 100
) -> LoadsAnswer:
    loads = tuple(
        PartitionLoad(
            partition=PartitionIndex(index),
            leader_epoch=LeaderEpoch(epoch),
            bytes=size,
            bytes_in=count,
            records_in=count // 10,
        )
        for index, count in bytes_in.items()
    )
    topics = (TopicLoad(topic="orders", partitions=loads),) if loads else ()
    return LoadsAnswer(topics=topics, ticks_ms=ticks_ms)


def readings(*pages: LoadsAnswer, life: int = 1) -> Readings:
    """Of broker 1."""
    return {ONE: reading_of(process(ONE, life), pages)}


def test_rates_are_what_was_appended_between_two_readings() -> None:
    first, last = readings(page(1_000, {0: 500})), readings(page(11_000, {0: 2_500}, size=900))

    (found,) = measured_load(first, last, named(state(0))).values()

    assert (found.bytes, found.bytes_per_second, found.records_per_second) == (900, 200.0, 20.0)


@pytest.mark.parametrize(
    "now",
    [
        state(0, epoch=8),
        state(0, leader=TWO),
        state(0, leader=None),
        state(0, adding=(THREE,), replicas=(ONE, TWO, THREE)),
        state(1),
    ],
    ids=["elected again", "another leader", "no leader", "moving", "not reported"],
)
def test_a_partition_that_is_not_led_as_before_is_not_measured(now: PartitionState) -> None:
    first, last = readings(page(0, {0: 0})), readings(page(10_000, {0: 50}))

    assert measured_load(first, last, named(now)) == {}


def test_a_partition_that_is_new_or_gone_in_one_reading_is_not_measured() -> None:
    none, there = page(0, {}), page(10_000, {0: 50})

    assert measured_load(readings(none), readings(there), named(state(0))) == {}
    assert measured_load(readings(there), readings(none), named(state(0))) == {}


def test_counters_of_another_process_or_of_no_time_are_not_compared() -> None:
    first, last = readings(page(0, {0: 0})), readings(page(10_000, {0: 50}), life=2)

    assert not continues(first, last)
    assert measured_load(first, last, named(state(0))) == {}
    assert measured_load(first, first, named(state(0))) == {}


def test_the_window_is_over_when_every_process_has_counted_for_it() -> None:
    def both(ticks_ms: int, other_ms: int) -> dict[BrokerId, Reading]:
        return {
            ONE: reading_of(process(ONE), [page(ticks_ms, {0: 1})]),
            TWO: reading_of(process(TWO), [page(other_ms, {1: 1})]),
        }

    first = both(0, 5_000)
    assert not is_window_over(first, both(RATE_WINDOW_MS, RATE_WINDOW_MS))
    assert is_window_over(first, both(RATE_WINDOW_MS, RATE_WINDOW_MS + 5_000))
    assert is_window_over(readings(page(0, {})), readings(page(1, {0: 1}))), "it led nothing"


def test_pages_are_put_together_with_their_own_times() -> None:
    first = readings(page(0, {0: 0}), page(1_000, {1: 0}))
    last = readings(page(10_000, {0: 100}), page(21_000, {1: 100}))

    found = measured_load(first, last, named(state(0), state(1)))

    assert [one.bytes_per_second for one in found.values()] == [10.0, 5.0]
    assert last[ONE].ticks_ms == 21_000


def test_the_partitions_are_those_of_users_topics_in_their_present_generation() -> None:
    old, new = TopicId(b"a" * 16), TopicId(b"b" * 16)

    def of(topic: str) -> PartitionMapSpec:
        generations = (
            Generation(topic_id=old, partitions=(state(0, leader=THREE),)),
            Generation(topic_id=new, partitions=(state(0), state(1, leader=TWO))),
        )
        return PartitionMapSpec(
            cluster="demo",
            topic_name=topic,
            current=new,
            generations=generations,
            min_isr=1,
            durability=Durability.FSYNC,
        )

    found = partitions_of([of("orders"), of("__consumer_offsets")])

    assert list(found) == [PartitionName("orders", PartitionIndex(index)) for index in (0, 1)]
    assert leading(found) == {ONE: 1, TWO: 1}
    assert leading(named(state(0, leader=None))) == {}


def test_a_partition_as_a_proposal_needs_it() -> None:
    name = PartitionName("orders", PartitionIndex(0))

    found = as_partition(name, state(0))
    assert (found.replicas, found.isr, found.leader) == ((ONE, TWO), (ONE, TWO), ONE)
    assert (found.known_bytes, found.adding) == (None, ())
    assert as_partition(name, state(0, leader=None)).leader is None
    moving = as_partition(name, replace(state(0), adding=(TWO,)), 5)
    assert (moving.known_bytes, moving.adding) == (5, (TWO,))


def test_sizes_are_known_of_all_that_was_reported() -> None:
    both = {
        ONE: reading_of(process(ONE), [page(0, {0: 0, 1: 0}, size=7)]),
        TWO: reading_of(process(TWO), [page(0, {1: 0}, size=9)]),
    }
    sizes = {name.partition: size for name, size in reported_bytes(both).items()}
    assert sizes == {0: 7, 1: 9}


@given(
    st.dictionaries(st.integers(0, 5), st.integers(0, 10**9), min_size=1),
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.integers(0, 10**9),
)
def test_no_rate_is_negative_and_bytes_are_the_last_ones(
    before: dict[int, int], began_ms: int, took_ms: int, size: int
) -> None:
    after = {index: count // 2 if index % 2 else count + index for index, count in before.items()}
    found = measured_load(
        readings(page(began_ms, before)),
        readings(page(began_ms + took_ms, after, size=size)),
        named(*(state(index) for index in before)),
    )

    assert len(found) == len(before)
    for name, measured in found.items():
        appended = max(0, after[name.partition] - before[name.partition])
        assert measured.bytes == size
        assert measured.bytes_per_second == pytest.approx(appended * 1000 / took_ms)
