"""Which brokers there are, where clients find them, and how they are restarted."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from chiplog_core.config.broker_keys import METRICS_PARTITIONS
from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Create, RestartPod
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.naming import labels
from chiplog_core.naming.taken_names import taken_message
from chiplog_core.observed.world import StatefulSetState
from chiplog_core.planner.brokers.node_ports import node_ports_of
from tests.planner.model import Kubernetes
from tests.planner.objects import topic

OUTSIDE = {
    "listeners": [
        {"name": "plain", "type": "internal", "port": 9092},
        {"name": "external", "type": "nodeport", "port": 9094},
    ]
}


def running(replicas: int = 3, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes(replicas, **spec)
    kubernetes.run()
    return kubernetes


def condition(kubernetes: Kubernetes, type_: str) -> Condition:
    return next(one for one in kubernetes.cluster.status.conditions if one.type == type_)


def creations(kubernetes: Kubernetes, **changes: Any) -> list[Create]:
    return [one for one in kubernetes.plan(**changes).actions if isinstance(one, Create)]


def test_two_operators_at_once_cannot_give_a_cluster_two_ids() -> None:
    """The one that was replaced still has a plan, made from nothing like its successor's."""
    kubernetes = Kubernetes(3)
    one, other = creations(kubernetes), creations(kubernetes)

    kubernetes.execute(one[:1])
    kubernetes.execute(other[::-1])
    kubernetes.settle()

    assert len({broker.spec.cluster_id for broker in kubernetes.brokers.values()}) == 1


def test_brokers_made_anew_are_of_the_same_cluster() -> None:
    """As after their definition was removed: volumes of another cluster would be refused."""
    kubernetes = running(3)
    before = kubernetes.cluster.status.cluster_id
    kubernetes.brokers.clear()
    kubernetes.settle()

    assert {one.spec.cluster_id for one in kubernetes.brokers.values()} == {before}
    assert len(kubernetes.brokers) == 3


def test_a_broker_whose_object_was_lost_is_removed_in_steps() -> None:
    """As when etcd was restored while it was added: its pod runs, and nothing is known of it."""
    kubernetes = running(3)
    lost = BrokerId(5)
    kubernetes.stateful_sets = {lost: StatefulSetState(name="demo-broker-5")}
    (created,) = creations(kubernetes)
    assert created.resource.metadata.name == "demo-5"
    kubernetes.execute([created])
    assert lost in kubernetes.plan().brokers, "its StatefulSet stays until it is empty"
    kubernetes.settle()
    broker = kubernetes.brokers[lost].spec
    assert (broker.intent, broker.retired) == (BrokerIntent.REMOVE, True)
    assert kubernetes.plan().brokers == (1, 2, 3)


