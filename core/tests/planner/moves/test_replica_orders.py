"""Replicas that an approved Rebalance moves: after its leaderships, and only where it may."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import LeaderMove, RebalanceState, ReplicaMove
from chiplog_core.observed.pinned import pinned_partitions
from chiplog_core.rebalance.approval import Judged, MoveState, judge_all, move_bases
from chiplog_core.rebalance.status import changes_of, moves_of
from chiplog_core.rebalance.usable_brokers import departing_brokers
from tests.planner.copying import Copying
from tests.planner.objects import topic
from tests.planner.rebalances import move, rebalance


def cluster(brokers: int = 4, **spec: Any) -> Copying:
    kubernetes = Copying(brokers)
    kubernetes.run()
    kubernetes.apply(topic(**{"partitions": 8, "replicas": 2, **spec}))
    kubernetes.settle()
    return kubernetes


def states(kubernetes: Copying) -> tuple[PartitionState, ...]:
    return kubernetes.maps["orders"].spec.current_partitions


def to(kubernetes: Copying, partition: int, *brokers: int) -> ReplicaMove:
    return ReplicaMove(
        topic="orders",
        partition=PartitionIndex(partition),
        replicas=tuple(map(BrokerId, brokers)),
        expected_replicas=states(kubernetes)[partition].replicas,
    )


def approved(*moves: ReplicaMove, leaders: tuple[LeaderMove, ...] = (), **more: Any) -> Rebalance:
    one = rebalance(*leaders, **more)
    proposal = one.status.proposal
    assert proposal is not None
    return replace(one, status=replace(one.status, proposal=replace(proposal, replica_moves=moves)))


def test_replicas_move_to_where_the_proposal_says() -> None:
    kubernetes = cluster()
    all_on_two = tuple(to(kubernetes, one, 3, 4) for one in range(8))
    kubernetes.rebalances = (approved(*all_on_two),)
    kubernetes.settle()

    assert {state.replicas for state in states(kubernetes)} == {(3, 4)}
    assert not any(state.is_moving or state.leftovers for state in states(kubernetes))
    assert kubernetes.plan().actions == ()


def test_leaderships_move_first() -> None:
    kubernetes = cluster()
    state = states(kubernetes)[0]
    other = state.replicas[1]
    free = next(one for one in (1, 2, 3, 4) if one not in state.replicas)
    kubernetes.rebalances = (
        approved(
            to(kubernetes, 0, other, free),
            to(kubernetes, 1, *states(kubernetes)[0].replicas[::-1]),
            leaders=(move(kubernetes, 0, other),),
        ),
    )
    kubernetes.execute(kubernetes.plan().actions)
    assert states(kubernetes)[0].replicas == (other, state.replicas[0])
    assert not any(state.is_moving for state in states(kubernetes))
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == (other, free)


def test_only_so_many_at_a_time_as_the_rebalance_allows() -> None:
    kubernetes = cluster(brokers=3, replicas=1)
    moves = tuple(to(kubernetes, one, 3) for one in range(8))
    kubernetes.rebalances = (approved(*moves, concurrent_partition_movements_per_broker=2),)
    most = 0
    for _ in range(60):
        kubernetes.execute(kubernetes.plan().actions)
        kubernetes.obey()
        copies = Counter(one for state in states(kubernetes) for one in state.adding)
        most = max(most, *copies.values(), 0)

    assert most == 2
    assert {state.replicas for state in states(kubernetes)} == {(3,)}


def test_what_has_changed_in_the_meantime_is_left_alone() -> None:
    kubernetes = cluster()
    moves = (to(kubernetes, 0, 3, 4), to(kubernetes, 1, 3, 4))
    wrong = replace(moves[0], expected_replicas=(BrokerId(4), BrokerId(3)))
    before = states(kubernetes)[0].replicas
    assert set(before) != {3, 4}
    kubernetes.rebalances = (approved(wrong, moves[1]),)
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == before
    assert states(kubernetes)[1].replicas == (3, 4)


@pytest.mark.parametrize(
    "state", [RebalanceState.PROPOSAL_READY, RebalanceState.STOPPED, RebalanceState.READY]
)
def test_nothing_begins_in_another_state(state: RebalanceState) -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (approved(to(kubernetes, 0, 3, 4), state=state),)

    assert kubernetes.plan().actions == ()


def open_moves(kubernetes: Copying) -> list[Judged]:
    """Those for which the Rebalance waits."""
    world = kubernetes.world()
    bases = move_bases(
        (one.spec for one in world.maps.values()),
        pinned_partitions(world, kubernetes.cluster),
        departing_brokers(world),
    )
    return [
        judged
        for one in kubernetes.rebalances
        if (proposal := one.status.proposal) is not None
        for judged in judge_all(moves_of(proposal), changes_of(proposal), bases)
        if judged.state in {MoveState.DUE, MoveState.ORDERED}
    ]


def test_it_ends_if_a_target_is_removed_in_the_meantime() -> None:
    kubernetes = cluster()
    kubernetes.rebalances = (approved(*(to(kubernetes, one, 3, 4) for one in range(8))),)
    assert len(open_moves(kubernetes)) >= 7, "one may be there already"
    kubernetes.configure(3)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2, 3)
    assert (kubernetes.plan().actions, open_moves(kubernetes)) == ((), [])


def test_it_ends_if_a_topic_places_the_partition_as_its_leadership_would_move() -> None:
    kubernetes = cluster()
    first, other = states(kubernetes)[0].replicas
    kubernetes.rebalances = (approved(leaders=(move(kubernetes, 0, other),)),)
    pinned = [{"partition": 0, "replicas": [int(other), int(first)]}]
    kubernetes.apply(topic(partitions=8, replicas=2, assignments=pinned))
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == (other, first)
    assert open_moves(kubernetes) == []


def test_no_replica_moves_to_a_broker_that_is_to_be_removed() -> None:
    kubernetes = cluster()
    moves = tuple(to(kubernetes, one, 3, 4) for one in range(8))
    kubernetes.configure(3)
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.rebalances = (approved(*moves),)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2, 3)
    assert all(BrokerId(4) not in state.replicas for state in states(kubernetes))
