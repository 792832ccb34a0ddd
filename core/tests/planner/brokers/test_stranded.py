"""A pod on a node whose claim waits for a pod to be scheduled is made again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import RestartPod
from chiplog_core.naming import labels
from chiplog_core.observed.world import ClaimState
from chiplog_core.planner.brokers.stranded import PATIENCE
from tests.planner.model import Kubernetes
from tests.planner.objects import NOW

LOST = BrokerId(2)
CLAIM = ClaimState(name="data-demo-broker-2-0", is_pending=True, created_at=NOW)


def stranded(*, claim: ClaimState | None = CLAIM, **of_pod: Any) -> Kubernetes:
    """Broker 2 has lost its volume, and its pod is on a node."""
    kubernetes = Kubernetes()
    kubernetes.run()
    kubernetes.kill(LOST)
    pod = replace(kubernetes.pods[LOST], ready=False, bound_at=NOW)
    kubernetes.pods[LOST] = replace(pod, **of_pod)
    kubernetes.claims = {} if claim is None else {LOST: claim}
    kubernetes.settle()
    kubernetes.now = NOW + PATIENCE
    return kubernetes


def restarts(kubernetes: Kubernetes) -> list[RestartPod]:
    return [one for one in kubernetes.plan().actions if isinstance(one, RestartPod)]


def test_it_is_made_again_by_its_uid() -> None:
    kubernetes = stranded()

    (restart,) = restarts(kubernetes)

    pod = kubernetes.pods[LOST]
    assert (restart.broker_id, restart.pod_name, restart.pod_uid) == (LOST, pod.name, pod.uid)
    assert restart.reason == "VolumeNotBound"
    assert "data-demo-broker-2-0" in restart.message


def test_it_is_given_some_seconds_from_when_both_are_there() -> None:
    later = NOW + timedelta(seconds=2)
    kubernetes = stranded(claim=replace(CLAIM, created_at=later))

    assert restarts(kubernetes) == []
    assert kubernetes.plan().requeue_after_ms == 2_001

    kubernetes.now = later + PATIENCE
    assert [one.broker_id for one in restarts(kubernetes)] == [LOST]


@pytest.mark.parametrize(
    "claim",
    [
        None,
        replace(CLAIM, is_pending=False),
        replace(CLAIM, has_node=True),
        replace(CLAIM, has_volume=True),
        replace(CLAIM, deleting=True),
        replace(CLAIM, created_at=None),
    ],
)
def test_a_claim_that_goes_on_by_itself_is_waited_for(claim: ClaimState | None) -> None:
    assert restarts(stranded(claim=claim)) == []


@pytest.mark.parametrize(
    "of_pod",
    [
        {"node": ""},
        {"address": "10.0.0.2"},
        {"ready": True},
        {"deleting": True},
        {"bound_at": None},
    ],
)
def test_a_pod_that_goes_on_by_itself_is_left_alone(of_pod: dict[str, Any]) -> None:
    assert restarts(stranded(**of_pod)) == []


def test_it_goes_before_a_restart_for_configuration() -> None:
    kubernetes = stranded()
    kubernetes.roll_out(*kubernetes.pods)

    assert [(one.broker_id, one.reason) for one in restarts(kubernetes)] == [
        (LOST, "VolumeNotBound")
    ]


def test_a_paused_cluster_is_left_alone() -> None:
    kubernetes = stranded()
    meta = replace(kubernetes.cluster.metadata, annotations={labels.PAUSE: "true"})
    kubernetes.cluster = replace(kubernetes.cluster, metadata=meta)

    assert restarts(kubernetes) == []