def test_a_broker_that_does_not_read_stops_what_depends_on_all_and_no_more() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=3))
    kubernetes.settle()
    before = kubernetes.maps["orders"].spec.generations[0].partitions
    odd = kubernetes.brokers.pop(BrokerId(2))
    unreadable: dict[str, Any] = {"unreadable_brokers": {"demo-2": "status.tail is odd"}}
    kubernetes.kill(1)
    kubernetes.configure(1)
    kubernetes.settle(**unreadable)

    partitions = kubernetes.maps["orders"].spec.generations[0].partitions
    for now, was in zip(partitions, before, strict=True):
        assert (now.leader is None) == (now.replicas == (1,)), "only what is known to be dead"
        assert now.replicas == was.replicas
    assert BrokerId(2) not in kubernetes.brokers, "it is there, and not made anew"
    assert all(one.spec.intent is BrokerIntent.SERVE for one in kubernetes.brokers.values())
    ready = condition(kubernetes, "Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "BrokerUnreadable")
    assert "demo-2: status.tail is odd" in ready.message
    kubernetes.brokers[BrokerId(2)] = odd


def test_what_cannot_be_applied_is_told_by_the_cluster() -> None:
    kubernetes = running()
    kubernetes.settle(apply_problems=("Service demo-x is refused: exceeded quota",))

    ready = condition(kubernetes, "Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "FailedApply")
    assert ready.message.startswith("Service demo-x is refused: exceeded quota. Grant the")
    assert condition(kubernetes, "ConfigurationApplied").status is ConditionStatus.FALSE
    kubernetes.settle()
    assert condition(kubernetes, "Ready").status is ConditionStatus.TRUE


def test_a_refused_spec_and_a_paused_cluster_are_not_applied() -> None:
    assert Kubernetes(3).plan().may_apply
    assert not Kubernetes(3, hibernate=True).plan().may_apply
    paused = Kubernetes(3)
    meta = replace(paused.cluster.metadata, annotations={labels.PAUSE: "true"})
    assert not paused.plan(metadata=meta).may_apply


def test_a_fenced_broker_is_not_said_to_be_starting() -> None:
    kubernetes = running()
    kubernetes.kill(3)
    kubernetes.settle()
    kubernetes.ended.clear()  # as an operator that was started after it
    kubernetes.settle()

    assert condition(kubernetes, "Ready").message == "broker 3: has not renewed its Lease"


def test_a_new_cluster_gets_its_brokers_under_one_id() -> None:
    kubernetes = Kubernetes(3)

    first = creations(kubernetes)
    kubernetes.execute(first)
    made = [one.resource for one in (*first, *creations(kubernetes))]
    kubernetes.settle()

    assert [one.metadata.name for one in made] == ["demo-1", "demo-2", "demo-3"]
    assert made[1].metadata.labels[labels.BROKER_ID] == "2"
    assert made[1].metadata.labels[labels.CLUSTER] == "demo"
    assert len({one.spec.cluster_id for one in kubernetes.brokers.values()}) == 1
    assert kubernetes.plan().brokers == (1, 2, 3)


def test_a_broker_that_is_added_joins_the_same_cluster() -> None:
    kubernetes = running(1)
    before = kubernetes.brokers[BrokerId(1)].spec.cluster_id
    kubernetes.configure(3)
    kubernetes.settle()

    assert {one.spec.cluster_id for one in kubernetes.brokers.values()} == {before}
    assert kubernetes.cluster.status.cluster_id == before


def test_no_broker_is_made_before_everything_was_listed() -> None:
    assert Kubernetes(3).plan(is_complete=False).actions == ()


def test_a_wrong_cluster_gets_no_brokers() -> None:
    kubernetes = Kubernetes(3, hibernate=True)
    kubernetes.settle()

    assert kubernetes.brokers == {}
    assert condition(kubernetes, "Ready").reason == "NotSupported"
    assert condition(kubernetes, "ConfigurationApplied").status is ConditionStatus.FALSE


def test_a_broker_is_not_taken_away_before_its_replicas_are_elsewhere() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=3))
    kubernetes.settle()
    kubernetes.configure(1)
    kubernetes.settle()  # no new replica ever catches up in this model

    assert kubernetes.plan().brokers == (1, 2, 3)
    quiesced = condition(kubernetes, "Quiesced")
    assert quiesced.message == (
        "replicas of 2 partitions are being moved; to be removed when nothing is left on them: "
        "brokers 2, 3"
    )
    assert not any(one.spec.retired for one in kubernetes.brokers.values())


def test_a_broker_that_holds_nothing_is_retired_in_two_steps() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=2))
    kubernetes.settle()
    kubernetes.configure(2)

    kubernetes.execute(kubernetes.plan().actions)
    third = kubernetes.brokers[BrokerId(3)].spec
    assert (third.intent, third.retired) == (BrokerIntent.REMOVE, False)
    kubernetes.settle()

    assert kubernetes.brokers[BrokerId(3)].spec.retired
    assert kubernetes.plan().brokers == (1, 2)
    assert condition(kubernetes, "Ready").status is ConditionStatus.TRUE


