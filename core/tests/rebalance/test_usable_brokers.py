"""Between which brokers a load can be evened out."""

from dataclasses import replace

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_capacity import BrokerCapacity
from chiplog_core.rebalance.capacity import Capacity
from chiplog_core.rebalance.measured import Broker
from chiplog_core.rebalance.usable_brokers import brokers_of, departing_brokers, limits_of
from tests.planner.model import Kubernetes


def running() -> Kubernetes:
    kubernetes = Kubernetes(3, rack={"topologyKey": "zone"})
    kubernetes.run()
    return kubernetes


def usable(kubernetes: Kubernetes) -> dict[int, bool]:
    return {one.broker_id: one.is_usable for one in brokers_of(kubernetes.world())}


def test_every_broker_that_serves_is_usable_and_named_with_its_rack_and_node() -> None:
    assert brokers_of(running().world()) == tuple(
        Broker(
            broker_id=BrokerId(number),
            rack=f"zone-{number}",
            node=f"node-{number}",
            is_usable=True,
            capacity=Capacity(internal_replicas=2 * int(number == 1)),
        )
        for number in (1, 2, 3)
    )


def test_one_that_is_away_counts_and_takes_nothing() -> None:
    kubernetes = running()
    kubernetes.kill(2)
    kubernetes.settle()

    assert usable(kubernetes) == {1: True, 2: False, 3: True}


def test_one_that_is_about_to_leave_takes_nothing() -> None:
    kubernetes = running()
    two, three = (kubernetes.brokers[BrokerId(number)] for number in (2, 3))
    kubernetes.brokers[BrokerId(2)] = replace(
        two, spec=replace(two.spec, intent=BrokerIntent.REMOVE)
    )
    kubernetes.brokers[BrokerId(3)] = replace(three, status=replace(three.status, draining=True))

    assert usable(kubernetes) == {1: True, 2: False, 3: False}


def test_a_retired_broker_is_not_there_any_more() -> None:
    kubernetes = running()
    two = kubernetes.brokers[BrokerId(2)]
    kubernetes.brokers[BrokerId(2)] = replace(two, spec=replace(two.spec, retired=True))

    assert usable(kubernetes) == {1: True, 3: True}


def test_brokers_that_are_removed_or_were_are_departing() -> None:
    kubernetes = running()
    assert departing_brokers(kubernetes.world()) == frozenset()
    two, three = (kubernetes.brokers[BrokerId(number)] for number in (2, 3))
    kubernetes.brokers[BrokerId(2)] = replace(
        two, spec=replace(two.spec, intent=BrokerIntent.REMOVE)
    )
    kubernetes.brokers[BrokerId(3)] = replace(three, spec=replace(three.spec, retired=True))

    assert departing_brokers(kubernetes.world()) == {2, 3}


def test_the_limits_are_the_clusters_and_the_volume_is_what_the_broker_reported() -> None:
    kubernetes = running()
    kubernetes.configure(brokerCapacity={"maxReplicas": 9, "maxDiskPercent": 60})
    two = kubernetes.brokers[BrokerId(2)]
    (directory,) = two.status.directories
    directory = replace(directory, total_bytes=1_000, usable_bytes=400, log_bytes=300)
    kubernetes.status(2, replace(two.status, directories=(directory,)))
    one, other, _ = brokers_of(kubernetes.world())
    assert (one.capacity.max_bytes, other.capacity.max_bytes) == (None, 600)
    assert other.capacity == Capacity(
        max_replicas=9, max_disk_percent=60, total_bytes=1_000, free_bytes=400, log_bytes=300
    )
    kubernetes.status(2, replace(two.status, directories=()))
    assert brokers_of(kubernetes.world())[1].capacity.total_bytes is None
    assert limits_of(kubernetes.world(cluster=None)) == BrokerCapacity()
