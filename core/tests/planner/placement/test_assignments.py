"""Partitions are where their Topic places them, and the status says why they cannot be."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.admin.codes import Code
from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.model.metadata import Uid
from chiplog_core.naming import labels
from chiplog_core.observed.pinned import pinned_partitions, pinning_topics
from chiplog_core.planner.placement.assignments import MAX_SHOWN, in_force, shown
from tests.planner.copying import Copying
from tests.planner.moves.test_reassignments import act, answers, ask, hide_generation
from tests.planner.moves.test_replica_orders import approved, to
from tests.planner.moves.test_wanted_replicas import (
    check_complete,
    condition,
    running,
    scale,
    states,
    with_topic,
)
from tests.planner.objects import topic
from tests.planner.rebalances import move


def entries(placed: dict[int, tuple[int, ...]]) -> list[dict[str, object]]:
    return [{"partition": one, "replicas": list(target)} for one, target in placed.items()]


def apply(kubernetes: Copying, placed: dict[int, tuple[int, ...]], **spec: Any) -> None:
    kubernetes.apply(topic(**{"partitions": 4, "assignments": entries(placed), **spec}))


def replicas(kubernetes: Copying) -> list[tuple[int, ...]]:
    return [state.replicas for state in states(kubernetes)]


def ready(kubernetes: Copying) -> Condition:
    found = kubernetes.topics["orders"].status.conditions
    return next(one for one in found if one.type == "Ready")


# -- new partitions


def test_a_topic_is_created_where_it_says() -> None:
    kubernetes = running(4)
    apply(kubernetes, {0: (4, 1), 1: (4, 2), 2: (4, 3), 3: (3, 4)})
    kubernetes.settle()

    assert replicas(kubernetes) == [(4, 1), (4, 2), (4, 3), (3, 4)]
    assert all(state.leader_epoch == 0 for state in states(kubernetes)), "nothing has moved"
    assert ready(kubernetes).status is ConditionStatus.TRUE
    assert kubernetes.topics["orders"].status.replicas_change is None


def test_what_is_not_named_is_spread_with_as_many_replicas() -> None:
    kubernetes = running(4)
    apply(kubernetes, {1: (4, 3)})
    kubernetes.settle()

    placed = replicas(kubernetes)
    assert placed[1] == (4, 3)
    assert [len(set(one)) for one in placed] == [2, 2, 2, 2]
    assert len({one[0] for one in placed}) >= 3
    leaders = [one[0] for one in placed]
    kubernetes.apply(topic("next", partitions=1, replicas=1))
    kubernetes.settle()
    (state,) = states(kubernetes, "next")
    least = min((1, 2, 3, 4), key=leaders.count)
    assert leaders.count(state.replicas[0]) == leaders.count(least), "all count as load"


def test_partitions_that_are_added_are_created_where_the_topic_says() -> None:
    kubernetes = with_topic(4, partitions=1, replicas=1)
    apply(kubernetes, {2: (4,), 3: (4,)})
    kubernetes.execute(kubernetes.plan().actions)

    assert replicas(kubernetes)[2:] == [(4,), (4,)]


def test_initial_assignments_are_for_the_creation_only() -> None:
    kubernetes = running(4)
    first = entries({0: (4, 1), 1: (4, 1)})
    kubernetes.apply(topic(partitions=2, replicas=2, initialAssignments=first))
    kubernetes.settle()
    assert replicas(kubernetes) == [(4, 1), (4, 1)]

    ask(kubernetes, {0: (2, 3)})
    kubernetes.settle()
    kubernetes.apply(topic(partitions=2, replicas=1, initialAssignments=first))
    kubernetes.settle()
    assert replicas(kubernetes) == [(2,), (4,)]
    assert ready(kubernetes).status is ConditionStatus.TRUE
    scale(kubernetes, 3)
    kubernetes.settle()
    assert kubernetes.plan().brokers == (1, 2, 3)
    check_complete(kubernetes)


def test_only_the_generation_that_clients_see_follows_assignments() -> None:
    """What clients do not see leaves a broker that is to be removed, and else stays."""
    kubernetes = with_topic(4, partitions=2, replicas=2)
    hidden = hide_generation(kubernetes)
    apply(kubernetes, {0: (1, 2), 1: (2, 1)}, partitions=2)
    kubernetes.settle()
    assert replicas(kubernetes) == [(1, 2), (2, 1)]
    assert kubernetes.maps["orders"].spec.generations[0] == hidden

    scale(kubernetes, 3)
    kubernetes.settle()
    assert replicas(kubernetes) == [(1, 2), (2, 1)]
    assert kubernetes.plan().brokers == (1, 2, 3)
    for was, now in zip(
        hidden.partitions, kubernetes.maps["orders"].spec.generations[0].partitions, strict=True
    ):
        assert 4 not in now.replicas
        assert {one for one in was.replicas if one != 4} <= set(now.replicas)


def test_assignments_come_before_initial_ones() -> None:
    kubernetes = running(3)
    apply(kubernetes, {0: (3,)}, partitions=1, initialAssignments=entries({0: (2,)}))
    kubernetes.settle()

    assert replicas(kubernetes) == [(3,)]


def test_a_new_partition_needs_one_of_its_brokers_only() -> None:
    kubernetes = running(3)
    kubernetes.kill(2)
    kubernetes.settle()
    apply(kubernetes, {0: (2, 3)}, partitions=1)
    kubernetes.settle()
    (state,) = states(kubernetes)
    assert state.leader is not None
    assert (state.replicas, state.leader.broker_id) == ((2, 3), 3)
    kubernetes.start(2)
    kubernetes.settle()

    check_complete(kubernetes)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"assignments": entries({0: (2,), 1: (9,)})},
            "partition 1: there is no broker 9",
        ),
        (
            {"assignments": entries({0: (3,)})},
            "partition 0: none of its brokers (3) is running",
        ),
        (
            {"replicas": 1, "initialAssignments": entries({1: (1, 2)})},
            "partition 1: 2 brokers are named for 1 replicas",
        ),
    ],
)
def test_a_topic_that_cannot_be_where_it_says_waits(spec: dict[str, Any], why: str) -> None:
    kubernetes = running(3)
    kubernetes.kill(3)
    kubernetes.settle()
    kubernetes.apply(topic(partitions=2, **spec))
    kubernetes.apply(topic("other", partitions=2))
    kubernetes.settle()

    assert "orders" not in kubernetes.maps
    assert len(states(kubernetes, "other")) == 2
    assert ready(kubernetes).reason == "AssignmentNotPossible"
    assert ready(kubernetes).message == (
        f"new partitions cannot be placed as the spec says: {why}; correct spec.assignments, or "
        "remove the entry from spec.initialAssignments"
    )


# -- existing partitions


def test_replicas_move_to_where_the_topic_says() -> None:
    kubernetes = with_topic(4, partitions=4, replicas=2)
    before = replicas(kubernetes)
    apply(kubernetes, {0: (4, 3), 2: (1, 4)}, replicas=2)
    act(kubernetes, 2)
    change = kubernetes.topics["orders"].status.replicas_change
    assert change is not None
    assert "on the brokers of spec.assignments if it names them" in change.message
    kubernetes.settle()

    check_complete(kubernetes)
    assert replicas(kubernetes) == [(4, 3), before[1], (1, 4), before[3]]
    assert kubernetes.topics["orders"].status.replicas_change is None
    assert ready(kubernetes).status is ConditionStatus.TRUE
    assert kubernetes.plan().actions == ()


def test_another_order_changes_the_preferred_leader() -> None:
    kubernetes = running(3)
    apply(kubernetes, {0: (1, 2)}, partitions=1)
    kubernetes.settle()
    apply(kubernetes, {0: (2, 1)}, partitions=1)
    kubernetes.settle()
    kubernetes.now += timedelta(minutes=10)  # preferred leaders are elected now and then
    kubernetes.settle()

    (state,) = states(kubernetes)
    assert state.replicas == (2, 1)
    assert state.leader is not None
    assert state.leader.broker_id == 2


def test_an_assignment_changes_the_number_of_replicas() -> None:
    kubernetes = with_topic(3, partitions=4)
    apply(kubernetes, {0: (1, 2, 3)})
    kubernetes.settle()

    check_complete(kubernetes)
    assert {len(one) for one in replicas(kubernetes)} == {3}
    assert kubernetes.maps["orders"].spec.min_isr == 2


def test_replicas_stay_when_an_assignment_is_removed() -> None:
    kubernetes = running(3)
    apply(kubernetes, dict.fromkeys(range(4), (3,)))
    kubernetes.settle()
    kubernetes.apply(topic(partitions=4))
    kubernetes.settle()

    assert replicas(kubernetes) == [(3,)] * 4


@pytest.mark.parametrize(
    ("placed", "why"),
    [
        ({0: (9,), 1: (2,)}, "partition 0: there is no broker 9"),
        ({0: (3,), 1: (2,)}, "partition 0: broker 3 is not running"),
        ({0: (4,), 1: (2,)}, "partition 0: broker 4 was removed"),
        ({1: (2,), 7: (1,)}, "partition 7: the topic has no such partition"),
    ],
)
def test_only_what_cannot_move_stays(placed: dict[int, tuple[int, ...]], why: str) -> None:
    kubernetes = running(4)
    scale(kubernetes, 3)
    kubernetes.settle()
    apply(kubernetes, {0: (1,), 1: (1,)}, partitions=2)
    kubernetes.settle()
    kubernetes.kill(3)
    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(4)].spec.retired
    kubernetes.apply(topic(assignments=entries(placed), config={"retention.ms": 5}))
    kubernetes.settle()

    assert replicas(kubernetes) == [(1,), (2,)]
    assert kubernetes.maps["orders"].spec.config == {"retention.ms": "5"}
    assert (ready(kubernetes).status, ready(kubernetes).reason) == (
        ConditionStatus.FALSE,
        "AssignmentNotPossible",
    )
    assert ready(kubernetes).message == (
        f"spec.assignments cannot be followed: {why}; correct it, or start the broker. Until then "
        "these partitions stay on brokers that they have"
    )


def test_a_broker_that_comes_gets_its_replicas() -> None:
    kubernetes = with_topic(2, partitions=1)
    apply(kubernetes, {0: (3,)}, partitions=1)
    kubernetes.settle()
    assert ready(kubernetes).reason == "AssignmentNotPossible"
    scale(kubernetes, 3)
    kubernetes.settle()

    assert replicas(kubernetes) == [(3,)]
    assert ready(kubernetes).status is ConditionStatus.TRUE


@pytest.mark.parametrize("annotation", [labels.PAUSE, labels.MANAGED])
def test_a_topic_that_is_left_alone_stays_where_it_is(annotation: str) -> None:
    kubernetes = with_topic(3, partitions=4)
    before = replicas(kubernetes)
    value = "true" if annotation == labels.PAUSE else "false"
    apply(kubernetes, dict.fromkeys(range(4), (3,)), annotations={annotation: value})
    kubernetes.settle()

    assert replicas(kubernetes) == before


def test_more_replicas_than_brokers_are_refused() -> None:
    kubernetes = with_topic(2, partitions=4)
    apply(kubernetes, {0: (1, 2, 3)}, config={"min.insync.replicas": 2})
    kubernetes.settle()

    assert ready(kubernetes).message == (
        "spec.assignments has entries with 3 replicas, but cluster demo has 2 brokers: name at "
        "most 2, or add brokers"
    )
    assert {len(one) for one in replicas(kubernetes)} == {1}


def test_only_the_first_reasons_are_shown() -> None:
    reasons = [(PartitionIndex(one), "why") for one in range(MAX_SHOWN + 2)]
    assert shown(reasons).endswith("partition 4: why; and 2 more")
    assert shown(()) == ""


# -- brokers that are removed


def test_a_broker_that_an_assignment_names_is_not_removed() -> None:
    kubernetes = running(3)
    apply(kubernetes, {0: (3,)})
    kubernetes.settle()
    scale(kubernetes, 2)
    kubernetes.settle()

    found = condition(kubernetes, "Ready")
    assert found.reason == "InvalidConfig"
    assert found.message == (
        "spec.replicas is 2, but spec.assignments of these Topics names brokers that would be "
        "removed: home/orders (broker 3): name other brokers there first, or set it back"
    )
    assert {broker.spec.intent for broker in kubernetes.brokers.values()} == {BrokerIntent.SERVE}

    apply(kubernetes, {0: (2,)})
    kubernetes.settle()
    check_complete(kubernetes)
    assert kubernetes.plan().brokers == (1, 2)


def test_an_assignment_does_not_stop_a_removal_that_has_begun() -> None:
    kubernetes = with_topic(3, partitions=4)
    scale(kubernetes, 2)
    apply(kubernetes, {0: (3,)})
    act(kubernetes, 3)
    assert ready(kubernetes).message.startswith(
        "spec.assignments cannot be followed: partition 0: broker 3 is being removed; "
    )
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2)
    assert ready(kubernetes).reason == "AssignmentNotPossible"
    check_complete(kubernetes)


@pytest.mark.parametrize(
    "annotations", [{}, {labels.MANAGED: "false"}], ids=["deleted", "unmanaged"]
)
def test_a_topic_that_is_not_followed_keeps_no_broker(annotations: dict[str, str]) -> None:
    kubernetes = running(3)
    apply(kubernetes, {0: (3,)})
    kubernetes.settle()
    if annotations:
        apply(kubernetes, {0: (3,)}, annotations=annotations)
    else:
        kubernetes.delete("orders")
    scale(kubernetes, 2)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2)


def test_many_topics_are_counted() -> None:
    kubernetes = running(3)
    for number in range(12):
        kubernetes.apply(topic(f"t{number:02}", partitions=1, assignments=entries({0: (3,)})))
    kubernetes.settle()
    scale(kubernetes, 2)
    kubernetes.settle()

    assert "home/t09 (broker 3) and 2 more: name other" in condition(kubernetes, "Ready").message


# -- Kafka's tool and Rebalances


def test_a_tool_is_told_to_change_the_topic() -> None:
    kubernetes = running(4)
    apply(kubernetes, {0: (1, 2)}, partitions=2, replicas=2)
    kubernetes.settle()
    ask(kubernetes, {0: (3, 4), 1: (3, 4)})
    act(kubernetes, 2)
    assert answers(kubernetes) == {
        0: (
            Code.INVALID_REPLICA_ASSIGNMENT,
            (
                "spec.assignments of Topic home/orders places the partition: change it there, or "
                "remove its entry"
            ),
        ),
        1: (Code.NONE, ""),
    }
    kubernetes.settle()

    assert replicas(kubernetes) == [(1, 2), (3, 4)]


def test_a_tool_may_ask_for_what_the_topic_says() -> None:
    kubernetes = running(4)
    apply(kubernetes, {0: (1, 2)}, partitions=1)
    kubernetes.settle()
    ask(kubernetes, {0: (1, 2)})
    act(kubernetes, 2)

    assert answers(kubernetes) == {0: (Code.NONE, "")}


def test_a_tool_cannot_cancel_what_the_topic_says() -> None:
    kubernetes = running(4)
    apply(kubernetes, {0: (1, 2)}, partitions=1)
    kubernetes.settle()
    ask(kubernetes, {0: None})
    act(kubernetes, 2)
    assert answers(kubernetes)[0][0] is Code.NO_REASSIGNMENT_IN_PROGRESS

    apply(kubernetes, {0: (3, 4)}, partitions=1)
    act(kubernetes)
    ask(kubernetes, {0: None})
    act(kubernetes, 2)
    assert answers(kubernetes)[0][0] is Code.INVALID_REPLICA_ASSIGNMENT
    kubernetes.settle()
    assert replicas(kubernetes) == [(3, 4)]


def test_a_tool_may_move_what_an_unmanaged_topic_names() -> None:
    kubernetes = running(4)
    apply(kubernetes, {0: (1, 2)}, partitions=1)
    kubernetes.settle()
    apply(kubernetes, {0: (1, 2)}, partitions=1, annotations={labels.MANAGED: "false"})
    ask(kubernetes, {0: (3, 4)})
    kubernetes.settle()

    assert replicas(kubernetes) == [(3, 4)]


def test_a_rebalance_leaves_placed_partitions_where_they_are() -> None:
    kubernetes = running(4)
    apply(kubernetes, {0: (1, 2), 1: (1, 2)}, partitions=3)
    kubernetes.settle()
    moves = tuple(to(kubernetes, one, 3, 4) for one in (0, 2))
    kubernetes.rebalances = (approved(*moves, leaders=(move(kubernetes, 1, 2),)),)
    kubernetes.settle()

    assert replicas(kubernetes) == [(1, 2), (1, 2), (3, 4)]


def test_only_a_topic_that_may_own_its_name_pins_partitions() -> None:
    kubernetes = running(3)
    apply(kubernetes, {0: (3,), 2: (1,)})
    kubernetes.settle()
    owner = kubernetes.topics["orders"]
    stranger = replace(
        owner, metadata=replace(owner.metadata, namespace="elsewhere", uid=Uid("stranger"))
    )
    rival = replace(
        owner,
        metadata=replace(owner.metadata, name="rival", uid=Uid("rival")),
        spec=replace(owner.spec, topic_name="orders"),
    )
    new = replace(stranger, spec=replace(owner.spec, topic_name="new"))
    world = replace(kubernetes.world(), topics=(stranger, rival, new, owner))

    assert list(pinning_topics(world, kubernetes.cluster)) == [owner]
    assert pinned_partitions(world, kubernetes.cluster) == {"orders": {0, 2}}


def test_assignments_in_force_name_brokers_that_stay() -> None:
    kubernetes = running(3)
    spec = topic(partitions=3, assignments=entries({0: (1, 9), 2: (2, 3)})).spec

    assert in_force(spec, kubernetes.brokers) == {2: (2, 3)}