def test_no_broker_is_retired_while_a_map_does_not_read() -> None:
    kubernetes = running()
    kubernetes.configure(2)
    kubernetes.settle(unreadable_maps=frozenset({"demo.orders"}))

    assert not kubernetes.brokers[BrokerId(3)].spec.retired
    assert kubernetes.plan(unreadable_maps=frozenset({"demo.orders"})).brokers == (1, 2, 3)


def test_a_broker_about_to_go_takes_no_new_partition_and_may_come_back() -> None:
    kubernetes = running(2)
    kubernetes.configure(1)
    kubernetes.apply(topic(partitions=2))
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.execute(one for one in kubernetes.plan().actions if isinstance(one, Create))
    placed = kubernetes.maps["orders"].spec.generations[0].partitions
    assert {state.replicas for state in placed} == {(1,)}

    kubernetes.configure(2)
    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(2)].spec.intent is BrokerIntent.SERVE


def test_the_id_of_a_retired_broker_is_not_used_again() -> None:
    kubernetes = running(2)
    kubernetes.configure(1)
    kubernetes.settle()
    kubernetes.configure(2)
    kubernetes.settle()

    assert kubernetes.plan().brokers == (1, 3)
    assert kubernetes.brokers[BrokerId(2)].spec.retired


# -- addresses


def endpoints(kubernetes: Kubernetes, broker_id: int) -> dict[str, str]:
    spec = kubernetes.brokers[BrokerId(broker_id)].spec
    return {one.listener: f"{one.host}:{one.port}" for one in spec.endpoints}


def test_inside_clients_find_brokers_by_their_pods() -> None:
    kubernetes = running()

    assert endpoints(kubernetes, 2) == {
        "internal": "demo-broker-2-0.demo-kafka-brokers.home.svc:9091",
        "plain": "demo-broker-2-0.demo-kafka-brokers.home.svc:9092",
    }
    (listener,) = kubernetes.cluster.status.listeners
    assert listener.bootstrap_servers == "demo-kafka-bootstrap.home.svc:9092"


def test_outside_clients_find_brokers_by_their_nodes_as_soon_as_ports_are_known() -> None:
    kubernetes = running(2, **OUTSIDE)
    assert set(endpoints(kubernetes, 2)) == {"internal", "plain"}
    ports = {
        "demo-broker-2-external": {"external": 30_002},
        "demo-kafka-external-bootstrap": {"external": 30_000},
    }

    kubernetes.settle(node_ports=ports)

    assert endpoints(kubernetes, 2)["external"] == "10.0.0.2:30002"
    assert "external" not in endpoints(kubernetes, 1)
    outside = kubernetes.cluster.status.listeners[1]
    assert outside.bootstrap_servers == "10.0.0.1:30000"

    kubernetes.settle(node_ports=ports, pods={})
    assert endpoints(kubernetes, 2)["external"] == "10.0.0.2:30002", "not known just now"


def test_clients_of_a_listener_with_tls_find_the_ca_they_must_trust() -> None:
    given = {"secretName": "kafka", "certificate": "tls.crt", "key": "tls.key"}
    tls = {"name": "tls", "type": "internal", "port": 9093, "tls": True}
    own = {**tls, "name": "own", "port": 9095, "configuration": {"brokerCertChainAndKey": given}}
    plain = {"name": "plain", "type": "internal", "port": 9092}
    kubernetes = running(2, listeners=[plain, tls, own])

    kubernetes.settle(ca_certificates=("new", "old"))

    found = {one.name: one.certificates for one in kubernetes.cluster.status.listeners}
    assert found == {"plain": (), "tls": ("new", "old"), "own": ()}


NODE_PORTS = {
    "demo-kafka-external-bootstrap": {"external": 30_000},
    "demo-broker-1-external": {"external": 30_001},
    "demo-broker-2-external": {"external": 30_002},
}


def node_ports(kubernetes: Kubernetes) -> dict[int, dict[str, int]]:
    found = node_ports_of(kubernetes.brokers.values())
    return {int(broker_id): dict(of) for broker_id, of in sorted(found.items())}


