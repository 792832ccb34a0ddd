"""Leaderships that go back to the first of the replicas: when they may, and which."""

from dataclasses import replace
from datetime import timedelta

import pytest

from chiplog_core.ids import BrokerId, ReplicaRef
from chiplog_core.model.conditions import Condition, ConditionStatus, ConditionType
from chiplog_core.observed.broker_states import ProcessState
from chiplog_core.observed.world import World
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.leadership.preferred import (
    MAX_CONCURRENT_MOVES,
    REST,
    Moves,
    find_moves,
    preferred,
)
from tests.planner.leadership.test_elections import TOPIC, broker_state, broker_states, state
from tests.planner.objects import NOW, cluster, ref

ELSEWHERE = Counts(not_preferred=1)
ALIVE, GONE, UNKNOWN = ProcessState.ALIVE, ProcessState.GONE, ProcessState.UNKNOWN


def chosen(
    isr: str = "1@1 2@1 3@1",
    leader: str | None = "2@1",
    first: ProcessState = ALIVE,
    leading: ProcessState = ALIVE,
    *,
    first_leaves: bool = False,
) -> ReplicaRef | None:
    """Who is to take over from `leader`, where broker 1 is the first of the replicas."""
    brokers = broker_states(
        broker_state("1@1", first, leaving=first_leaves),
        broker_state("2@1", leading),
        broker_state("3@1"),
    )
    return preferred(state(isr, leader), TOPIC, brokers)


def test_the_first_of_the_replicas_takes_over_from_a_live_leader() -> None:
    assert chosen() == ref("1@1")


def test_who_leads_already_does_not_take_over() -> None:
    assert chosen(leader="1@1") is None


@pytest.mark.parametrize("leading", [GONE, UNKNOWN])
def test_nothing_is_taken_from_a_leader_that_may_be_dead(leading: ProcessState) -> None:
    assert chosen(leading=leading) is None
    assert chosen(leader=None) is None


def test_the_first_of_the_replicas_has_to_be_in_sync_alive_and_there_to_stay() -> None:
    assert chosen("2@1 3@1") is None
    assert chosen(first=GONE) is None
    assert chosen(first_leaves=True) is None


def test_a_partition_that_is_being_moved_keeps_its_leader_until_the_switch() -> None:
    brokers = broker_states(broker_state("1@1"), broker_state("2@1"), broker_state("3@1"))
    still = state("1@1 2@1", "2@1")
    assert preferred(still, TOPIC, brokers) == ref("1@1")

    for moving in (
        replace(still, adding=(BrokerId(1),)),
        replace(still, removing=(BrokerId(3),)),
    ):
        assert preferred(moving, TOPIC, brokers) is None


def world(*conditions: Condition) -> World:
    demo = cluster()
    status = replace(demo.status, conditions=conditions)
    return World(metadata=demo.metadata, cluster=replace(demo, status=status))


def quiesced(status: ConditionStatus, since_s: float) -> Condition:
    return Condition(
        type=ConditionType.QUIESCED,
        status=status,
        observed_generation=1,
        last_transition_time=NOW - timedelta(seconds=since_s),
        reason="x",
        message="",
    )


def moves(seen: World, counts: Counts = ELSEWHERE, *, is_rolling: bool = False) -> Moves:
    return find_moves(seen, counts, NOW, {}, is_rolling=is_rolling)


REST_S = REST.total_seconds()
RESTED = world(quiesced(ConditionStatus.TRUE, REST_S))


def test_a_cluster_that_was_at_rest_for_long_enough_moves_some_at_a_time() -> None:
    assert moves(RESTED) == Moves(left=MAX_CONCURRENT_MOVES)


def test_before_that_the_plan_says_when_it_will_be() -> None:
    early = world(quiesced(ConditionStatus.TRUE, REST_S - 2))

    assert moves(early) == Moves(requeue_after_ms=2_001)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(replace(RESTED, cluster=None), id="the spec does not read"),
        pytest.param(world(), id="nothing is published yet"),
        pytest.param(world(quiesced(ConditionStatus.FALSE, REST_S)), id="not at rest"),
    ],
)
def test_while_it_is_unknown_since_when_the_cluster_is_at_rest_nothing_moves(seen: World) -> None:
    assert moves(seen) == Moves()


@pytest.mark.parametrize(
    "counts",
    [
        Counts(not_preferred=1, offline=1),
        Counts(not_preferred=1, under_replicated=1),
        Counts(not_preferred=1, awaiting_reports=1),
        Counts(not_preferred=0),
    ],
)
def test_nothing_moves_while_anything_is_the_matter_or_nothing_has_to(counts: Counts) -> None:
    assert moves(RESTED, counts) == Moves()


def test_nothing_moves_during_a_roll() -> None:
    assert moves(RESTED, is_rolling=True) == Moves()
