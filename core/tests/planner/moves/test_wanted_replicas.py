"""Replicas follow the numbers that Topics and the BrokerCluster ask for."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, PartitionEpoch
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.model.topic import ReplicasChangeState
from chiplog_core.planner.moves.wanted_replicas import MAX_COPIES
from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.planner.copying import Copying
from tests.planner.moves.test_reassignments import act, ask
from tests.planner.objects import internal_topics, partitions_of, topic


def running(brokers: int = 3, **spec: object) -> Copying:
    kubernetes = Copying(brokers, **spec)
    kubernetes.run()
    return kubernetes


def with_topic(brokers: int = 3, **spec: Any) -> Copying:
    kubernetes = running(brokers)
    kubernetes.apply(topic(**spec))
    kubernetes.settle()
    return kubernetes


def states(kubernetes: Copying, name: str = "orders") -> tuple[PartitionState, ...]:
    return kubernetes.maps[name].spec.current_partitions


def condition(kubernetes: Copying, kind: str) -> Condition:
    return next(one for one in kubernetes.cluster.status.conditions if one.type == kind)


def scale(kubernetes: Copying, brokers: int) -> None:
    """`kubectl scale`, and new brokers start."""
    kubernetes.configure(brokers)
    kubernetes.execute(kubernetes.plan().actions)
    for broker_id, broker in sorted(kubernetes.brokers.items()):
        if broker.status.incarnation is None:
            kubernetes.start(broker_id)


def hibernate(kubernetes: Copying, *, is_hibernated: bool) -> None:
    known = kubernetes.maps["orders"]
    spec = replace(known.spec, hibernated=is_hibernated)
    kubernetes.maps["orders"] = kubernetes.stored(replace(known, spec=spec))


def check_complete(kubernetes: Copying) -> None:
    """Every replica is in sync, nothing is left over, and no broker is asked for."""
    for _, _, state in partitions_of(kubernetes.maps.values()):
        assert not state.is_moving
        assert not state.leftovers
        assert {ref.broker_id for ref in state.isr} == set(state.replicas)


# -- the number of replicas of a topic


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2), (3, 1), (2, 3)])
def test_a_topic_gets_as_many_replicas_as_its_spec_asks_for(before: int, after: int) -> None:
    kubernetes = with_topic(5, partitions=7, replicas=before)
    leaders = [state.replicas[0] for state in states(kubernetes)]
    kubernetes.apply(topic(partitions=7, replicas=after))
    kubernetes.settle()

    check_complete(kubernetes)
    assert {len(state.replicas) for state in states(kubernetes)} == {after}
    assert [state.replicas[0] for state in states(kubernetes)] == leaders
    load = Counter(one for state in states(kubernetes) for one in state.replicas)
    assert max(load.values()) - min(load[BrokerId(one)] for one in range(1, 6)) <= 2
    status = kubernetes.topics["orders"].status
    assert (status.replicas, status.replicas_change) == (after, None)


def test_the_status_shows_how_far_a_change_has_come() -> None:
    kubernetes = with_topic(partitions=7, replicas=1)
    kubernetes.apply(topic(partitions=7, replicas=3))
    shown = []
    for _ in range(60):
        kubernetes.execute(kubernetes.plan().actions)
        kubernetes.execute(kubernetes.plan().actions)  # a map that is written is reported later
        kubernetes.obey()
        change = kubernetes.topics["orders"].status.replicas_change
        if change is not None and (change.state, change.message) not in shown:
            assert change.target_replicas == 3
            shown.append((change.state, change.message))

    assert shown[0] == (
        ReplicasChangeState.ONGOING,
        "0 of 7 partitions have 3 replicas, 7 are being changed, 0 wait",
    )
    assert kubernetes.topics["orders"].status.replicas_change is None


def test_a_broker_copies_only_a_few_partitions_at_once() -> None:
    kubernetes = with_topic(partitions=30, replicas=1)
    kubernetes.apply(topic(partitions=30, replicas=3))
    most: Counter[int] = Counter()
    for _ in range(100):
        kubernetes.execute(kubernetes.plan().actions)
        kubernetes.obey()
        copies = Counter(one for state in states(kubernetes) for one in state.adding)
        most |= copies

    check_complete(kubernetes)
    assert set(most.values()) == {MAX_COPIES}


def test_no_write_is_refused_while_replicas_are_added() -> None:
    """A min ISR that follows from the number of replicas is raised when all of them are there."""
    kubernetes = with_topic(partitions=7, replicas=1)
    kubernetes.apply(topic(partitions=7, replicas=3))
    for _ in range(60):
        spec = kubernetes.maps["orders"].spec
        assert all(len(state.isr) >= spec.min_isr for state in spec.current_partitions)
        kubernetes.execute(kubernetes.plan().actions)
        kubernetes.obey()

    assert kubernetes.maps["orders"].spec.min_isr == 2


def test_a_min_isr_of_its_own_is_raised_when_the_replicas_are_there() -> None:
    kubernetes = with_topic(partitions=2, replicas=1)
    kubernetes.apply(topic(partitions=2, replicas=3, config={"min.insync.replicas": 2}))
    for _ in range(30):
        spec = kubernetes.maps["orders"].spec
        assert all(len(state.isr) >= spec.min_isr for state in spec.current_partitions)
        kubernetes.execute(kubernetes.plan().actions)
        kubernetes.obey()

    assert kubernetes.maps["orders"].spec.min_isr == 2


def test_fewer_replicas_while_all_old_ones_are_dead() -> None:
    """Each write of the map is checked: none may be refused."""
    kubernetes = with_topic(6, partitions=1, replicas=3)
    before = states(kubernetes)[0]
    added = tuple(BrokerId(one) for one in range(1, 7) if one not in before.replicas)
    ask(kubernetes, {0: added}, asked=added[0])
    act(kubernetes, 2)
    kubernetes.kill(added[2])
    for _ in range(5):
        act(kubernetes)
        kubernetes.obey()
    for one in before.replicas:
        kubernetes.kill(one)
    for _ in range(5):
        kubernetes.obey()
        act(kubernetes)
    assert {ref.broker_id for ref in states(kubernetes)[0].isr} == set(added[:2])

    kubernetes.apply(topic(partitions=1, replicas=1))
    kubernetes.settle()
    (state,) = states(kubernetes)
    assert state.leader is not None
    assert state.leader.broker_id in added[:2]


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_dead_preferred_leader_goes_first(replicas: int) -> None:
    kubernetes = with_topic(3, partitions=1, replicas=3)
    first = states(kubernetes)[0].replicas[0]
    kubernetes.kill(first)
    kubernetes.settle()
    kubernetes.apply(topic(partitions=1, replicas=replicas))
    kubernetes.settle()

    assert len(states(kubernetes)[0].replicas) == replicas
    assert first not in states(kubernetes)[0].replicas


def test_the_status_says_why_replicas_wait() -> None:
    kubernetes = with_topic(partitions=2, replicas=1)
    kubernetes.kill(3)
    kubernetes.settle()
    kubernetes.apply(topic(partitions=2, replicas=3))
    kubernetes.settle()

    change = kubernetes.topics["orders"].status.replicas_change
    assert change is not None
    assert change.message == (
        "0 of 2 partitions have 3 replicas, 0 are being changed, 2 wait (partition 0: too few "
        "brokers can take a new replica)"
    )


def test_copies_that_cannot_be_made_do_not_stop_others() -> None:
    """All partitions of one topic were to move from a broker that then died."""
    kubernetes = with_topic(3, partitions=1, replicas=1)
    kubernetes.apply(topic("dead", partitions=45, replicas=1))
    kubernetes.settle()
    kubernetes.apply(topic("alive", partitions=6, replicas=2))
    kubernetes.settle()
    kubernetes.configure(2)
    act(kubernetes, 2)
    assert any(state.adding for state in states(kubernetes, "dead"))
    kubernetes.kill(3)
    kubernetes.settle()

    assert any(state.adding for state in states(kubernetes, "dead"))
    assert not any(3 in state.replicas for state in states(kubernetes, "alive"))


def test_a_replica_on_a_retired_broker_is_replaced() -> None:
    """The last operator began a move to it when it was removed."""
    kubernetes = with_topic(4, partitions=1, replicas=2)
    kubernetes.configure(3)
    act(kubernetes)
    seen = kubernetes.maps["orders"]
    (state,) = states(kubernetes)
    late = replace(
        state,
        replicas=(*state.replicas, BrokerId(4)),
        adding=(BrokerId(4),),
        partition_epoch=PartitionEpoch(state.partition_epoch + 1),
    )
    act(kubernetes)
    assert kubernetes.brokers[BrokerId(4)].spec.retired
    (generation,) = seen.spec.generations
    spec = replace(seen.spec, generations=(replace(generation, partitions=(late,)),))
    kubernetes.maps["orders"] = kubernetes.stored(replace(seen, spec=spec))
    kubernetes.apply(topic(partitions=1, replicas=3))
    kubernetes.settle()

    check_complete(kubernetes)
    assert set(states(kubernetes)[0].replicas) == {1, 2, 3}


def test_a_partition_that_is_added_meanwhile_has_the_new_number() -> None:
    kubernetes = with_topic(partitions=2, replicas=1)
    kubernetes.apply(topic(partitions=4, replicas=2))
    kubernetes.execute(kubernetes.plan().actions)
    assert [len(state.target) for state in states(kubernetes)] == [2, 2, 2, 2]
    kubernetes.settle()

    check_complete(kubernetes)


def test_a_hibernated_topic_gets_its_replicas_when_it_is_woken() -> None:
    kubernetes = with_topic(partitions=2, replicas=1)
    before = states(kubernetes)
    hibernate(kubernetes, is_hibernated=True)
    kubernetes.apply(topic(partitions=2, replicas=3))
    kubernetes.settle()
    assert states(kubernetes) == before

    hibernate(kubernetes, is_hibernated=False)
    kubernetes.settle()
    check_complete(kubernetes)
    assert {len(state.replicas) for state in states(kubernetes)} == {3}


def test_a_change_can_be_taken_back() -> None:
    kubernetes = with_topic(partitions=7, replicas=1)
    before = [state.replicas for state in states(kubernetes)]
    kubernetes.apply(topic(partitions=7, replicas=3))
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.apply(topic(partitions=7, replicas=1))
    kubernetes.settle()

    check_complete(kubernetes)
    assert [state.replicas for state in states(kubernetes)] == before


def test_replicas_are_added_in_racks_that_have_none() -> None:
    kubernetes = Copying(4, rack={"topologyKey": "zone"})
    kubernetes.zones = {BrokerId(one): "ab"[one % 2] for one in range(1, 5)}
    kubernetes.run()
    kubernetes.apply(topic(partitions=8, replicas=1))
    kubernetes.settle()
    kubernetes.apply(topic(partitions=8, replicas=2))
    kubernetes.settle()

    for state in states(kubernetes):
        assert len({kubernetes.zones[one] for one in state.replicas}) == 2


# -- internal topics


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_an_internal_topic_has_three_replicas_when_there_are_three_brokers(name: str) -> None:
    config = internal_topics(partitions=6, replicas=3)
    kubernetes = running(1, config=config)
    kubernetes.configure(3, config=config)
    kubernetes.settle()
    for broker_id in (2, 3):
        kubernetes.start(broker_id)
    most = 0
    for _ in range(150):
        kubernetes.execute(kubernetes.plan().actions)
        kubernetes.obey()
        found = [*states(kubernetes, CONSUMER_OFFSETS), *states(kubernetes, TRANSACTION_STATE)]
        most = max(most, *Counter(one for state in found for one in state.adding).values(), 0)

    check_complete(kubernetes)
    assert most == 1, "groups of several partitions would wait at once"
    assert {len(state.replicas) for state in states(kubernetes, name)} == {3}
    assert kubernetes.maps[name].spec.min_isr == 2
    status = kubernetes.cluster.status
    told = {CONSUMER_OFFSETS: status.consumer_offsets, TRANSACTION_STATE: status.transaction_state}
    shown = told[name]
    assert shown is not None
    assert shown.replicas == 3


OFFSETS = internal_topics(partitions=2, replicas=3)
INTERNAL = (CONSUMER_OFFSETS, TRANSACTION_STATE)


@pytest.mark.parametrize(("brokers", "min_isr"), [(2, 1), (1, 1)])
def test_internal_topics_have_no_more_replicas_than_there_are_brokers(
    brokers: int, min_isr: int
) -> None:
    kubernetes = running(3, config=OFFSETS)
    assert {kubernetes.maps[name].spec.min_isr for name in INTERNAL} == {2}
    kubernetes.configure(brokers, config=OFFSETS)
    kubernetes.settle()

    check_complete(kubernetes)
    assert len(kubernetes.plan().brokers) == brokers
    for name in INTERNAL:
        assert {len(one.replicas) for one in states(kubernetes, name)} == {brokers}
        assert kubernetes.maps[name].spec.min_isr == min_isr


def test_the_topic_of_offsets_stays_while_the_removal_of_brokers_is_refused() -> None:
    kubernetes = running(3, config=OFFSETS)
    kubernetes.apply(topic(partitions=1, replicas=3))
    kubernetes.settle()
    kubernetes.configure(2, config=OFFSETS)
    kubernetes.settle()

    assert condition(kubernetes, "Ready").reason == "InvalidConfig"
    assert {len(one.replicas) for one in states(kubernetes, CONSUMER_OFFSETS)} == {3}


def test_the_topic_of_offsets_stays_while_a_broker_cannot_be_read() -> None:
    kubernetes = running(3, config=OFFSETS)
    brokers = {one: broker for one, broker in kubernetes.brokers.items() if one != 3}
    unreadable = {"demo-3": "spec.x is unknown"}
    for _ in range(3):
        plan = kubernetes.plan(brokers=brokers, unreadable_brokers=unreadable)
        kubernetes.execute(plan.actions)

    assert {len(one.target) for one in states(kubernetes, CONSUMER_OFFSETS)} == {3}


def test_coordinators_of_a_removed_broker_are_spread() -> None:
    """Whatever the load by users' topics is."""
    config = {"offsets.topic.num.partitions": 16, "offsets.topic.replication.factor": 1}
    kubernetes = running(4, config=config)
    kubernetes.apply(topic(partitions=8, replicas=1))
    kubernetes.settle()
    kubernetes.configure(4, config=config)
    for partition in range(8):
        ask(kubernetes, {partition: (1 + partition % 2,)})
        kubernetes.settle()
    kubernetes.configure(3, config=config)
    kubernetes.settle()

    load = Counter(one.replicas[0] for one in states(kubernetes, CONSUMER_OFFSETS))
    assert set(load) == {1, 2, 3}
    assert max(load.values()) - min(load.values()) <= 2