def test_node_ports_outlive_their_services() -> None:
    kubernetes = running(2, **OUTSIDE)
    assert node_ports(kubernetes) == {}

    kubernetes.settle(node_ports=NODE_PORTS)
    kept = {0: {"external": 30_000}, 1: {"external": 30_001}, 2: {"external": 30_002}}
    assert node_ports(kubernetes) == kept

    kubernetes.settle()
    assert node_ports(kubernetes) == kept, "the Services are gone"
    others = {name: {"external": 31_000} for name in NODE_PORTS}
    kubernetes.settle(node_ports=others)
    assert node_ports(kubernetes) == kept, "what is held is asked for, whatever a Service has"


def test_node_ports_that_the_spec_gives_are_held_too() -> None:
    (inside, outside) = OUTSIDE["listeners"]
    kubernetes = running(2, listeners=[inside, {**outside, "nodePortBase": 32_000}])
    given = {0: {"external": 32_000}, 1: {"external": 32_001}, 2: {"external": 32_002}}
    assert node_ports(kubernetes) == given

    kubernetes.configure(2, **OUTSIDE)
    kubernetes.settle(node_ports=NODE_PORTS)
    assert node_ports(kubernetes) == given


def test_the_node_ports_of_a_listener_go_with_it() -> None:
    kubernetes = running(2, **OUTSIDE)
    kubernetes.settle(node_ports=NODE_PORTS)
    kubernetes.configure(2)
    kubernetes.settle()

    assert node_ports(kubernetes) == {}


def test_the_advertised_host_wins() -> None:
    listener = {**OUTSIDE["listeners"][1], "advertisedHost": "127.0.0.1"}
    kubernetes = running(1, listeners=[listener])
    kubernetes.settle(node_ports={"demo-broker-1-external": {"external": 32_091}})

    assert endpoints(kubernetes, 1)["external"] == "127.0.0.1:32091"


def test_the_rack_is_the_nodes_and_stays_while_there_is_no_pod() -> None:
    kubernetes = running(1, rack={"topologyKey": "zone"})
    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(1)].spec.rack == "zone-1"

    kubernetes.settle(pods={})
    assert kubernetes.brokers[BrokerId(1)].spec.rack == "zone-1"

    kubernetes.configure()
    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(1)].spec.rack is None


# -- restarts


def outdated(*broker_ids: int, replicas: int = 3) -> Kubernetes:
    kubernetes = running(replicas)
    kubernetes.apply(topic(partitions=replicas))
    kubernetes.settle()
    kubernetes.roll_out(*broker_ids)
    return kubernetes


def restarts(kubernetes: Kubernetes) -> list[BrokerId]:
    return [one.broker_id for one in kubernetes.plan().actions if isinstance(one, RestartPod)]


def test_brokers_are_restarted_one_at_a_time_and_all_of_them() -> None:
    kubernetes = outdated(1, 2, 3)
    order = []
    for _ in range(3):
        (broker_id,) = restarts(kubernetes)
        assert restarts(kubernetes) == [broker_id], "asked again until it is seen"
        order.append(broker_id)
        pod = kubernetes.pods[broker_id]
        kubernetes.pods[broker_id] = replace(pod, deleting=True, ready=False)
        assert restarts(kubernetes) == []
        kubernetes.kill(broker_id)
        kubernetes.settle()
        kubernetes.start(broker_id)
        kubernetes.settle()

    assert order == [1, 2, 3]
    assert restarts(kubernetes) == []
    assert condition(kubernetes, "ConfigurationApplied").status is ConditionStatus.TRUE
    assert condition(kubernetes, "Stable").status is ConditionStatus.TRUE


def test_one_that_is_not_ready_goes_first() -> None:
    kubernetes = outdated(1, 2, 3)
    kubernetes.pods[BrokerId(3)] = replace(kubernetes.pods[BrokerId(3)], ready=False)

    assert restarts(kubernetes) == [3]


