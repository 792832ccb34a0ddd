"""AlterPartitionReassignments: replicas move where a tool says, or the answer says why not."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from chiplog_core.admin.answers import PartitionVerdict, Verdict, from_answer
from chiplog_core.admin.bodies import from_body, to_body
from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import PartitionTarget, ReassignPartitions
from chiplog_core.ids import BrokerId, PartitionEpoch, PartitionIndex, ReplicaRef
from chiplog_core.limits import MAX_REPLICAS_PER_PARTITION
from chiplog_core.model.admin import AdminRequest
from chiplog_core.model.partition_map import Fence, FencePurpose, Generation, PartitionState
from chiplog_core.model.reassignment import Leftover
from chiplog_core.naming import labels
from chiplog_core.observed.broker_states import ProcessState, find_broker_states
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.planner.moves.reassignment import begin, gather_move_reports, next_step
from chiplog_core.validate.partition_map import check_change
from tests.planner.copying import Copying
from tests.planner.leadership.test_elections import TOPIC, broker_state, broker_states
from tests.planner.leadership.test_elections import state as partition_state
from tests.planner.objects import ref, topic

ASKED = 1
"""The broker that gets the requests."""
NUMBERS = count(1)


def cluster(brokers: int = 4, **spec: Any) -> Copying:
    """A cluster with the topic `orders`, with two partitions of two replicas."""
    kubernetes = Copying(brokers)
    kubernetes.run()
    kubernetes.apply(topic(**{"partitions": 2, "replicas": 2, **spec}))
    kubernetes.settle()
    return kubernetes


def states(kubernetes: Copying) -> tuple[PartitionState, ...]:
    return kubernetes.maps["orders"].spec.current_partitions


def ask(
    kubernetes: Copying,
    targets: dict[int, tuple[int, ...] | None],
    asked: int = ASKED,
    **more: Any,
) -> ReassignPartitions:
    """A tool's request; a target of None cancels."""
    topic_id = kubernetes.maps["orders"].spec.current
    assert topic_id is not None
    known = states(kubernetes)
    epochs = {number: known[number].partition_epoch for number in targets if number < len(known)}
    operation = ReassignPartitions(
        name="orders",
        topic_id=topic_id,
        targets={
            number: PartitionTarget(replicas=target, partition_epoch=epochs.get(number, 0))
            for number, target in targets.items()
        },
        **more,
    )
    put(kubernetes, operation, asked)
    return operation


def put(kubernetes: Copying, operation: ReassignPartitions, asked: int = ASKED) -> None:
    op, body = to_body(operation)
    assert from_body(op, body) == operation
    status = kubernetes.brokers[BrokerId(asked)].status
    request = AdminRequest(
        id=f"r-{next(NUMBERS)}",
        principal="User:a",
        op=op,
        body=body,
        deadline=kubernetes.now + timedelta(seconds=30),
    )
    kubernetes.status(asked, replace(status, requests=(request,)))


def hide_generation(kubernetes: Copying) -> Generation:
    """Another generation of the topic, which clients do not see, with the same replicas."""
    known = kubernetes.maps["orders"]
    (generation,) = known.spec.generations
    hidden = replace(generation, topic_id=kubernetes.new_topic_id())
    spec = replace(known.spec, generations=(hidden, generation))
    kubernetes.maps["orders"] = kubernetes.stored(replace(known, spec=spec))
    return hidden


def act(kubernetes: Copying, times: int = 1) -> None:
    """Plan and carry out, while no broker does anything."""
    for _ in range(times):
        kubernetes.execute(kubernetes.plan().actions)


def answer(kubernetes: Copying) -> Verdict:
    (found,) = kubernetes.brokers[BrokerId(ASKED)].spec.answers
    return from_answer(found)


def answers(kubernetes: Copying) -> dict[int, tuple[Code, str]]:
    return {one.partition: (one.code, one.message) for one in answer(kubernetes).partitions}


def elsewhere(state: PartitionState) -> tuple[BrokerId, ...]:
    """As many brokers, none of which has a replica."""
    return tuple(BrokerId(one) for one in range(1, 5) if BrokerId(one) not in state.replicas)