# -- fewer brokers


def test_the_brokers_with_the_highest_ids_are_emptied_and_removed() -> None:
    kubernetes = with_topic(5, partitions=20, replicas=3)
    before = states(kubernetes)
    scale(kubernetes, 3)
    assert [broker.spec.intent for broker in kubernetes.brokers.values()] == [
        BrokerIntent.SERVE,
        BrokerIntent.SERVE,
        BrokerIntent.SERVE,
        BrokerIntent.REMOVE,
        BrokerIntent.REMOVE,
    ]
    kubernetes.obey()
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.execute(kubernetes.plan().actions)
    assert condition(kubernetes, "Quiesced").message == (
        "replicas of 9 partitions are being moved; to be removed when nothing is left on them: "
        "brokers 4, 5"
    )
    assert kubernetes.plan().brokers == (1, 2, 3, 4, 5)
    kubernetes.settle()

    check_complete(kubernetes)
    assert kubernetes.plan().brokers == (1, 2, 3)
    for was, now in zip(before, states(kubernetes), strict=True):
        assert set(now.replicas) == {1, 2, 3}
        kept = [one for one in was.replicas if one <= 3]
        assert [one for one in now.replicas if one in kept] == kept, "only what must move moves"
    assert condition(kubernetes, "Quiesced").status is ConditionStatus.TRUE