def test_while_a_pod_is_going_not_even_one_that_is_not_ready_is_restarted() -> None:
    kubernetes = outdated(2, 3)
    for broker_id, is_going in ((BrokerId(2), False), (BrokerId(3), True)):
        pod = kubernetes.pods[broker_id]
        kubernetes.pods[broker_id] = replace(pod, ready=False, deleting=is_going)

    assert restarts(kubernetes) == []


def test_while_another_is_not_well_nobody_is_restarted() -> None:
    kubernetes = outdated(1)
    kubernetes.kill(3)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    applied = condition(kubernetes, "ConfigurationApplied")
    assert applied.reason == "WaitingToRestart"
    assert applied.message == (
        "broker 1 must restart for a changed configuration; waiting for broker 3 to be ready and "
        "in sync"
    )


def test_a_replica_out_of_sync_holds_restarts() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=1, replicas=3))
    kubernetes.settle()
    kubernetes.kill(3)
    kubernetes.settle()
    kubernetes.start(3)  # out of the ISR, and nothing brings it back yet
    kubernetes.settle()
    kubernetes.roll_out(1)

    assert restarts(kubernetes) == []
    assert condition(kubernetes, "Healthy").reason == "UnderReplicated"


def test_min_isr_holds_a_restart_also_of_one_that_is_not_ready() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=1, replicas=3))
    kubernetes.settle()
    kubernetes.kill(3)
    kubernetes.settle()
    kubernetes.roll_out(1, 3)
    for broker_id in (1, 3):
        pod = kubernetes.pods[BrokerId(broker_id)]
        kubernetes.pods[BrokerId(broker_id)] = replace(pod, ready=False)

    assert restarts(kubernetes) == [3], "the dead one may always be restarted"

    kubernetes.roll_out(1)
    assert restarts(kubernetes) == []
    kubernetes.settle()
    applied = condition(kubernetes, "ConfigurationApplied")
    assert applied.reason == "WaitingToRestart"
    assert "without broker 1, partitions would have fewer in-sync replicas" in applied.message
    wait_ms = kubernetes.plan().requeue_after_ms
    assert wait_ms is not None

    kubernetes.now += timedelta(milliseconds=wait_ms)
    kubernetes.settle()
    assert condition(kubernetes, "ConfigurationApplied").reason == "RestartBlocked"


def test_a_lagging_broker_that_is_to_be_restarted_holds_nobody() -> None:
    kubernetes = running(4)
    kubernetes.apply(topic(partitions=1, replicas=3))
    kubernetes.settle()
    kubernetes.kill(3)
    kubernetes.settle()
    kubernetes.start(3)
    kubernetes.settle()
    kubernetes.roll_out(3, 4)

    assert restarts(kubernetes) == [3]


def test_a_single_broker_is_restarted_too() -> None:
    assert restarts(outdated(1, replicas=1)) == [1]


def test_the_status_counts_what_there_is() -> None:
    kubernetes = outdated()
    kubernetes.kill(2)
    kubernetes.settle()

    status = kubernetes.cluster.status
    assert (status.replicas, status.ready_replicas) == (3, 2)
    assert (status.topics, status.partitions, status.offline_partitions) == (1, 3, 1)
    assert condition(kubernetes, "Healthy").message == (
        "1 partition has no live leader; the Ready condition of each Topic shows its partitions "
        "and what to do"
    )
    assert condition(kubernetes, "Ready").message == "broker 2: was killed"
    assert condition(kubernetes, "Stable").status is ConditionStatus.FALSE
    assert status.selector == "chiplog.dev/cluster=demo,app.kubernetes.io/component=broker"


