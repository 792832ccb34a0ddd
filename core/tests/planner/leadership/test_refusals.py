"""When a refused connection is believed: table by table, and what a wrong one costs."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId, Incarnation, ReplicaRef, Session
from chiplog_core.model.broker_status import Tail
from chiplog_core.model.partition_map import PartitionState
from chiplog_core.observed.processes import Identity, identity
from chiplog_core.observed.world import World
from chiplog_core.planner.leadership.refusals import (
    BETWEEN_MS,
    Attempt,
    is_refusal,
    reason_to_doubt,
)
from tests.planner.model import Kubernetes
from tests.planner.objects import NOW, internal_topics, of_users, partitions_of, topic

ONE, TWO = BrokerId(1), BrokerId(2)
ANSWERED, REFUSED, SILENT = Attempt.ANSWERED, Attempt.REFUSED, Attempt.SILENT


@pytest.mark.parametrize(
    ("attempts", "is_one"),
    [
        ((), False),
        ((REFUSED,), False),
        ((REFUSED, REFUSED), True),
        ((REFUSED, ANSWERED), False),
        ((REFUSED, SILENT), False),
        ((SILENT, REFUSED), False),
        ((SILENT, SILENT), False),
        ((ANSWERED,), False),
    ],
)
def test_only_two_refusals_are_what_an_ended_process_looks_like(
    attempts: tuple[Attempt, ...], is_one: bool
) -> None:
    assert is_refusal(attempts) is is_one


def cluster(replicas: int = 3) -> Kubernetes:
    kubernetes = Kubernetes(3, config=internal_topics(replicas=3))
    kubernetes.apply(topic(partitions=3, replicas=replicas))
    kubernetes.run()
    for broker_id, pod in kubernetes.pods.items():
        kubernetes.pods[broker_id] = replace(pod, address=f"10.1.0.{broker_id}")
    return kubernetes


def who(kubernetes: Kubernetes, broker_id: BrokerId = ONE) -> Identity:
    found = identity(kubernetes.brokers[broker_id], kubernetes.pods.get(broker_id))
    assert found is not None
    return found


def doubted(kubernetes: Kubernetes, whom: Identity, **changes: Any) -> str:
    return reason_to_doubt(whom, kubernetes.world(**changes), None, 0)


def test_one_of_three_replicas_that_refuses_is_believed_to_be_gone() -> None:
    kubernetes = cluster()
    assert doubted(kubernetes, who(kubernetes)) == ""


def with_pod(broker_id: BrokerId, **changes: Any) -> Callable[[Kubernetes], None]:
    def change(kubernetes: Kubernetes) -> None:
        kubernetes.pods[broker_id] = replace(kubernetes.pods[broker_id], **changes)

    return change


def with_spec(broker_id: BrokerId, **changes: Any) -> Callable[[Kubernetes], None]:
    def change(kubernetes: Kubernetes) -> None:
        broker = kubernetes.brokers[broker_id]
        kubernetes.brokers[broker_id] = replace(broker, spec=replace(broker.spec, **changes))

    return change


OTHER = Incarnation("f" * 32)


@pytest.mark.parametrize(
    "change",
    [
        with_pod(ONE, uid="another"),
        with_pod(ONE, address="10.1.0.9"),
        with_pod(ONE, address=""),
        lambda kubernetes: kubernetes.pods.pop(ONE),
        lambda kubernetes: kubernetes.brokers.pop(ONE),
        with_spec(ONE, admitted_incarnation=OTHER),
        with_spec(ONE, admitted_incarnation=None),
        with_spec(ONE, fenced=True),
        with_spec(ONE, retired=True),
    ],
    ids=[
        *("pod", "address", "no address", "no pod", "no broker"),
        *("incarnation", "none admitted", "fenced", "retired"),
    ],
)
def test_what_is_not_as_it_was_at_the_handshake_says_nothing(
    change: Callable[[Kubernetes], None],
) -> None:
    kubernetes = cluster()
    whom = who(kubernetes)
    change(kubernetes)
    assert "has changed" in doubted(kubernetes, whom)


def test_of_one_that_is_known_to_have_ended_nothing_is_new() -> None:
    kubernetes = cluster()
    kubernetes.kill(1)
    assert "known to have ended" in doubted(kubernetes, who(kubernetes))


@pytest.mark.parametrize(
    ("ago_ms", "is_believed"), [(None, True), (0, False), (BETWEEN_MS - 1, False), (5_000, True)]
)
def test_one_in_five_seconds_is_believed(ago_ms: int | None, is_believed: bool) -> None:
    kubernetes = cluster()
    believed_ms = None if ago_ms is None else 70_000 - ago_ms
    why = reason_to_doubt(who(kubernetes), kubernetes.world(), believed_ms, 70_000)
    assert (why == "") is is_believed


@pytest.mark.parametrize(
    "changes", [{"is_complete": False}, {"unreadable_maps": frozenset({"demo.odd"})}]
)
def test_nothing_is_believed_where_not_all_partitions_are_known(changes: dict[str, Any]) -> None:
    kubernetes = cluster()
    assert "not know all partitions" in doubted(kubernetes, who(kubernetes), **changes)


def test_nothing_is_believed_while_a_living_broker_has_not_checked_the_maps() -> None:
    kubernetes = cluster()
    kubernetes.maps_check = "new"
    assert "not compared its disk" in doubted(kubernetes, who(kubernetes))
    kubernetes.settle()
    assert doubted(kubernetes, who(kubernetes)) == ""


def test_the_only_replica_is_never_given_up_by_a_refusal() -> None:
    kubernetes = cluster(replicas=1)
    why = doubted(kubernetes, who(kubernetes))
    assert why == "no other in-sync replica of orders-0 is alive"


def test_who_holds_no_partition_may_go() -> None:
    kubernetes = Kubernetes(3, config=internal_topics(replicas=3))
    kubernetes.run()
    kubernetes.pods[ONE] = replace(kubernetes.pods[ONE], address="10.1.0.1")
    assert doubted(kubernetes, who(kubernetes)) == ""


def change_states(
    kubernetes: Kubernetes, change: Callable[[PartitionState], PartitionState]
) -> None:
    one = kubernetes.maps["orders"]
    (generation,) = one.spec.generations
    generation = replace(generation, partitions=tuple(map(change, generation.partitions)))
    kubernetes.maps["orders"] = replace(one, spec=replace(one.spec, generations=(generation,)))


def isr_of(*texts: str) -> Callable[[Kubernetes], None]:
    isr = tuple(ReplicaRef.from_text(text) for text in texts)

    def change(kubernetes: Kubernetes) -> None:
        change_states(kubernetes, lambda state: replace(state, isr=isr))

    return change


def dead(broker_id: int) -> Callable[[Kubernetes], None]:
    return lambda kubernetes: kubernetes.kill(broker_id)


def restarted(broker_id: int) -> Callable[[Kubernetes], None]:
    """A new process, which no plan has seen yet: nobody knows its session."""
    return lambda kubernetes: kubernetes.start(broker_id, tail=Tail.SUSPECT)


def offline(broker_id: BrokerId) -> Callable[[Kubernetes], None]:
    def change(kubernetes: Kubernetes) -> None:
        status = kubernetes.brokers[broker_id].status
        (directory,) = status.directories
        directories = (replace(directory, online=False),)
        kubernetes.status(broker_id, replace(status, directories=directories))

    return change


@pytest.mark.parametrize(
    ("changes", "is_believed"),
    [
        ((isr_of("1@1"),), False),
        ((isr_of("1@1", "2@1"),), True),
        ((isr_of("2@1", "3@1"),), True),
        ((isr_of("1@1", "2@2"),), False),
        ((isr_of("1@1", "2@1"), dead(2)), False),
        ((isr_of("1@1", "2@1", "3@1"), dead(2)), True),
        ((isr_of("1@1", "2@1", "3@1"), dead(2), dead(3)), False),
        ((isr_of("1@1", "2@1"), restarted(2)), False),
        ((isr_of("1@1", "2@1"), offline(TWO)), False),
        ((isr_of("1@1", "2@1"), with_spec(TWO, fenced=True)), False),
        ((isr_of("1@1", "2@1"), with_spec(TWO, session=Session(2))), False),
    ],
    ids=[
        *("alone", "of two", "not in it", "the other in a session that is none"),
        *("the other dead", "a third", "all others dead", "the other restarting"),
        *("the other without its disk", "the other fenced", "the other in a later session"),
    ],
)
def test_a_partition_is_never_left_without_a_living_in_sync_replica(
    changes: tuple[Callable[[Kubernetes], None], ...], is_believed: bool
) -> None:
    kubernetes = cluster()
    whom = who(kubernetes)
    for change in changes:
        change(kubernetes)
    why = doubted(kubernetes, whom)
    assert (why == "") is is_believed
    assert is_believed or "no other in-sync replica" in why


def test_a_generation_in_the_trash_holds_nobody_back() -> None:
    kubernetes = cluster(replicas=1)
    one = kubernetes.maps["orders"]
    (generation,) = one.spec.generations
    trash = replace(generation, trash_until=NOW + timedelta(days=1))
    kubernetes.maps["orders"] = replace(one, spec=replace(one.spec, generations=(trash,)))
    assert doubted(kubernetes, who(kubernetes)) == ""


def test_a_false_refusal_costs_a_session_and_no_in_sync_replica_is_elected_twice() -> None:
    """As the judge tells it: given up, renewing later, admitted anew."""
    kubernetes = cluster()
    whom = who(kubernetes)
    maps = of_users(kubernetes.maps)
    before = {state.leader_epoch for _, _, state in partitions_of(maps.values())}
    kubernetes.ended[whom.incarnation] = "refuses connections"
    kubernetes.renewing.discard(whom.incarnation)
    kubernetes.settle()
    states = [state for _, _, state in partitions_of(of_users(kubernetes.maps).values())]
    assert kubernetes.brokers[ONE].spec.fenced
    assert {state.leader.broker_id for state in states if state.leader} == {2, 3}
    assert all(ReplicaRef(ONE, Session(1)) not in state.isr for state in states)
    del kubernetes.ended[whom.incarnation]
    kubernetes.renewing.add(whom.incarnation)
    kubernetes.settle()
    broker = kubernetes.brokers[ONE].spec
    assert (broker.admitted_incarnation, broker.session) == (whom.incarnation, 2)
    assert not broker.fenced
    states = [state for _, _, state in partitions_of(of_users(kubernetes.maps).values())]
    assert max(state.leader_epoch for state in states) > max(before)
    assert who(kubernetes) == whom


def test_a_world_without_the_broker_is_no_world_to_decide_in() -> None:
    kubernetes = cluster()
    whom = who(kubernetes)
    empty = World(metadata=kubernetes.cluster.metadata, cluster=None)
    assert reason_to_doubt(whom, empty, None, 0) != ""