def test_a_removal_can_be_taken_back() -> None:
    kubernetes = with_topic(5, partitions=20, replicas=3)
    scale(kubernetes, 3)
    for _ in range(3):
        kubernetes.obey()
        kubernetes.execute(kubernetes.plan().actions)
    scale(kubernetes, 5)
    kubernetes.settle()

    check_complete(kubernetes)
    assert kubernetes.plan().brokers == (1, 2, 3, 4, 5)
    assert {broker.spec.intent for broker in kubernetes.brokers.values()} == {BrokerIntent.SERVE}
    assert not any(broker.spec.retired for broker in kubernetes.brokers.values())


def test_no_broker_is_removed_that_a_topic_needs() -> None:
    kubernetes = with_topic(3, partitions=2, replicas=3)
    scale(kubernetes, 2)
    kubernetes.settle()

    ready = condition(kubernetes, "Ready")
    assert ready.reason == "InvalidConfig"
    assert ready.message == (
        "spec.replicas is 2, but these topics have more replicas: orders (3): set spec.replicas of "
        "these Topics to at most 2 first, or set it back"
    )
    assert {broker.spec.intent for broker in kubernetes.brokers.values()} == {BrokerIntent.SERVE}

    kubernetes.apply(topic(partitions=2, replicas=2))
    kubernetes.settle()
    check_complete(kubernetes)
    assert kubernetes.plan().brokers == (1, 2)