def test_brokers_are_told_whether_metrics_name_partitions_and_topics_are_not() -> None:
    key = METRICS_PARTITIONS.name
    kubernetes = running(1)
    kubernetes.apply(topic())
    kubernetes.settle()
    (broker_id,) = kubernetes.brokers

    def told() -> str | None:
        return kubernetes.brokers[broker_id].spec.config.get(key)

    assert told() is None, "the default needs no word"
    kubernetes.configure(1, metrics={"partitions": True})
    kubernetes.settle()
    assert told() == "true"
    kubernetes.configure(1, metrics={"partitions": False}, config={"log.retention.hour": 1})
    kubernetes.settle()
    assert told() == "true", "a spec with a mistake in it changes nothing"
    assert all(key not in one.spec.inherited_config for one in kubernetes.maps.values())
    kubernetes.configure(1)
    kubernetes.settle()
    assert told() is None


# -- restarts that somebody asks for

AT = "2026-01-01T12:00:00Z"


def asked(*broker_ids: int, replicas: int = 1, **annotations: Any) -> Kubernetes:
    """`annotations` of the StatefulSets of these brokers."""
    kubernetes = running(3)
    config = {"min.insync.replicas": 2} if replicas > 1 else {}
    kubernetes.apply(topic(partitions=3, replicas=replicas, config=config))
    kubernetes.settle()
    kubernetes.stateful_sets = {
        BrokerId(one): StatefulSetState(name=f"demo-broker-{one}", **annotations)
        for one in broker_ids
    }
    return kubernetes


ROLLOUT: dict[str, Any] = {"template_annotations": {labels.RESTARTED_AT: AT}}
MANUALLY: dict[str, Any] = {"annotations": {labels.MANUAL_ROLLING_UPDATE: "true"}}


def restart(kubernetes: Kubernetes) -> RestartPod:
    (found,) = (one for one in kubernetes.plan().actions if isinstance(one, RestartPod))
    return found


@pytest.mark.parametrize(
    ("annotations", "reason", "requested_by"),
    [(ROLLOUT, "RolloutRestart", ""), (MANUALLY, "ManualRollingUpdate", "demo-broker-{}")],
)
def test_brokers_are_restarted_one_at_a_time_when_somebody_asks(
    annotations: dict[str, Any], reason: str, requested_by: str
) -> None:
    kubernetes = asked(1, 2, 3, **annotations)
    order = []
    for _ in range(3):
        found = restart(kubernetes)
        assert found.reason == reason
        assert found.requested_by == requested_by.format(found.broker_id)
        order.append(found.broker_id)
        pod = kubernetes.pods[found.broker_id]
        kubernetes.pods[found.broker_id] = replace(pod, deleting=True, ready=False)
        assert restarts(kubernetes) == [], "never two at a time"
        kubernetes.kill(found.broker_id)
        kubernetes.settle()
        kubernetes.start(found.broker_id)
        made = kubernetes.pods[found.broker_id]
        kubernetes.pods[found.broker_id] = replace(made, annotations={labels.RESTARTED_AT: AT})
        if found.requested_by:
            others = dict(kubernetes.stateful_sets)
            del others[found.broker_id]
            kubernetes.stateful_sets = others
        kubernetes.settle()

    assert order == [1, 2, 3]
    assert restarts(kubernetes) == []
    assert condition(kubernetes, "Stable").status is ConditionStatus.TRUE


def test_a_pod_can_be_asked_for_alone() -> None:
    kubernetes = asked()
    pod = kubernetes.pods[BrokerId(2)]
    wish = {labels.MANUAL_ROLLING_UPDATE: "true"}
    kubernetes.pods[BrokerId(2)] = replace(pod, annotations=wish)

    found = restart(kubernetes)
    assert (found.broker_id, found.requested_by) == (2, "")


def test_an_annotation_that_every_new_pod_gets_restarts_none() -> None:
    wish = {labels.MANUAL_ROLLING_UPDATE: "true"}
    kubernetes = asked(2, template_annotations=wish)
    kubernetes.pods[BrokerId(2)] = replace(kubernetes.pods[BrokerId(2)], annotations=wish)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    assert condition(kubernetes, "Warning").message == (
        "StatefulSet demo-broker-2 spec.template.metadata.annotations"
        "[chiplog.dev/manual-rolling-update] cannot request a restart, because every new pod has "
        "it too: "
        "remove it, and annotate the StatefulSet itself"
    )


