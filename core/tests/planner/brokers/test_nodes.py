"""Several brokers run on each node: no partition has two replicas on one, whatever users change."""

from random import Random

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.conditions import Condition
from tests.planner.copying import Copying
from tests.planner.objects import partitions_of, topic

TOPIC = "orders"


def two_a_node(brokers: int, nodes: int) -> Copying:
    """Brokers 1, 1 + nodes, … are on the first node, and so on, as a scheduler spreads them."""
    kubernetes = Copying(brokers)
    kubernetes.nodes = {BrokerId(one): f"host-{one % nodes}" for one in range(1, 20)}
    kubernetes.run()
    return kubernetes


def nodes_of(kubernetes: Copying, name: str = TOPIC) -> list[list[str]]:
    """The nodes of each partition's replicas."""
    return [
        [kubernetes.node_of(one) for one in state.replicas]
        for topic_name, _, state in partitions_of(kubernetes.maps.values())
        if topic_name == name
    ]


def check_apart(kubernetes: Copying, replicas: int, name: str = TOPIC) -> None:
    found = nodes_of(kubernetes, name)
    assert found
    for nodes in found:
        assert len(nodes) == len(set(nodes)) == replicas


def warning(kubernetes: Copying) -> Condition | None:
    """The warning that replicas share a node."""
    found = kubernetes.cluster.status.conditions
    return next((one for one in found if one.reason == "ReplicasShareNode"), None)


def test_the_node_is_kept_while_there_is_no_pod() -> None:
    kubernetes = two_a_node(4, 2)
    assert kubernetes.brokers[BrokerId(3)].spec.node == "host-1"

    kubernetes.settle(pods={})
    assert kubernetes.brokers[BrokerId(3)].spec.node == "host-1"

    kubernetes.nodes = {**kubernetes.nodes, BrokerId(3): "elsewhere"}
    kubernetes.kill(3)
    kubernetes.start(3)
    kubernetes.settle()
    assert kubernetes.brokers[BrokerId(3)].spec.node == "elsewhere"


@pytest.mark.parametrize("replicas", [2, 3])
def test_a_new_topic_and_one_that_grows(replicas: int) -> None:
    kubernetes = two_a_node(6, 3)
    kubernetes.apply(topic(TOPIC, partitions=7, replicas=replicas))
    kubernetes.settle()
    check_apart(kubernetes, replicas)

    kubernetes.apply(topic(TOPIC, partitions=20, replicas=replicas))
    kubernetes.settle()
    check_apart(kubernetes, replicas)


@pytest.mark.parametrize("seed", range(12))
def test_no_change_of_replicas_or_brokers_brings_two_onto_one_node(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 - a walk is to be the same every time
    kubernetes = two_a_node(6, 3)
    kubernetes.apply(topic(TOPIC, partitions=9, replicas=2))
    kubernetes.settle()
    for _ in range(5):
        replicas = rng.randint(1, 3)
        brokers = rng.randint(3, 9)
        if rng.random() < 0.5:
            kubernetes.apply(topic(TOPIC, partitions=9, replicas=replicas))
        else:
            replicas = len(nodes_of(kubernetes)[0])
            kubernetes.configure(brokers)
        kubernetes.settle()
        for broker_id, broker in sorted(kubernetes.brokers.items()):
            if broker.status.incarnation is None:
                kubernetes.start(broker_id)
        kubernetes.settle()
        check_apart(kubernetes, replicas)


def test_fewer_nodes_than_replicas_share_them_evenly() -> None:
    kubernetes = two_a_node(6, 2)
    kubernetes.apply(topic(TOPIC, partitions=8, replicas=4))
    kubernetes.settle()

    for nodes in nodes_of(kubernetes):
        assert sorted(map(nodes.count, set(nodes))) == [2, 2]
    assert warning(kubernetes) is None, "there are too few nodes"


def test_of_two_replicas_on_one_node_one_goes_first() -> None:
    kubernetes = two_a_node(6, 3)
    kubernetes.apply(topic(TOPIC, partitions=9, replicas=3))
    kubernetes.settle()
    # Broker 2 comes back on the node of brokers 1 and 4.
    kubernetes.nodes = {**kubernetes.nodes, BrokerId(2): kubernetes.node_of(1)}
    kubernetes.kill(2)
    kubernetes.start(2)
    kubernetes.settle()
    assert any(len(set(nodes)) < 3 for nodes in nodes_of(kubernetes))
    found = warning(kubernetes)
    assert found is not None
    assert f"two replicas on one node ({kubernetes.node_of(1)})" in found.message

    kubernetes.apply(topic(TOPIC, partitions=9, replicas=2))
    kubernetes.settle()
    check_apart(kubernetes, 2)
    assert warning(kubernetes) is None


def test_partitions_that_their_topic_places_are_separated_by_their_topic() -> None:
    kubernetes = two_a_node(6, 3)
    placed = [{"partition": 0, "replicas": [1, 4]}]
    kubernetes.apply(topic(TOPIC, partitions=1, replicas=2, assignments=placed))
    kubernetes.settle()
    found = warning(kubernetes)
    assert found is not None
    assert found.message == (
        "1 partition has two replicas on one node (host-1); spec.assignments of Topic orders "
        "places 1 of them there: change it, because no Rebalance moves these"
    )

    kubernetes.apply(topic("by-hand", partitions=1, replicas=2, initialAssignments=placed))
    kubernetes.settle()
    found = warning(kubernetes)
    assert found is not None
    assert found.message.startswith("2 partitions have two replicas on one node (host-1), as after")
    assert "a Rebalance with RackAwareGoal separates them; spec.assignments" in found.message
    assert "of Topic orders places 1 of them" in found.message


def test_nodes_whose_brokers_take_no_replicas_are_not_enough_nodes() -> None:
    kubernetes = two_a_node(6, 3)
    for broker_id in (2, 5):
        kubernetes.kill(broker_id)
    kubernetes.settle()
    kubernetes.apply(topic(TOPIC, partitions=4, replicas=3))
    kubernetes.settle()
    assert all(len(set(nodes)) == 2 for nodes in nodes_of(kubernetes))
    assert warning(kubernetes) is None, "there are two nodes now"

    for broker_id in (2, 5):
        kubernetes.start(broker_id)
    kubernetes.settle()
    found = warning(kubernetes)
    assert found is not None
    assert "4 partitions have two replicas on one node" in found.message
    assert "created while a node was down" in found.message

    kubernetes.configure(6, maintenance={"brokers": [2, 5]})
    kubernetes.settle()
    assert warning(kubernetes) is None, "brokers under maintenance take no replicas"
