"""Brokers under maintenance lead nothing, get nothing new, and are left alone."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RestartPod
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.observed.world import ClaimState
from chiplog_core.planner.brokers.stranded import PATIENCE
from chiplog_core.planner.leadership.preferred import REST
from tests.planner.model import Kubernetes
from tests.planner.objects import NOW, internal_topics, topic

BROKER = BrokerId(2)
IN_MAINTENANCE: dict[str, Any] = {"maintenance": {"brokers": [2]}}


def running(replicas: int = 3, *, of_topic: int = 3, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes(replicas, **spec)
    kubernetes.run()
    kubernetes.apply(topic(partitions=3, replicas=of_topic))
    kubernetes.settle()
    return kubernetes


def conditions(kubernetes: Kubernetes) -> dict[str, Condition]:
    return {one.type: one for one in kubernetes.cluster.status.conditions}


def leaders(kubernetes: Kubernetes, name: str = "orders") -> list[BrokerId]:
    states = kubernetes.maps[name].spec.current_partitions
    return [state.leader.broker_id for state in states if state.leader is not None]


def restarts(kubernetes: Kubernetes) -> list[BrokerId]:
    return [one.broker_id for one in kubernetes.plan().actions if isinstance(one, RestartPod)]


def test_it_gives_up_its_leaderships_keeps_its_replicas_and_gets_them_back() -> None:
    kubernetes = running()
    assert leaders(kubernetes) == [1, 2, 3]
    kubernetes.configure(3, **IN_MAINTENANCE)
    kubernetes.settle()

    assert kubernetes.brokers[BROKER].spec.intent is BrokerIntent.DRAIN
    assert BROKER not in leaders(kubernetes)
    assert all(BROKER in one.replicas for one in kubernetes.maps["orders"].spec.current_partitions)
    told = conditions(kubernetes)["Maintenance"]
    assert (told.status, told.reason) == (ConditionStatus.TRUE, "LeadingNothing")
    assert told.message == "broker 2 under maintenance, leading no partition"
    assert conditions(kubernetes)["Stable"].status is ConditionStatus.TRUE
    kubernetes.now += 2 * REST
    kubernetes.settle()
    assert BROKER not in leaders(kubernetes), "not even as the preferred leader"

    kubernetes.configure(3)
    kubernetes.settle()
    assert "Maintenance" not in conditions(kubernetes)
    kubernetes.now += 2 * REST
    kubernetes.settle()
    assert leaders(kubernetes) == [1, 2, 3]


def test_it_leads_where_nobody_else_can() -> None:
    kubernetes = running(of_topic=1)
    kubernetes.configure(3, **IN_MAINTENANCE)
    kubernetes.settle()

    assert leaders(kubernetes) == [1, 2, 3]
    told = conditions(kubernetes)["Maintenance"]
    assert (told.reason, told.message) == (
        "LeadershipsMoving",
        (
            "broker 2 under maintenance, still leading 1 partition, where no other replica is in "
            "sync yet"
        ),
    )
    kubernetes.configure(3, maintenance={"brokers": [1, 2]})
    kubernetes.settle()
    assert "still leading 4 partitions" in conditions(kubernetes)["Maintenance"].message


def test_new_topics_are_placed_on_the_others() -> None:
    kubernetes = running(**IN_MAINTENANCE)
    kubernetes.apply(topic("new", partitions=6, replicas=2))
    kubernetes.settle()

    states = kubernetes.maps["new"].spec.current_partitions
    assert {one for state in states for one in state.replicas} == {1, 3}


@pytest.mark.parametrize(
    ("held", "needed", "why"),
    [
        (
            [1, 2, 3],
            1,
            (
                "needs 1 ready brokers that take new replicas, but there are 0, because brokers 1, "
                "2, 3 are under maintenance: remove them from spec.maintenance.brokers of the "
                "BrokerCluster"
            ),
        ),
        (
            [2],
            3,
            (
                "needs 3 ready brokers that take new replicas, but there are 2, because broker 2 "
                "is under maintenance: remove it from spec.maintenance.brokers of the "
                "BrokerCluster, wait for more brokers, or ask for fewer replicas"
            ),
        ),
    ],
)
def test_a_new_topic_that_needs_them_names_them(held: list[int], needed: int, why: str) -> None:
    kubernetes = running(maintenance={"brokers": held})
    kubernetes.apply(topic("new", partitions=1, replicas=needed))
    kubernetes.settle()

    assert "new" not in kubernetes.maps
    (told,) = kubernetes.topics["new"].status.conditions
    assert (told.reason, told.message) == ("WaitingForBrokers", why)
    kubernetes.configure(3)
    kubernetes.settle()
    assert "new" in kubernetes.maps


def test_one_that_is_down_is_not_named_as_the_reason() -> None:
    kubernetes = running(**IN_MAINTENANCE)
    kubernetes.kill(BROKER)
    kubernetes.settle()
    kubernetes.apply(topic("new", partitions=1, replicas=3))
    kubernetes.settle()

    (told,) = kubernetes.topics["new"].status.conditions
    assert told.message.startswith("needs 3 ready brokers, but there are 2: wait")


def test_the_offsets_topic_keeps_its_replicas() -> None:
    kubernetes = running(config=internal_topics(replicas=3))
    kubernetes.configure(3, config=internal_topics(replicas=3), **IN_MAINTENANCE)
    kubernetes.settle()

    (state,) = kubernetes.maps["__consumer_offsets"].spec.current_partitions
    assert set(state.replicas) == {1, 2, 3}


def test_it_is_restarted_only_after_its_maintenance() -> None:
    kubernetes = running(**IN_MAINTENANCE)
    kubernetes.roll_out(2)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    applied = conditions(kubernetes)["ConfigurationApplied"]
    assert (applied.reason, applied.message) == (
        "UnderMaintenance",
        (
            "broker 2 must restart for a changed configuration; waiting until the maintenance of "
            "broker 2 ends"
        ),
    )
    assert conditions(kubernetes)["Quiesced"].status is ConditionStatus.TRUE
    kubernetes.configure(3)
    assert restarts(kubernetes) == [2]


def test_while_it_is_up_a_restart_of_another_depends_on_it() -> None:
    """If it goes down between the plan and the restart, the plan is made again."""
    kubernetes = running(4, **IN_MAINTENANCE)
    kubernetes.roll_out(4)

    (restart,) = [one for one in kubernetes.plan().actions if isinstance(one, RestartPod)]
    assert restart.must_be_ready == (1, 2, 3)


def test_others_are_restarted_while_it_is_down() -> None:
    kubernetes = running(4, **IN_MAINTENANCE)
    kubernetes.kill(BROKER)
    pod = kubernetes.pods[BROKER]
    kubernetes.pods[BROKER] = replace(pod, ready=False, deleting=True)
    kubernetes.settle()
    assert conditions(kubernetes)["Ready"].status is ConditionStatus.TRUE
    kubernetes.roll_out(4)

    (restart,) = [one for one in kubernetes.plan().actions if isinstance(one, RestartPod)]
    assert restart.broker_id == 4
    assert restart.must_be_ready == (1, 3)


@pytest.mark.parametrize("min_isr", [2, 3])
def test_but_not_below_min_isr(min_isr: int) -> None:
    kubernetes = running()
    config = {"min.insync.replicas": min_isr}
    kubernetes.apply(topic(partitions=3, replicas=3, config=config))
    kubernetes.configure(3, **IN_MAINTENANCE)
    kubernetes.settle()
    kubernetes.kill(BROKER)
    kubernetes.settle()
    kubernetes.roll_out(1)

    assert restarts(kubernetes) == []


def test_its_stranded_pod_is_left_alone() -> None:
    kubernetes = running(**IN_MAINTENANCE)
    kubernetes.kill(BROKER)
    kubernetes.pods[BROKER] = replace(kubernetes.pods[BROKER], ready=False, bound_at=NOW)
    claim = ClaimState(name="data-demo-broker-2-0", is_pending=True, created_at=NOW)
    kubernetes.claims = {BROKER: claim}
    kubernetes.now = NOW + PATIENCE + timedelta(seconds=1)

    assert restarts(kubernetes) == []
    kubernetes.configure(3)
    assert restarts(kubernetes) == [2]


def test_it_is_emptied_but_not_removed() -> None:
    kubernetes = running(of_topic=1, maintenance={"brokers": [3]})
    kubernetes.apply(topic("one", partitions=1, replicas=1))
    kubernetes.delete("orders")
    kubernetes.settle()
    kubernetes.configure(2, maintenance={"brokers": [3]})
    kubernetes.settle()

    assert kubernetes.brokers[BrokerId(3)].spec.intent is BrokerIntent.REMOVE
    assert not kubernetes.brokers[BrokerId(3)].spec.retired
    kubernetes.configure(2)
    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(3)].spec.retired


def test_ids_of_no_broker_are_reported() -> None:
    kubernetes = running(maintenance={"brokers": [2, 7, 9]})

    warning = conditions(kubernetes)["Warning"]
    assert (warning.reason, warning.message) == (
        "UnknownBrokers",
        (
            "spec.maintenance.brokers lists brokers 7, 9, which the cluster does not have: correct "
            "the list"
        ),
    )
