"""Brokers on cordoned nodes lead only where nobody else can, and are normal again afterwards."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Announce
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import ConditionType
from chiplog_core.observed.world import ClaimState
from chiplog_core.planner.leadership.preferred import REST
from chiplog_core.topic_name import CONSUMER_OFFSETS
from tests.planner.model import Kubernetes
from tests.planner.objects import internal_topics, of_users, partitions_of, topic


def running(brokers: int = 3, replicas: int = 3, partitions: int = 6) -> Kubernetes:
    kubernetes = Kubernetes(brokers, config=internal_topics(replicas=3))
    kubernetes.apply(topic(partitions=partitions, replicas=replicas))
    kubernetes.run()
    return kubernetes


def led_by(kubernetes: Kubernetes) -> set[int]:
    states = partitions_of(kubernetes.maps.values())
    return {0 if state.leader is None else state.leader.broker_id for _, _, state in states}


def intents(kubernetes: Kubernetes) -> list[BrokerIntent]:
    return [broker.spec.intent for _, broker in sorted(kubernetes.brokers.items())]


def ready_message(kubernetes: Kubernetes) -> str:
    conditions = kubernetes.cluster.status.conditions
    return next(one.message for one in conditions if one.type == ConditionType.READY)


def test_its_leaderships_go_to_others_and_nothing_else_moves() -> None:
    kubernetes = running()
    assert led_by(kubernetes) == {1, 2, 3}
    before = [
        (state.replicas, state.isr) for _, _, state in partitions_of(kubernetes.maps.values())
    ]

    kubernetes.cordoned = {"node-2"}
    kubernetes.settle()

    assert intents(kubernetes) == [BrokerIntent.SERVE, BrokerIntent.DRAIN, BrokerIntent.SERVE]
    assert led_by(kubernetes) == {1, 3}
    after = [(state.replicas, state.isr) for _, _, state in partitions_of(kubernetes.maps.values())]
    assert after == before
    assert CONSUMER_OFFSETS in kubernetes.maps


def test_it_is_a_normal_broker_again_when_the_node_is_uncordoned() -> None:
    kubernetes = running()
    kubernetes.cordoned = {"node-2"}
    kubernetes.settle()
    kubernetes.cordoned = set()
    kubernetes.settle()
    assert intents(kubernetes) == [BrokerIntent.SERVE] * 3

    kubernetes.now += REST
    kubernetes.settle()

    assert led_by(kubernetes) == {1, 2, 3}


def test_it_leads_where_nobody_else_can() -> None:
    kubernetes = running(replicas=1)
    kubernetes.cordoned = {"node-2"}
    kubernetes.settle()
    assert led_by(kubernetes) == {1, 2, 3}


def test_nothing_new_is_placed_there_while_there_are_others() -> None:
    kubernetes = running()
    kubernetes.cordoned = {"node-2"}
    kubernetes.settle()
    kubernetes.apply(topic("small", partitions=8, replicas=2))
    kubernetes.apply(topic("large", partitions=3, replicas=3))
    kubernetes.settle()

    placed = {
        name: {frozenset(state.replicas) for _, _, state in partitions_of([one])}
        for name, one in of_users(kubernetes.maps).items()
    }
    assert placed["small"] == {frozenset({1, 3})}
    assert placed["large"] == {frozenset({1, 2, 3})}, "there are no others"
    assert led_by(kubernetes) == {1, 3}


def test_one_that_stops_gets_nothing_even_if_there_are_no_others() -> None:
    kubernetes = running()
    kubernetes.cordoned = {"node-2"}
    kubernetes.settle()
    status = kubernetes.brokers[BrokerId(2)].status
    kubernetes.status(2, replace(status, draining=True))
    kubernetes.apply(topic("large", partitions=3, replicas=3))
    kubernetes.settle()
    assert "large" not in kubernetes.maps


def test_every_node_may_be_cordoned() -> None:
    kubernetes = running()
    kubernetes.cordoned = {"node-1", "node-2", "node-3"}
    kubernetes.settle()
    assert led_by(kubernetes) == {1, 2, 3}
    kubernetes.apply(topic("late", partitions=3, replicas=3))
    kubernetes.settle()
    assert "late" in kubernetes.maps


def test_a_broker_that_is_removed_stays_so() -> None:
    kubernetes = running(replicas=2)
    kubernetes.cordoned = {"node-3"}
    kubernetes.configure(2)
    kubernetes.execute(kubernetes.plan().actions)
    assert intents(kubernetes)[2] is BrokerIntent.REMOVE


def test_events_say_so() -> None:
    kubernetes = running()

    def reasons() -> set[str]:
        return {
            news.reason
            for action in kubernetes.plan().actions
            for news in ([] if isinstance(action, Announce) else getattr(action, "news", ()))
        }

    kubernetes.cordoned = {"node-2"}
    assert "BrokerDrains" in reasons()
    kubernetes.settle()
    kubernetes.cordoned = set()
    assert "BrokerServes" in reasons()


@pytest.mark.parametrize(
    ("is_there", "remedy"), [(True, "kubectl uncordon node-2"), (False, "does not exist any more")]
)
def test_a_pod_that_waits_for_its_node_is_reported(is_there: bool, remedy: str) -> None:
    kubernetes = unscheduled()
    kubernetes.cordoned = {"node-2"}
    nodes = dict(kubernetes.world().nodes)
    if not is_there:
        del nodes["node-2"]
    kubernetes.settle(nodes=nodes)
    message = ready_message(kubernetes)
    assert "Unschedulable" in message
    assert remedy in message
    assert "kubectl annotate pod demo-broker-2-0 chiplog.dev/delete-pod-and-pvc=true" in message


def test_a_pod_that_waits_for_something_else_is_reported_as_it_is() -> None:
    kubernetes = unscheduled()
    kubernetes.settle()
    assert "volume was made" not in ready_message(kubernetes)
    kubernetes.claims = {}
    kubernetes.settle()
    assert "volume was made" not in ready_message(kubernetes)


def unscheduled() -> Kubernetes:
    """The pod of broker 2 has no node; its volume is on node 2."""
    kubernetes = running()
    kubernetes.kill(2)
    pod = kubernetes.pods[BrokerId(2)]
    kubernetes.pods[BrokerId(2)] = replace(pod, node="", ready=False, message="Unschedulable: 0/3")
    kubernetes.claims = {BrokerId(2): ClaimState(name="data-demo-broker-2-0", node="node-2")}
    return kubernetes


@given(st.lists(st.sets(st.integers(1, 3), max_size=3), max_size=5))
def test_whatever_is_cordoned_a_leader_is_on_an_open_node_if_it_can(sets: list[set[int]]) -> None:
    kubernetes = running(partitions=2)
    for numbers in sets:
        kubernetes.cordoned = {f"node-{number}" for number in numbers}
        kubernetes.settle()
        for _, _, state in partitions_of(kubernetes.maps.values()):
            assert state.leader is not None
            is_open = state.leader.broker_id not in numbers
            assert is_open or set(state.replicas) <= numbers