def test_why_a_restart_that_was_asked_for_waits() -> None:
    kubernetes = asked(1, replicas=3, **ROLLOUT)
    kubernetes.kill(3)
    kubernetes.settle()

    assert restarts(kubernetes) == []
    quiesced = condition(kubernetes, "Quiesced")
    assert quiesced.status is ConditionStatus.FALSE
    assert quiesced.message == (
        "broker 1 must restart, as requested; waiting for broker 3 to be ready and in "
        "sync; without broker 1, partitions would have fewer in-sync replicas than their "
        "min.insync.replicas"
    )


def test_what_only_jobs_are_refused_for_holds_up_no_broker() -> None:
    """As after an upgrade to a version that takes fewer keys."""
    kubernetes = running(3)
    kubernetes.configure(spark={"sparkConf": {"spark.kubernetes.driver.label.team": "a"}})
    kubernetes.settle()

    assert kubernetes.plan().may_apply
    assert condition(kubernetes, "Ready").status is ConditionStatus.TRUE
    warning = condition(kubernetes, "Warning")
    assert warning.reason == "InvalidConfig"
    assert warning.message.startswith(
        "no Verification or Rebalance with spec.measure Spark can run: "
        "spec.spark.sparkConf[spark.kubernetes.driver.label.team] cannot be set by sparkConf: "
    )


def test_a_broker_that_has_not_confirmed_a_deletion_cannot_be_taken_away() -> None:
    kubernetes = running()
    kubernetes.apply(topic(partitions=3))
    kubernetes.settle()
    kubernetes.delete("orders")
    for _ in range(3):
        kubernetes.execute(kubernetes.plan().actions)  # the brokers live, and are slow
    kubernetes.configure(2)
    for _ in range(3):
        kubernetes.execute(kubernetes.plan().actions)

    assert kubernetes.plan().brokers == (1, 2, 3)
    assert condition(kubernetes, "Quiesced").message == (
        "to be removed when nothing is left on them: broker 3"
    )

    kubernetes.settle()
    assert kubernetes.plan().brokers == (1, 2)


def test_a_map_that_the_api_server_refuses_is_reported_as_a_bug() -> None:
    kubernetes = running()
    kubernetes.settle(refused_maps=("demo.orders: spec.current is odd",))

    ready = condition(kubernetes, "Ready")
    assert (ready.status, ready.reason) == (ConditionStatus.FALSE, "MapWriteRefused")
    assert ready.message.startswith("demo.orders: spec.current is odd. The previous maps stay in")


def test_a_name_that_is_taken_needs_no_quota_or_permission() -> None:
    kubernetes = running()
    kubernetes.settle(apply_problems=(taken_message("Service", "demo-x", "BrokerCluster", "why"),))

    ready = condition(kubernetes, "Ready")
    assert ready.reason == "FailedApply"
    assert ready.message.startswith("Service demo-x is not this BrokerCluster's (why): ")
    assert ready.message.endswith(". The operator keeps trying")
    assert "quota" not in ready.message


def test_why_a_broker_is_not_ready_is_first_what_kubernetes_says_then_what_it_says_itself() -> None:
    kubernetes = running()
    kubernetes.kill(3)
    pod = replace(kubernetes.pods[BrokerId(3)], ready=False)
    kubernetes.pods[BrokerId(3)] = pod
    status = replace(kubernetes.brokers[BrokerId(3)].status, message="the volume has another id")
    kubernetes.status(3, status)
    kubernetes.settle()
    assert condition(kubernetes, "Ready").message == "broker 3: the volume has another id"

    kubernetes.pods[BrokerId(3)] = replace(pod, message="ImagePullBackOff")
    kubernetes.settle()
    assert condition(kubernetes, "Ready").message == "broker 3: ImagePullBackOff"
