"""Brokers are removed only if what is on them fits on the others."""

from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.planner.scale_in_room import MIB
from tests.planner.model import Kubernetes
from tests.planner.objects import topic


def running(brokers: int = 5, **spec: object) -> Kubernetes:
    kubernetes = Kubernetes(brokers, **spec)
    kubernetes.apply(topic(partitions=10, replicas=2))
    kubernetes.run()
    return kubernetes


def report(kubernetes: Kubernetes, broker_id: int, total: int, free: int, logs: int | None) -> None:
    """The broker reports its volume, in MiB."""
    broker = kubernetes.brokers[BrokerId(broker_id)]
    (directory,) = broker.status.directories
    directory = replace(
        directory,
        total_bytes=total * MIB,
        usable_bytes=free * MIB,
        log_bytes=None if logs is None else logs * MIB,
    )
    kubernetes.status(broker_id, replace(broker.status, directories=(directory,)))


def removed(kubernetes: Kubernetes) -> set[int]:
    return {
        broker_id
        for broker_id, broker in kubernetes.brokers.items()
        if broker.spec.intent is BrokerIntent.REMOVE
    }


def scaled(kubernetes: Kubernetes, replicas: int, **spec: object) -> str:
    """What the condition Ready says if they cannot be removed."""
    kubernetes.configure(replicas, **spec)
    kubernetes.execute(kubernetes.plan().actions)
    status = kubernetes.cluster.status
    ready = next(one for one in status.conditions if one.type == "Ready")
    return ready.message if ready.reason == "InvalidConfig" else ""


def test_it_is_refused_with_figures_if_the_volumes_are_too_small() -> None:
    kubernetes = running()
    for broker_id in range(1, 6):
        report(kubernetes, broker_id, total=1000, free=500, logs=500)
    assert scaled(kubernetes, 3) == (
        "spec.replicas is 3, but the replicas on brokers 4, 5 have 1000 MiB, and the volumes of "
        "the brokers that stay have room for 900 MiB, 100 MiB too little, if replicas may use 80 % "
        "of each (spec.brokerCapacity.maxDiskPercent): enlarge the volumes (spec.storage.size), "
        "delete data, raise that limit, or set it back"
    )
    assert removed(kubernetes) == set()
    kubernetes.configure(3, brokerCapacity={"maxDiskPercent": 90})
    kubernetes.execute(kubernetes.plan().actions)
    assert removed(kubernetes) == {4, 5}


def test_what_else_is_on_a_volume_is_no_room() -> None:
    kubernetes = running()
    for broker_id in range(1, 6):
        report(kubernetes, broker_id, total=1000, free=100, logs=200)
    assert "have room for 300 MiB, 100 MiB too little" in scaled(kubernetes, 3)


def test_a_removal_that_has_begun_is_not_judged_again() -> None:
    kubernetes = running()
    for broker_id in range(1, 6):
        report(kubernetes, broker_id, total=1000, free=700, logs=300)
    assert scaled(kubernetes, 3) == ""
    for broker_id in range(1, 4):
        report(kubernetes, broker_id, total=1000, free=200, logs=800)
    assert scaled(kubernetes, 3) == ""
    assert removed(kubernetes) == {4, 5}


def test_what_is_not_reported_is_not_judged() -> None:
    for unknown in (1, 5):
        kubernetes = running()
        for broker_id in range(1, 6):
            logs = None if broker_id == unknown else 900
            report(kubernetes, broker_id, total=1000, free=100, logs=logs)
        assert scaled(kubernetes, 3) == ""
        assert removed(kubernetes) == {4, 5}
    kubernetes = running()
    broker = kubernetes.brokers[BrokerId(5)]
    kubernetes.status(5, replace(broker.status, directories=()))
    assert scaled(kubernetes, 4) == ""


def test_it_is_refused_if_there_would_be_too_many_replicas() -> None:
    kubernetes = running()
    assert scaled(kubernetes, 3, brokerCapacity={"maxReplicas": 6}) == (
        "spec.replicas is 3, but there are 21 replicas, 3 more than 3 brokers of "
        "spec.brokerCapacity.maxReplicas 6 may hold: delete topics, raise that limit, or set it "
        "back"
    )
    assert removed(kubernetes) == set()
    kubernetes.configure(3, brokerCapacity={"maxReplicas": 100})
    kubernetes.execute(kubernetes.plan().actions)
    assert removed(kubernetes) == {4, 5}
