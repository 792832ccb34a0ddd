"""What of a proposal still holds when the map has changed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import (
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    PartitionIndex,
    ReplicaRef,
    Session,
    TopicId,
)
from chiplog_core.model.partition_map import Generation, PartitionMapSpec, PartitionState
from chiplog_core.rebalance.approval import (
    MoveBasis,
    MoveState,
    approve,
    judge,
    judge_all,
    judge_change,
    move_bases,
)
from chiplog_core.rebalance.leaders import LeaderMove, leader_moves
from chiplog_core.rebalance.replicas import ReplicaChange
from chiplog_core.rebalance.settings import Settings
from tests.rebalance.worlds import World, name, worlds

ONE, TWO, THREE, FOUR = BrokerId(1), BrokerId(2), BrokerId(3), BrokerId(4)
MOVE = LeaderMove(
    name=name(0),
    from_broker=ONE,
    to_broker=TWO,
    replicas=(TWO, ONE, THREE),
    expected_replicas=(ONE, TWO, THREE),
    leader_epoch=LeaderEpoch(7),
)
NOW = MoveBasis(
    replicas=(ONE, TWO, THREE),
    target=(ONE, TWO, THREE),
    isr=frozenset({ONE, TWO, THREE}),
    leader=ONE,
    leader_epoch=LeaderEpoch(7),
)
CHANGE = ReplicaChange(name=name(0), replicas=(TWO, ONE, FOUR), expected_replicas=(TWO, ONE, THREE))


def test_a_move_is_due_while_nothing_has_changed() -> None:
    assert judge(MOVE, NOW).state is MoveState.DUE
    assert approve([MOVE], [], {MOVE.name: NOW}).to_do == (MOVE,)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (None, "partition orders-0 is gone"),
        (replace(NOW, replicas=(THREE, ONE, TWO)), "has replicas 3,1,2 now"),
        (replace(NOW, replicas=(ONE, TWO)), "has replicas 1,2 now"),
        (replace(NOW, leader_epoch=LeaderEpoch(8)), "is in leader epoch 8 now, not in 7"),
        (replace(NOW, leader=None), "is offline"),
        (replace(NOW, isr=frozenset({ONE, THREE})), "broker 2, which is not in sync now"),
        (
            replace(NOW, departing=frozenset({TWO})),
            "would be led by broker 2, which is removed from the cluster",
        ),
    ],
)
def test_a_move_for_another_state_is_stale(now: MoveBasis | None, said: str) -> None:
    other = replace(MOVE, name=name(1))
    given = {other.name: NOW} | ({MOVE.name: now} if now else {})

    approval = approve([other, MOVE], [], given)

    assert approval.is_refused
    assert said in approval.message
    assert approval.message.endswith(
        "set the annotation chiplog.dev/rebalance to refresh to measure again"
    )


def test_a_move_on_its_way_is_known_by_its_order() -> None:
    ordered = replace(NOW, replicas=MOVE.replicas)
    done = replace(ordered, leader=TWO, leader_epoch=LeaderEpoch(8))

    assert judge(MOVE, ordered).state is MoveState.ORDERED
    assert judge(MOVE, done).state is MoveState.DONE


def test_a_move_to_the_preferred_leader_is_done_by_the_leader_alone() -> None:
    back = replace(MOVE, replicas=(TWO, ONE, THREE), expected_replicas=(TWO, ONE, THREE))
    before = replace(NOW, replicas=back.replicas)
    done = replace(before, leader=TWO, leader_epoch=LeaderEpoch(8))

    assert judge(back, before).state is MoveState.DUE
    assert judge(back, done).state is MoveState.DONE
    assert judge(back, replace(before, leader_epoch=LeaderEpoch(9))).state is MoveState.STALE


@pytest.mark.parametrize(
    ("now", "state"),
    [
        (NOW, MoveState.DUE),
        (replace(NOW, target=(THREE, TWO, ONE)), MoveState.DUE),
        (replace(NOW, target=CHANGE.replicas, is_moving=True), MoveState.ORDERED),
        (replace(NOW, target=CHANGE.replicas), MoveState.DONE),
        (replace(NOW, is_moving=True), MoveState.STALE),
        (replace(NOW, target=(THREE, TWO, ONE), is_pinned=True), MoveState.STALE),
        (replace(NOW, target=CHANGE.replicas, is_pinned=True), MoveState.DONE),
        (replace(NOW, target=(ONE, TWO)), MoveState.STALE),
        (replace(NOW, departing=frozenset({THREE})), MoveState.DUE),
        (replace(NOW, departing=frozenset({FOUR})), MoveState.STALE),
        (replace(NOW, departing=frozenset({TWO})), MoveState.STALE),
        (replace(NOW, target=CHANGE.replicas, departing=frozenset({FOUR})), MoveState.DONE),
        (None, MoveState.STALE),
    ],
)
def test_a_change_of_replicas_is_judged_by_where_they_are(
    now: MoveBasis | None, state: MoveState
) -> None:
    assert judge_change(CHANGE, now).state is state


def test_the_leader_move_of_a_partition_that_has_moved_is_done() -> None:
    """Its leader epoch was raised, and its order has other replicas."""
    now = replace(NOW, target=CHANGE.replicas, leader=FOUR, leader_epoch=LeaderEpoch(9))

    judged = judge_all([MOVE], [CHANGE], {MOVE.name: now})

    assert [one.state for one in judged] == [MoveState.DONE, MoveState.DONE]


@given(worlds(), st.data())
def test_whatever_changes_in_a_partition_that_moves_refuses_the_whole(
    world: World, data: st.DataObject
) -> None:
    moves = leader_moves(world.brokers, world.partitions, world.measurements, Settings())
    now = {
        one.name: MoveBasis(
            replicas=one.replicas,
            target=one.replicas,
            isr=frozenset(one.isr),
            leader=one.leader,
            leader_epoch=one.leader_epoch,
        )
        for one in world.partitions
    }
    assert approve(moves, [], now).to_do == moves
    if not moves:
        return

    move = data.draw(st.sampled_from(moves))
    now[move.name] = replace(
        now[move.name],
        leader_epoch=LeaderEpoch(8),
        leader=data.draw(st.sampled_from(move.replicas)),
    )

    is_as_wished = (
        now[move.name].leader == move.to_broker and move.replicas == move.expected_replicas
    )
    assert approve(moves, [], now).is_refused is not is_as_wished


def test_standings_are_of_the_generation_in_force() -> None:
    def generation(number: int, leader: ReplicaRef | None) -> Generation:
        state = PartitionState(
            partition=PartitionIndex(0),
            replicas=(ONE, TWO),
            isr=(ReplicaRef(ONE, Session(3)),),
            leader=leader,
            leader_epoch=LeaderEpoch(number),
            partition_epoch=PartitionEpoch(9),
        )
        return Generation(topic_id=TopicId(bytes([number] * 16)), partitions=(state,))

    spec = PartitionMapSpec(
        cluster="demo",
        topic_name="orders",
        current=TopicId(bytes([5] * 16)),
        min_isr=1,
        durability=Durability.FSYNC,
        durability_switch=0,
        generations=(generation(4, None), generation(5, ReplicaRef(ONE, Session(3)))),
    )

    assert move_bases([spec]) == {
        name(0): MoveBasis(
            replicas=(ONE, TWO),
            target=(ONE, TWO),
            isr=frozenset({ONE}),
            leader=ONE,
            leader_epoch=LeaderEpoch(5),
        )
    }

    pinned = move_bases([spec], {"orders": frozenset({PartitionIndex(0)})})
    assert pinned[name(0)].is_pinned


def test_a_partition_that_its_topic_places_does_not_move() -> None:
    judged = judge(MOVE, replace(NOW, is_pinned=True))

    assert judged.state is MoveState.STALE
    assert judged.message == (f"partition {MOVE.name} is placed by spec.assignments of its Topic")


def test_a_move_that_has_begun_is_given_up_if_nobody_will_complete_it() -> None:
    """Else its Rebalance never ends."""
    ordered = replace(NOW, replicas=MOVE.replicas)
    assert judge(MOVE, ordered).state is MoveState.ORDERED
    assert judge(MOVE, replace(ordered, is_pinned=True)).state is MoveState.STALE
    assert judge(MOVE, replace(ordered, departing=frozenset({TWO}))).state is MoveState.STALE
    led = replace(ordered, leader=TWO)
    assert judge(MOVE, replace(led, is_pinned=True)).state is MoveState.DONE


def test_no_replica_moves_to_a_broker_that_is_removed() -> None:
    judged = judge_change(CHANGE, replace(NOW, departing=frozenset({FOUR})))

    assert judged.message == (
        f"partition {CHANGE.name} would have a replica on broker 4, which is removed from the "
        "cluster"
    )


def test_only_a_refused_approval_has_a_message() -> None:
    ok, refused = approve([MOVE], [], {MOVE.name: NOW}), approve([MOVE], [], {})

    assert (ok.is_refused, ok.message, ok.to_do) == (False, "", (MOVE,))
    assert refused.is_refused
    assert refused.message.endswith(
        "set the annotation chiplog.dev/rebalance to refresh to measure again"
    )