def test_a_partition_moves_in_four_steps() -> None:
    kubernetes = cluster()
    before = states(kubernetes)[0]
    target = elsewhere(before)
    ask(kubernetes, {0: target})

    act(kubernetes, 2)
    begun = states(kubernetes)[0]
    assert begun.replicas == (*target, *before.replicas)
    assert (begun.adding, begun.removing) == (target, before.replicas)
    assert (begun.leader, begun.leader_epoch, begun.isr) == (
        before.leader,
        before.leader_epoch,
        before.isr,
    )
    assert answer(kubernetes) == Verdict(
        partitions=(PartitionVerdict(partition=PartitionIndex(0)),)
    ), "the answer does not wait for the copy"

    kubernetes.obey()  # the leader proposes the new replicas
    act(kubernetes)
    switched = states(kubernetes)[0]
    assert switched.replicas == target
    assert {ref.broker_id for ref in switched.isr} == set(target)
    assert switched.leader_epoch > begun.leader_epoch
    assert switched.leftovers == tuple(Leftover(broker=one) for one in before.replicas)

    kubernetes.obey()  # the new leader has the proof
    act(kubernetes)
    released = states(kubernetes)[0]
    since = released.partition_epoch
    assert [one.removable_since for one in released.leftovers] == [since, since]

    kubernetes.obey()  # the old brokers delete and confirm
    act(kubernetes)
    assert states(kubernetes)[0].leftovers == ()
    kubernetes.settle()


def test_what_cannot_be_is_refused_with_the_reason() -> None:
    kubernetes = cluster()
    kubernetes.kill(4)
    kubernetes.settle()
    kubernetes.apply(topic(partitions=2))  # the number of replicas is nobody's
    kubernetes.settle()
    refused = {
        (): "no replicas are given",
        (1, 1): "a broker is given twice",
        (1, 9): "there is no broker 9",
        (1, 4): "broker 4 is not running",
    }
    for target, why in refused.items():
        ask(kubernetes, {0: target})
        act(kubernetes)
        assert answers(kubernetes) == {0: (Code.INVALID_REPLICA_ASSIGNMENT, why)}
    ask(kubernetes, {5: (1, 2)})
    act(kubernetes)
    assert answers(kubernetes) == {
        5: (Code.UNKNOWN_TOPIC_OR_PARTITION, "topic 'orders' has no partition 5")
    }


def test_a_partition_has_no_more_replicas_than_its_map_can_have() -> None:
    kubernetes = cluster(40, partitions=1, replicas=20)
    replicas = states(kubernetes)[0].replicas
    others = tuple(one for one in range(1, 41) if one not in replicas)
    ask(kubernetes, {0: others})
    act(kubernetes, 2)

    assert answers(kubernetes) == {
        0: (
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"old and new replicas together are more than {MAX_REPLICAS_PER_PARTITION}",
        )
    }
    assert states(kubernetes)[0].replicas == replicas


def test_a_partition_without_a_leader_is_refused_at_once() -> None:
    """The answer for the others does not wait for it until the request is too old."""
    kubernetes = cluster(partitions=2, replicas=1)
    first, second = states(kubernetes)
    assert ASKED not in second.replicas
    kubernetes.kill(second.replicas[0])
    kubernetes.settle()
    free = next(one for one in elsewhere(first) if one != second.replicas[0])
    ask(kubernetes, {0: (free,), 1: (ASKED,)})
    act(kubernetes, 2)

    assert answers(kubernetes) == {
        0: (Code.NONE, ""),
        1: (
            Code.INVALID_REPLICA_ASSIGNMENT,
            "the partition has no live leader: try again when it has one",
        ),
    }


def test_a_broker_without_a_replica_any_more_has_nothing_to_flush() -> None:
    kubernetes = cluster(partitions=1, config={"chiplog.durability": "PageCache"})
    state = states(kubernetes)[0]
    assert state.leader is not None
    dead = next(one for one in state.replicas if one != state.leader.broker_id)
    kubernetes.kill(dead)
    kubernetes.settle()
    kubernetes.apply(topic(partitions=1, replicas=2, config={"chiplog.durability": "Fsync"}))
    kubernetes.settle()
    assert list(kubernetes.maps["orders"].spec.unflushed) == [dead]
    ask(kubernetes, {0: (state.leader.broker_id, elsewhere(state)[0])})
    kubernetes.settle()

    assert dead not in states(kubernetes)[0].replicas
    assert list(kubernetes.maps["orders"].spec.unflushed) == []


def test_min_isr_is_not_undercut() -> None:
    kubernetes = cluster(config={"min.insync.replicas": 2})
    kubernetes.apply(topic(partitions=2, config={"min.insync.replicas": 2}))
    kubernetes.settle()
    ask(kubernetes, {0: (1,)})
    act(kubernetes)

    assert answers(kubernetes) == {
        0: (
            Code.INVALID_REPLICA_ASSIGNMENT,
            "1 replicas are fewer than min.insync.replicas (2)",
        )
    }


