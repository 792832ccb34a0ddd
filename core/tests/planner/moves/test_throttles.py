"""The limit of moves in Broker objects: the cluster's, or that of a Rebalance."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.config.broker_keys import MOVES_THROTTLED_RATE
from chiplog_core.ids import BrokerId, PartitionIndex
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.model.rebalance_status import RebalanceState, ReplicaMove
from chiplog_core.planner.moves.throttles import (
    ClientThrottles,
    moves_rate,
    throttle_config,
    throttled_broker,
    throttled_map,
)
from tests.planner.copying import Copying
from tests.planner.objects import cluster, topic
from tests.planner.rebalances import rebalance

CLIENTS = "leader.replication.throttled.rate"


def started() -> Copying:
    kubernetes = Copying(3)
    kubernetes.run()
    kubernetes.apply(topic(partitions=2, replicas=1))
    kubernetes.settle()
    return kubernetes


def throttle(kubernetes: Copying, rate: int | None) -> None:
    assert kubernetes.cluster is not None
    spec = replace(kubernetes.cluster.spec, replication_throttle=rate)
    kubernetes.cluster = replace(kubernetes.cluster, spec=spec)


def limits(kubernetes: Copying) -> set[str | None]:
    return {
        broker.spec.config.get(MOVES_THROTTLED_RATE.name) for broker in kubernetes.brokers.values()
    }


def moving(kubernetes: Copying, **more: Any) -> Rebalance:
    """A Rebalance that moves partition 0 to another broker."""
    (present,) = kubernetes.maps["orders"].spec.current_partitions[0].replicas
    other = BrokerId(present % 3 + 1)
    move = ReplicaMove(
        topic="orders",
        partition=PartitionIndex(0),
        replicas=(other,),
        expected_replicas=(present,),
    )
    one = rebalance(**more)
    proposal = one.status.proposal
    assert proposal is not None
    proposal = replace(proposal, replica_moves=(move,))
    return replace(one, status=replace(one.status, proposal=proposal))


def test_the_clusters_limit_is_on_every_broker_and_goes_again() -> None:
    kubernetes = started()
    assert limits(kubernetes) == {None}
    throttle(kubernetes, 5_000)
    kubernetes.settle()
    assert limits(kubernetes) == {"5000"}
    # It is no configuration of topics.
    assert MOVES_THROTTLED_RATE.name not in kubernetes.maps["orders"].spec.inherited_config
    throttle(kubernetes, None)
    kubernetes.settle()
    assert limits(kubernetes) == {None}


def test_a_rebalances_limit_counts_while_it_moves_replicas() -> None:
    kubernetes = started()
    throttle(kubernetes, 5_000)
    kubernetes.settle()
    kubernetes.rebalances = (moving(kubernetes, replication_throttle=9_000),)
    kubernetes.execute(kubernetes.plan().actions)
    assert limits(kubernetes) == {"9000"}
    kubernetes.settle()
    assert limits(kubernetes) == {"5000"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"replication_throttle": 9_000}, 9_000),
        ({}, 5_000),
        ({"replication_throttle": 9_000, "state": RebalanceState.PROPOSAL_READY}, 5_000),
        ({"replication_throttle": 9_000, "approved": "another"}, 5_000),
    ],
)
def test_which_limit_counts(more: dict[str, Any], expected: int) -> None:
    kubernetes = started()
    throttle(kubernetes, 5_000)
    kubernetes.rebalances = (moving(kubernetes, **more),)
    world = kubernetes.world()
    assert world.cluster is not None
    assert moves_rate(world, world.cluster) == expected


def test_of_two_rebalances_the_slower() -> None:
    kubernetes = started()
    kubernetes.rebalances = tuple(
        moving(kubernetes, name=name, replication_throttle=rate)
        for name, rate in (("a", 7), ("b", 6), ("c", 8))
    )
    world = kubernetes.world()
    assert world.cluster is not None
    assert moves_rate(world, world.cluster) == 6


def test_what_clients_set_stays() -> None:
    kubernetes = started()
    throttles = ClientThrottles(of_brokers={BrokerId(1): {CLIENTS: "7"}})
    one = kubernetes.brokers[BrokerId(1)]
    kubernetes.brokers[BrokerId(1)] = replace(one, spec=throttled_broker(one.spec, throttles))
    throttle(kubernetes, 5_000)
    kubernetes.settle()
    config = kubernetes.brokers[BrokerId(1)].spec.config
    assert (config[CLIENTS], config[MOVES_THROTTLED_RATE.name]) == ("7", "5000")
    assert CLIENTS not in kubernetes.brokers[BrokerId(2)].spec.config


def test_nothing_is_written_for_what_is_gone() -> None:
    kubernetes = started()
    throttles = ClientThrottles(
        of_topics={"orders": {"a": "b"}}, of_brokers={BrokerId(1): {CLIENTS: "7"}}
    )
    retired = replace(kubernetes.brokers[BrokerId(1)].spec, retired=True)
    assert throttled_broker(retired, throttles) is retired
    gone = replace(kubernetes.maps["orders"].spec, current=None)
    assert throttled_map(gone, throttles) is gone


def test_an_incomplete_view_leaves_the_limit() -> None:
    kubernetes = started()
    throttle(kubernetes, 5_000)
    kubernetes.settle()
    throttle(kubernetes, None)
    world = replace(kubernetes.world(), is_complete=False)
    assert world.cluster is not None
    present = world.brokers[BrokerId(1)].spec.config
    found = throttle_config(world, world.cluster, present)
    assert found == {MOVES_THROTTLED_RATE.name: "5000"}


def test_a_cluster_without_a_limit_has_none() -> None:
    assert cluster().spec.replication_throttle is None
