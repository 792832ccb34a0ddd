"""A broker whose volume claim is being deleted works, but nothing relies on its data."""

from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Create, RebuildVolume, RestartPod
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import ConditionType
from chiplog_core.observed.world import StatefulSetState
from tests.planner.copying import Copying
from tests.planner.model import Kubernetes
from tests.planner.objects import internal_topics, partitions_of, topic
from tests.planner.volumes.test_volume_rebuilds import (
    ONE,
    THREE,
    TWO,
    annotate,
    rebuilds,
    refusal,
    running,
)

OFFSETS = internal_topics(replicas=3)
FOUR = BrokerId(4)


def delete_claim(kubernetes: Kubernetes, broker_id: BrokerId) -> None:
    """`kubectl delete pvc`: Kubernetes keeps the claim until its pod is gone."""
    claim = replace(kubernetes.claims[broker_id], deleting=True)
    kubernetes.claims = {**kubernetes.claims, broker_id: claim}


def in_sync(kubernetes: Kubernetes, name: str) -> set[BrokerId]:
    """All members of the ISRs of a topic."""
    states = [state for _, _, state in partitions_of([kubernetes.maps[name]])]
    return {ref.broker_id for state in states for ref in state.isr}


def restarts(kubernetes: Kubernetes) -> list[BrokerId]:
    found = kubernetes.plan().actions
    return [one.broker_id for one in found if isinstance(one, RestartPod)]


def message(kubernetes: Kubernetes, kind: ConditionType) -> str:
    """The message of a condition; empty if there is none."""
    kubernetes.settle()
    found = [one for one in kubernetes.cluster.status.conditions if one.type == kind]
    return found[0].message if found else ""


def test_until_its_pod_is_gone_it_gets_nothing_new_and_leads_nothing() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes)
    delete_claim(kubernetes, TWO)
    kubernetes.pods[TWO] = replace(kubernetes.pods[TWO], deleting=True)
    kubernetes.settle(30)
    assert kubernetes.brokers[TWO].spec.intent is BrokerIntent.DRAIN
    kubernetes.apply(topic("new", partitions=3, replicas=1))
    kubernetes.settle(30)
    assert in_sync(kubernetes, "new") == {ONE, THREE}


def test_it_is_no_spare_for_new_partitions() -> None:
    kubernetes = running()
    delete_claim(kubernetes, TWO)
    kubernetes.settle(30)
    kubernetes.apply(topic("new", partitions=1, replicas=3))
    kubernetes.settle(30)
    assert "new" not in kubernetes.maps


def test_it_is_not_the_copy_for_which_another_volume_may_go() -> None:
    kubernetes = running(replicas=2)
    annotate(kubernetes, 3)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [THREE]
    delete_claim(kubernetes, THREE)
    pods = kubernetes.pods
    annotate(kubernetes, 2)
    pods[THREE] = replace(pods[THREE], annotations={})
    assert rebuilds(kubernetes) == []
    reason, text = refusal(kubernetes)
    assert (reason, "orders-1" in text) == ("LastInSyncReplica", True)


def test_a_rebuild_that_has_begun_comes_first() -> None:
    kubernetes = running()
    annotate(kubernetes, 2, 3)
    delete_claim(kubernetes, THREE)
    (rebuild,) = rebuilds(kubernetes)
    assert rebuild.broker_id == THREE
    assert kubernetes.pods[THREE].name not in rebuild.serving


def test_its_refusal_does_not_say_that_the_volume_stays() -> None:
    kubernetes = running(replicas=1)
    annotate(kubernetes, 2)
    delete_claim(kubernetes, TWO)
    assert rebuilds(kubernetes) == []
    assert refusal(kubernetes)[1].startswith(
        "the volume claim of broker 2 is being deleted, but pod demo-broker-2-0 has to stay"
    )


def test_neither_a_change_nor_a_request_restarts_it() -> None:
    kubernetes = running()
    delete_claim(kubernetes, TWO)
    kubernetes.settle(30)
    kubernetes.roll_out(1, 2, 3)
    for broker_id in (ONE, THREE):
        kubernetes.pods[broker_id] = replace(kubernetes.pods[broker_id], revision="new")
    kubernetes.stateful_sets = {
        TWO: StatefulSetState(
            name="demo-broker-2", annotations={"chiplog.dev/manual-rolling-update": "true"}
        )
    }
    assert restarts(kubernetes) == []
    assert "the data would go with the pod" in message(
        kubernetes, ConditionType.CONFIGURATION_APPLIED
    )
    assert "Do not delete the pod" in message(kubernetes, ConditionType.WARNING)


def test_a_plan_that_changes_maps_deletes_no_volume() -> None:
    kubernetes = running()
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes)
    kubernetes.apply(topic("new", partitions=1, replicas=1))
    has_created = False
    for _ in range(5):
        actions = kubernetes.plan().actions
        kinds = {type(one) for one in actions}
        has_created |= Create in kinds
        assert not {Create, RebuildVolume} <= kinds
        kubernetes.execute(one for one in actions if not isinstance(one, RebuildVolume))
        kubernetes.obey()
    assert has_created
    assert rebuilds(kubernetes), "a later plan does"


def test_a_broker_under_maintenance_keeps_its_volume() -> None:
    kubernetes = running()
    kubernetes.configure(config=OFFSETS, maintenance={"brokers": [2]})
    kubernetes.settle(30)
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes) == []
    assert refusal(kubernetes)[0] == "UnderMaintenance"


def test_a_request_on_a_pod_that_is_stopping_is_answered() -> None:
    kubernetes = running()
    kubernetes.kill(2)
    kubernetes.pods[TWO] = replace(kubernetes.pods[TWO], ready=False, deleting=True)
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes) == []
    reason, text = refusal(kubernetes)
    assert (reason, "delete the Node" in text) == ("WaitingForPod", True)


def test_a_request_while_the_spec_is_refused_is_answered() -> None:
    kubernetes = running()
    kubernetes.configure(config={**OFFSETS, "log.retention.hours": "x"})
    kubernetes.settle(30)
    annotate(kubernetes, 2)
    assert rebuilds(kubernetes) == []
    assert refusal(kubernetes)[0] == "WaitingForSpec"


def retired() -> Kubernetes:
    """Three brokers, and a fourth that was removed and whose pod is still there."""
    kubernetes = Copying(4, config=OFFSETS)
    kubernetes.apply(topic(partitions=3, replicas=3))
    kubernetes.run()
    kubernetes.configure(3, config=OFFSETS)
    kubernetes.settle()
    assert kubernetes.brokers[FOUR].spec.retired
    kubernetes.claims = running().claims
    return kubernetes


def test_the_pod_of_a_retired_broker_holds_up_neither_rebuilds_nor_restarts() -> None:
    kubernetes = retired()
    kubernetes.pods[FOUR] = replace(kubernetes.pods[FOUR], deleting=True, ready=False)
    kubernetes.roll_out(1, 2, 3)
    assert restarts(kubernetes) == [ONE]
    for broker_id in (ONE, TWO, THREE):
        kubernetes.pods[broker_id] = replace(kubernetes.pods[broker_id], revision="new")
    annotate(kubernetes, 2)
    (rebuild,) = rebuilds(kubernetes)
    assert rebuild.retired_pods == {kubernetes.pods[FOUR].name}


def test_a_request_on_the_pod_of_a_retired_broker_does_not_count() -> None:
    kubernetes = retired()
    annotate(kubernetes, 4, 2)
    assert [one.broker_id for one in rebuilds(kubernetes)] == [TWO]
