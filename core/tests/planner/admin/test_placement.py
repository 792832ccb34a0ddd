"""Clients choose the brokers of new partitions: once, and as Kafka allows it."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from chiplog_core.admin.codes import Code
from chiplog_core.admin.operations import CreateTopic, GrowTopic
from chiplog_core.ids import BrokerId
from chiplog_core.model.topic import Topic, TopicSpec
from chiplog_core.naming import labels

if TYPE_CHECKING:
    from tests.planner.admin.conftest import Kubernetes

ADMIN: tuple[str, object] = (
    labels.KAFKA_ADMIN,
    {"f:spec": {"f:clusterRef": {}, "f:partitions": {}}},
)
HELM: tuple[str, object] = ("helm", {"f:spec": {"f:initialAssignments": {}}})


def spec(kubernetes: "Kubernetes") -> TopicSpec:
    return Topic.from_manifest(kubernetes.topics["kafka", "orders"]).spec


def initial(kubernetes: "Kubernetes") -> dict[int, tuple[int, ...]]:
    return {one.partition: one.replicas for one in spec(kubernetes).initial_assignments}


def test_a_topic_is_created_on_the_brokers_of_the_client(kubernetes: "Kubernetes") -> None:
    operation = CreateTopic(name="orders", assignments={1: (2, 3), 0: (1, 2)})
    assert kubernetes.outcome(operation).code is Code.NONE

    assert initial(kubernetes) == {0: (1, 2), 1: (2, 3)}
    made = spec(kubernetes)
    assert (made.partitions, made.replicas, made.assignments) == (2, 2, ())


def test_added_partitions_are_created_where_the_client_says(
    kubernetes: "Kubernetes",
) -> None:
    hopes = [{"partition": one, "replicas": [1]} for one in (3, 4)]
    kubernetes.made("orders", owned=[ADMIN], partitions=2, initialAssignments=hopes)
    for total, broker in ((3, 3), (4, 2)):
        operation = GrowTopic(name="orders", partitions=total, assignments=((broker,),))
        assert kubernetes.outcome(operation).code is Code.NONE

    assert spec(kubernetes).partitions == 4
    assert initial(kubernetes) == {2: (3,), 3: (2,), 4: (1,)}
    assert spec(kubernetes).assignments == ()


def test_a_growth_of_a_topic_that_is_placed_by_hand(kubernetes: "Kubernetes") -> None:
    placed = [{"partition": one, "replicas": [1]} for one in range(2)]
    kubernetes.made("orders", owned=[ADMIN], partitions=2, assignments=placed)
    assert kubernetes.outcome(GrowTopic(name="orders", partitions=3)).code is Code.NONE
    assert len(spec(kubernetes).assignments) == 2


def test_the_field_of_another_manager_is_left_to_it(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[HELM])
    operation = GrowTopic(name="orders", partitions=3, assignments=((1,),))
    verdict = kubernetes.outcome(operation)
    assert verdict.code is Code.POLICY_VIOLATION
    assert "spec.initialAssignments of Topic kafka/orders is managed by helm" in verdict.message


@pytest.mark.parametrize(
    "operation",
    [
        CreateTopic(name="new", assignments={0: (1, 3), 1: (3, 2)}),
        CreateTopic(name="new", assignments={0: (1, 3), 1: (3, 2)}, validate_only=True),
        GrowTopic(name="orders", partitions=4, assignments=((1,), (3,))),
    ],
)
def test_one_broker_of_each_partition_must_be_able_to_lead(
    kubernetes: "Kubernetes", operation: CreateTopic | GrowTopic
) -> None:
    kubernetes.made("orders")
    for one in (2, 3):
        broker = kubernetes.brokers[BrokerId(one)]
        kubernetes.brokers[BrokerId(one)] = replace(broker, spec=replace(broker.spec, fenced=True))
    verdict = kubernetes.outcome(operation)

    assert verdict.code is Code.INVALID_REPLICA_ASSIGNMENT
    partition = 1 if isinstance(operation, CreateTopic) else 3
    assert verdict.message == (
        f"All brokers specified in the manual partition assignment for partition {partition} are "
        "fenced or in controlled shutdown."
    )