@pytest.mark.parametrize(
    ("target", "more", "message"),
    [
        (
            (1, 2, 3),
            {},
            "Topic home/orders asks for 2 replicas of each partition: change spec.replicas there",
        ),
        (
            (1, 2, 3),
            {"allows_another_count": False},
            "the partition has 2 replicas, and the request does not allow another number",
        ),
    ],
)
def test_another_number_is_for_the_owner_of_the_number_to_decide(
    target: tuple[int, ...], more: dict[str, Any], message: str
) -> None:
    kubernetes = cluster()
    ask(kubernetes, {0: target}, **more)
    act(kubernetes)

    assert answers(kubernetes) == {0: (Code.INVALID_REPLICATION_FACTOR, message)}


def test_a_topic_without_that_number_takes_any() -> None:
    kubernetes = cluster(replicas=None)
    ask(kubernetes, {0: (1, 2, 3)})
    act(kubernetes, 2)
    assert answers(kubernetes)[0][0] is Code.NONE
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == (1, 2, 3)


def test_a_move_is_cancelled() -> None:
    kubernetes = cluster()
    before = states(kubernetes)[0]
    ask(kubernetes, {0: elsewhere(before)})
    act(kubernetes, 2)
    ask(kubernetes, {0: None})
    act(kubernetes, 2)

    assert answers(kubernetes)[0][0] is Code.NONE
    cancelled = states(kubernetes)[0]
    assert cancelled.replicas == before.replicas
    assert not cancelled.is_moving
    assert [one.broker for one in cancelled.leftovers] == list(elsewhere(before))
    kubernetes.settle()
    assert states(kubernetes)[0].leftovers == ()

    ask(kubernetes, {0: None})
    act(kubernetes)
    assert answers(kubernetes) == {
        0: (Code.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment of the partition is in progress")
    }


def test_a_new_target_replaces_the_old_one() -> None:
    kubernetes = cluster()
    before = states(kubernetes)[0]
    third, fourth = elsewhere(before)
    ask(kubernetes, {0: (before.replicas[0], third)})
    act(kubernetes, 2)
    ask(kubernetes, {0: (before.replicas[0], fourth)})
    act(kubernetes, 2)

    state = states(kubernetes)[0]
    assert (state.adding, state.removing) == ((fourth,), (before.replicas[1],))
    assert [one.broker for one in state.leftovers] == [third]
    kubernetes.settle()
    assert states(kubernetes)[0].replicas == (before.replicas[0], fourth)


def test_only_the_order_changes() -> None:
    kubernetes = cluster()
    before = states(kubernetes)[0]
    ask(kubernetes, {0: before.replicas[::-1]})
    kubernetes.settle()

    state = states(kubernetes)[0]
    assert state.replicas == before.replicas[::-1]
    assert state.leftovers == ()


def test_a_broker_that_still_deletes_its_last_copy_gets_no_new_one() -> None:
    kubernetes = cluster()
    state = states(kubernetes)[0]
    gone = elsewhere(state)[0]
    deleting = replace(state, leftovers=(Leftover(broker=gone, removable_since=PartitionEpoch(1)),))
    spec = kubernetes.maps["orders"].spec
    (generation,) = spec.generations
    changed = replace(generation, partitions=(deleting, generation.partitions[1]))
    kubernetes.maps["orders"] = replace(
        kubernetes.maps["orders"], spec=replace(spec, generations=(changed,))
    )
    ask(kubernetes, {0: (state.replicas[0], gone)})
    act(kubernetes)

    assert answers(kubernetes) == {
        0: (
            Code.INVALID_REPLICA_ASSIGNMENT,
            f"broker {gone} is still deleting its last copy of the partition",
        )
    }


def test_a_topic_of_another_id_is_unknown() -> None:
    kubernetes = cluster()
    put(
        kubernetes,
        ReassignPartitions(
            name="orders",
            topic_id=kubernetes.new_topic_id(),
            targets={0: PartitionTarget(replicas=(1, 2), partition_epoch=0)},
        ),
    )
    act(kubernetes)

    assert answer(kubernetes).code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_paused_topic_does_not_move() -> None:
    kubernetes = cluster()
    kubernetes.apply(topic(partitions=2, replicas=2, annotations={labels.PAUSE: "true"}))
    ask(kubernetes, {0: elsewhere(states(kubernetes)[0])})
    act(kubernetes)

    assert answer(kubernetes).code is Code.POLICY_VIOLATION


@pytest.mark.parametrize(
    "change",
    [{"hibernated": True}, {"fence": Fence(number=1, purpose=FencePurpose.HIBERNATE)}],
)
def test_a_topic_that_hibernates_or_refuses_writes_does_not_move(change: dict[str, Any]) -> None:
    kubernetes = cluster()
    before = kubernetes.maps["orders"]
    frozen = kubernetes.stored(replace(before, spec=replace(before.spec, **change)))
    kubernetes.maps["orders"] = frozen
    ask(kubernetes, {0: elsewhere(states(kubernetes)[0])})
    act(kubernetes, 2)

    assert answers(kubernetes) == {
        0: (
            Code.INVALID_REPLICA_ASSIGNMENT,
            "the topic does not change while it is hibernated or refuses writes",
        )
    }
    assert kubernetes.maps["orders"] is frozen


def test_a_topic_whose_object_is_gone_can_be_moved() -> None:
    """Its records are kept, and nobody says how many replicas they have."""
    kubernetes = cluster(deletionPolicy="Retain")
    kubernetes.delete("orders")
    kubernetes.settle()
    assert not kubernetes.topics
    ask(kubernetes, {0: (1, 2, 3)})
    act(kubernetes, 2)
    assert answers(kubernetes) == {0: (Code.NONE, "")}
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == (1, 2, 3)


def test_only_the_generation_that_clients_see_is_reassigned() -> None:
    kubernetes = cluster()
    hidden = hide_generation(kubernetes)
    target = elsewhere(states(kubernetes)[0])
    ask(kubernetes, {0: target})
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == target
    assert kubernetes.maps["orders"].spec.generations[0] == hidden


def test_a_move_is_not_cancelled_when_only_added_replicas_are_in_sync() -> None:
    """Without them, no replica would have all records."""
    kubernetes = cluster(6, partitions=1, replicas=3)
    before = states(kubernetes)[0]
    added = tuple(one for one in kubernetes.brokers if one not in before.replicas)
    asked = added[0]
    ask(kubernetes, {0: added}, asked)
    act(kubernetes, 2)
    kubernetes.kill(added[2])
    for _ in range(5):
        act(kubernetes)
        kubernetes.obey()
    for one in before.replicas:
        kubernetes.kill(one)
    kubernetes.settle()
    moving = states(kubernetes)[0]
    assert {ref.broker_id for ref in moving.isr} == set(added[:2])

    ask(kubernetes, {0: None}, asked)
    act(kubernetes, 2)
    (found,) = kubernetes.brokers[asked].spec.answers
    (verdict,) = from_answer(found).partitions
    assert (verdict.code, verdict.message) == (
        Code.INVALID_REPLICA_ASSIGNMENT,
        "only 0 replicas would remain in sync, fewer than min.insync.replicas (2)",
    )
    assert states(kubernetes)[0] == moving


def test_a_cancellation_waits_for_an_old_replica_that_can_lead() -> None:
    """The leader is on the broker that would lose its replica."""
    moving = replace(
        partition_state("1@1 2@1", "2@1", replicas=(2, 1)),
        adding=(BrokerId(2),),
        removing=(BrokerId(1),),
    )
    silent = broker_states(broker_state("1@1", ProcessState.UNKNOWN), broker_state("2@1"))
    alive = broker_states(broker_state("1@1"), broker_state("2@1"))

    assert begin(moving, moving.assigned, TOPIC, silent) is moving
    after = begin(moving, moving.assigned, TOPIC, alive)
    assert (after.leader, after.replicas, after.isr) == (ref("1@1"), (1,), (ref("1@1"),))
    assert after.leader_epoch > moving.leader_epoch


def test_a_partition_with_fewer_replicas_than_min_isr_can_be_moved() -> None:
    """Its ISR has more members while it moves than before, and than it may have afterwards."""
    kubernetes = cluster(partitions=1, replicas=1)
    (before,) = states(kubernetes)
    other = elsewhere(before)[0]
    both = (*before.isr, ReplicaRef(other, kubernetes.brokers[other].spec.session))
    moving = replace(
        before,
        replicas=(other, *before.replicas),
        adding=(other,),
        removing=before.replicas,
        isr=both,
        partition_epoch=PartitionEpoch(before.partition_epoch + 1),
    )
    world = kubernetes.world()
    brokers = find_broker_states(world, awaiting_admission(world))
    topic_id = kubernetes.maps["orders"].spec.current
    assert topic_id is not None

    after = next_step(moving, topic_id, 2, brokers, gather_move_reports(world))

    assert after.replicas == (other,)
    spec = replace(kubernetes.maps["orders"].spec, min_isr=2)
    (generation,) = spec.generations
    was, now = (
        replace(spec, generations=(replace(generation, partitions=(one,)),))
        for one in (moving, after)
    )
    assert not list(check_change(was, now))