def test_a_broker_that_is_dead_is_removed_too() -> None:
    kubernetes = with_topic(4, partitions=8, replicas=3)
    kubernetes.kill(4)
    kubernetes.settle()
    kubernetes.configure(3)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2, 3)
    assert all(set(state.replicas) == {1, 2, 3} for state in states(kubernetes))


def test_a_dead_broker_is_not_awaited_to_delete_a_topic() -> None:
    kubernetes = with_topic(4, partitions=4, replicas=3)
    kubernetes.kill(4)
    kubernetes.settle()
    kubernetes.delete("orders")
    kubernetes.settle()
    kubernetes.configure(3)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2, 3)
    assert "orders" not in kubernetes.maps


def test_a_dead_broker_that_had_reported_is_removed() -> None:
    kubernetes = with_topic(4, partitions=4, replicas=3)
    for broker_id in (1, 2, 3, 4):
        kubernetes.kill(broker_id)
    kubernetes.settle()
    for broker_id in (1, 2, 3, 4):
        kubernetes.start(broker_id)
    for _ in range(2):
        act(kubernetes)
        kubernetes.obey()
        if kubernetes.brokers[BrokerId(4)].status.replica_reports:
            break
    assert kubernetes.brokers[BrokerId(4)].status.replica_reports
    kubernetes.kill(4)
    kubernetes.settle()
    kubernetes.configure(3)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 2, 3)


