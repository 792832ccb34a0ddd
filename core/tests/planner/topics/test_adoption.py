"""Topics whose objects were deleted while their cluster was gone get objects again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from chiplog_core.model.actions import Create
from chiplog_core.planner.topics.adoption import PATIENCE
from tests.planner.model import Kubernetes
from tests.planner.objects import topic


def orphaned(name: str = "orders", **spec: Any) -> Kubernetes:
    """A running cluster, one of whose Topics went while nobody carried its deletion out."""
    kubernetes = Kubernetes()
    kubernetes.apply(topic(name, partitions=3, replicas=2, config={"retention.ms": 7}, **spec))
    kubernetes.run()
    kubernetes.topics.clear()
    made_again = replace(kubernetes.cluster.metadata, uid="", creation_timestamp=kubernetes.now)
    kubernetes.cluster = kubernetes.stored(replace(kubernetes.cluster, metadata=made_again))
    return kubernetes


def made(kubernetes: Kubernetes) -> list[str]:
    actions = kubernetes.plan().actions
    return [one.resource.metadata.name for one in actions if isinstance(one, Create)]


def test_it_is_made_as_the_topic_is_and_owns_its_records() -> None:
    kubernetes = orphaned()
    topic_id = kubernetes.maps["orders"].spec.current
    kubernetes.now += PATIENCE
    kubernetes.settle()

    adopted = kubernetes.topics["orders"]
    assert (adopted.spec.partitions, adopted.spec.replicas) == (3, 2)
    assert adopted.spec.config == {"retention.ms": "7"}
    assert adopted.status.topic_id == topic_id
    assert kubernetes.maps["orders"].spec.owner_uid == adopted.metadata.uid

    kubernetes.delete("orders")
    kubernetes.settle()
    assert topic_id in kubernetes.buried, "deleting it deletes the records"


def test_a_topic_whose_partitions_have_different_numbers_of_replicas_keeps_them() -> None:
    kubernetes = orphaned()
    orders = kubernetes.maps["orders"]
    (generation,) = orders.spec.generations
    first = generation.partitions[0]
    isr = tuple(ref for ref in first.isr if ref.broker_id == first.replicas[0])
    fewer = replace(first, replicas=first.replicas[:1], isr=isr, leader=isr[0])
    partitions = (fewer, *generation.partitions[1:])
    spec = replace(orders.spec, generations=(replace(generation, partitions=partitions),))
    kubernetes.maps["orders"] = kubernetes.stored(replace(orders, spec=spec))
    kubernetes.now += PATIENCE
    kubernetes.settle()

    assert kubernetes.topics["orders"].spec.replicas is None
    assert len(kubernetes.maps["orders"].spec.current_partitions[0].replicas) == 1


def test_users_have_some_time_to_apply_their_own() -> None:
    kubernetes = orphaned()
    kubernetes.now += PATIENCE - timedelta(seconds=1)

    assert made(kubernetes) == []
    assert kubernetes.plan().requeue_after_ms == 1_001

    kubernetes.apply(topic(partitions=3))
    kubernetes.now += timedelta(hours=1)
    kubernetes.settle()
    assert made(kubernetes) == []
    assert list(kubernetes.topics) == ["orders"]


def test_a_name_that_kubernetes_does_not_allow() -> None:
    kubernetes = orphaned("order-placed", topicName="order_placed")
    kubernetes.now += PATIENCE
    kubernetes.settle()

    ((name, adopted),) = kubernetes.topics.items()
    assert adopted.topic_name == "order_placed"
    assert name.startswith("order-placed-")


def test_one_that_was_let_go_with_retain_stays_without() -> None:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=1, deletionPolicy="Retain"))
    kubernetes.run()
    kubernetes.delete("orders")
    kubernetes.now += PATIENCE
    kubernetes.settle()

    assert kubernetes.topics == {}
    assert "orders" in kubernetes.maps
    assert made(kubernetes) == []


def test_nothing_is_concluded_before_everything_was_listed() -> None:
    kubernetes = orphaned()
    kubernetes.now += PATIENCE
    gone = replace(kubernetes.cluster.metadata, deletion_timestamp=kubernetes.now)

    for changes in ({"is_complete": False}, {"metadata": gone}, {"cluster": None}):
        actions = kubernetes.plan(**changes).actions
        assert not [one for one in actions if isinstance(one, Create)], changes


def test_an_owner_that_may_be_where_nobody_looks_is_not_replaced() -> None:
    kubernetes = orphaned()
    kubernetes.now += PATIENCE

    actions = kubernetes.plan(sees_all_topics=False).actions
    assert not [one for one in actions if isinstance(one, Create)]


def test_an_object_of_another_topic_is_not_in_its_way_for_ever() -> None:
    kubernetes = orphaned()
    kubernetes.apply(topic("orders", topicName="something.else", partitions=1))
    kubernetes.now += PATIENCE

    assert "orders" not in made(kubernetes), "its name is taken"
