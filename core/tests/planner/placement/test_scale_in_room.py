"""Brokers are removed only if what is on them fits on the others."""

from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.planner.placement.scale_in_room import MIB
from chiplog_core.planner.placement.volume_room import find_volume_room
from tests.planner.copying import Copying
from tests.planner.model import Kubernetes
from tests.planner.objects import internal_topics, partitions_of, topic


def running(brokers: int = 5, **spec: object) -> Kubernetes:
    kubernetes = Kubernetes(brokers, **spec)
    kubernetes.apply(topic(partitions=10, replicas=2))
    kubernetes.run()
    return kubernetes


def copying(brokers: int) -> Copying:
    kubernetes = Copying(brokers, config=internal_topics())
    kubernetes.run()
    return kubernetes


def only_on(kubernetes: Copying, name: str, broker_id: BrokerId, partitions: int) -> None:
    """A topic whose partitions begin on this broker."""
    placed = [{"partition": one, "replicas": [broker_id]} for one in range(partitions)]
    kubernetes.apply(topic(name, partitions=partitions, replicas=1, initialAssignments=placed))
    kubernetes.settle()


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
        "spec.replicas is 3, but there are 22 replicas, 4 more than 3 brokers of "
        "spec.brokerCapacity.maxReplicas 6 may hold: delete topics, raise that limit, or set it "
        "back"
    )
    assert removed(kubernetes) == set()
    kubernetes.configure(3, brokerCapacity={"maxReplicas": 100})
    kubernetes.execute(kubernetes.plan().actions)
    assert removed(kubernetes) == {4, 5}


def test_all_reasons_are_told_at_once() -> None:
    kubernetes = running()
    message = scaled(kubernetes, 1, brokerCapacity={"maxReplicas": 6})
    assert "these topics have more replicas: orders (2)" in message
    assert "16 more than 1 broker of spec.brokerCapacity.maxReplicas 6" in message
    assert removed(kubernetes) == set()


def test_a_dead_broker_that_holds_nothing_needs_no_room() -> None:
    kubernetes = copying(2)
    only_on(kubernetes, "orders", BrokerId(1), partitions=1)
    report(kubernetes, 1, total=1000, free=900, logs=100)
    report(kubernetes, 2, total=1000, free=100, logs=900)
    kubernetes.kill(2)
    kubernetes.settle()
    assert scaled(kubernetes, 1) == ""
    assert removed(kubernetes) == {2}


def test_the_last_report_of_a_dead_broker_is_not_judged() -> None:
    kubernetes = copying(2)
    only_on(kubernetes, "orders", BrokerId(2), partitions=1)
    report(kubernetes, 1, total=1000, free=900, logs=100)
    report(kubernetes, 2, total=1000, free=100, logs=900)
    assert "200 MiB too little" in scaled(kubernetes, 1)
    kubernetes.kill(2)
    kubernetes.settle()
    assert scaled(kubernetes, 1) == ""


def test_another_removal_does_not_turn_back_the_first_one() -> None:
    kubernetes = running()
    for broker_id in range(1, 6):
        report(kubernetes, broker_id, total=1000, free=600, logs=400)
    assert scaled(kubernetes, 4) == ""
    for broker_id in range(1, 5):
        report(kubernetes, broker_id, total=1000, free=480, logs=520)
    refused = scaled(kubernetes, 3)
    assert "the replicas on brokers 4, 5 have 920 MiB" in refused
    assert "80 MiB too little" in refused
    assert ": wait for the removal of broker 5, enlarge the volumes" in refused
    assert removed(kubernetes) == {5}


def test_what_is_copied_already_needs_no_room() -> None:
    kubernetes = copying(5)
    kubernetes.apply(topic(partitions=10, replicas=2))
    kubernetes.settle()
    for broker_id in range(1, 6):
        report(kubernetes, broker_id, total=1000, free=600, logs=400)
    assert scaled(kubernetes, 4) == ""
    kubernetes.settle()
    for broker_id in range(1, 5):
        report(kubernetes, broker_id, total=1000, free=480, logs=520)
    assert scaled(kubernetes, 3) == ""


def test_a_broker_that_takes_no_replicas_has_no_room() -> None:
    kubernetes = copying(3)
    only_on(kubernetes, "orders", BrokerId(3), partitions=4)
    report(kubernetes, 1, total=1000, free=1000, logs=0)
    report(kubernetes, 2, total=1000, free=250, logs=750)
    report(kubernetes, 3, total=1000, free=300, logs=700)
    refused = scaled(kubernetes, 2, maintenance={"brokers": [1]})
    assert "room for 50 MiB (without broker 1: down, cordoned or under maintenance)" in refused
    assert removed(kubernetes) == set()
    kubernetes.configure(2)
    kubernetes.kill(1)
    kubernetes.settle()
    assert "room for 50 MiB (without broker 1" in scaled(kubernetes, 2)


def test_replicas_go_where_room_is() -> None:
    kubernetes = copying(3)
    only_on(kubernetes, "large", BrokerId(1), partitions=1)
    only_on(kubernetes, "small", BrokerId(2), partitions=20)
    only_on(kubernetes, "leaving", BrokerId(3), partitions=9)
    report(kubernetes, 1, total=1000, free=205, logs=790)
    report(kubernetes, 2, total=1000, free=500, logs=580)
    report(kubernetes, 3, total=1000, free=640, logs=9 * 20)
    kubernetes.configure(2)
    kubernetes.settle()
    where = [
        state.replicas
        for name, _, state in partitions_of(kubernetes.maps.values())
        if name == "leaving"
    ]
    assert where == [(2,)] * 9


def test_replicas_that_are_being_copied_take_room() -> None:
    kubernetes = running(3, config=internal_topics())
    kubernetes.configure(4)
    kubernetes.settle()
    kubernetes.start(BrokerId(4))
    kubernetes.settle()
    states = [state for _, _, state in partitions_of(kubernetes.maps.values())]
    broker_ids = {one for state in states for one in state.replicas}
    assert broker_ids == {1, 2, 3}
    report(kubernetes, 3, total=1000, free=300, logs=400)
    report(kubernetes, 4, total=1000, free=150, logs=0)
    room = find_volume_room(kubernetes.world(), 80)
    held = sum(3 in state.replicas for state in states)
    assert room.left_bytes == {3: 300 * MIB, 4: 150 * MIB}
    state = next(one for one in states if one.replicas[0] == 3)
    assert room.size_of(state) == 400 * MIB / held
    room.take(state, [BrokerId(1), BrokerId(4)])
    assert room.left_bytes == {3: 300 * MIB, 4: 150 * MIB - 400 * MIB / held}
    assert room.is_short(BrokerId(4), 149 * MIB)
    assert not room.is_short(BrokerId(1), 149 * MIB)


def test_replicas_that_internal_topics_lose_need_no_room() -> None:
    config = internal_topics(partitions=50, replicas=3)
    kubernetes = Kubernetes(3, config=config)
    kubernetes.apply(topic(partitions=4, replicas=1))
    kubernetes.run()
    assert scaled(kubernetes, 2, config=config, brokerCapacity={"maxReplicas": 102}) == ""
    assert removed(kubernetes) == {3}