def test_old_replicas_that_a_dead_broker_cannot_delete_are_not_called_moving() -> None:
    kubernetes = with_topic(4, partitions=1, replicas=2)
    (state,) = states(kubernetes)
    dead = next(one for one in state.replicas if one != 1)
    other = next(BrokerId(one) for one in range(1, 5) if one not in state.replicas)
    kubernetes.kill(dead)
    kubernetes.settle()
    ask(kubernetes, {0: (1, other)})
    kubernetes.settle()

    assert states(kubernetes)[0].replicas == (1, other)
    assert condition(kubernetes, "Quiesced").message == (
        "old replicas of 1 partition are still to be deleted"
    )


def test_a_topic_without_an_object_that_stops_a_removal_is_named() -> None:
    kubernetes = with_topic(3, partitions=1, replicas=3, deletionPolicy="Retain")
    kubernetes.delete("orders")
    kubernetes.settle()
    assert "orders" in kubernetes.maps
    assert "orders" not in kubernetes.topics
    kubernetes.configure(2)
    kubernetes.settle()

    assert condition(kubernetes, "Ready").message == (
        "spec.replicas is 2, but these topics have more replicas: orders (3): set spec.replicas of "
        "these Topics to at most 2 first (create one for orders), or set it back"
    )


def test_a_broker_with_the_only_replica_is_not_removed_before_it_is_copied() -> None:
    kubernetes = with_topic(2, partitions=2, replicas=1)
    kubernetes.kill(2)
    kubernetes.settle()
    kubernetes.configure(1)
    kubernetes.settle()
    assert kubernetes.plan().brokers == (1, 2)

    kubernetes.start(2)
    kubernetes.settle()
    check_complete(kubernetes)
    assert kubernetes.plan().brokers == (1,)


@pytest.mark.parametrize("kills", [1, 2, 3])
def test_an_operator_that_is_killed_anywhere_leaves_what_the_next_one_completes(kills: int) -> None:
    start = with_topic(5, partitions=6, replicas=2)
    start.apply(topic("few", partitions=3, replicas=1))
    start.settle()
    start.apply(topic("few", partitions=3, replicas=3))
    scale(start, 3)
    straight = deepcopy(start)
    straight.settle()
    for _ in range(kills * 2):
        start.execute(start.plan().actions)
        start.obey()
    actions = start.plan().actions
    for length in range(len(actions)):
        killed = deepcopy(start)
        killed.execute(actions[:length])
        killed.settle()

        check_complete(killed)
        assert killed.plan().brokers == (1, 2, 3)
        assert {len(state.replicas) for state in states(killed, "few")} == {3}
