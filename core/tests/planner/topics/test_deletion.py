"""The end of topics, and what never ends them."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Replace
from chiplog_core.model.conditions import ConditionStatus
from chiplog_core.naming import labels
from chiplog_core.observed.world import Unreadable
from chiplog_core.planner.topics.deletion import confirmed
from chiplog_core.problems import Problem
from tests.planner.model import Kubernetes
from tests.planner.objects import HOME, of_users, topic


def applied(**spec: Any) -> Kubernetes:
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=3, **spec))
    kubernetes.run()
    return kubernetes


def test_a_deleted_topic_goes_by_a_tombstone() -> None:
    kubernetes = applied()
    topic_id = kubernetes.maps["orders"].spec.current
    kubernetes.delete("orders")

    (write,) = kubernetes.plan().actions
    assert isinstance(write, Replace)
    assert write.deleted_topic is not None
    assert write.deleted_topic.name == "orders"
    kubernetes.do(write)

    spec = kubernetes.maps["orders"].spec
    assert (spec.current, spec.generations, spec.owner_uid) == (None, (), None)
    (tombstone,) = spec.tombstones
    assert (tombstone.topic_id, tombstone.brokers) == (topic_id, (1, 2, 3))

    kubernetes.settle()
    assert of_users(kubernetes.maps) == {}
    assert kubernetes.topics == {}


def test_the_object_goes_at_once_and_the_map_when_every_broker_has_confirmed() -> None:
    kubernetes = applied()
    kubernetes.kill(2)
    kubernetes.settle()
    kubernetes.delete("orders")
    kubernetes.settle()

    assert kubernetes.topics == {}
    (tombstone,) = kubernetes.maps["orders"].spec.tombstones
    assert tombstone.confirmed == (1, 3)

    kubernetes.start(2)
    kubernetes.settle()
    assert of_users(kubernetes.maps) == {}


def test_a_retired_broker_counts_as_one_that_holds_nothing() -> None:
    kubernetes = applied()
    kubernetes.kill(2)
    kubernetes.settle()
    kubernetes.delete("orders")
    kubernetes.settle()

    broker = kubernetes.brokers[BrokerId(2)]
    kubernetes.brokers[BrokerId(2)] = replace(broker, spec=replace(broker.spec, retired=True))
    kubernetes.settle()

    assert of_users(kubernetes.maps) == {}


def test_a_name_is_free_again_when_its_tombstone_is_confirmed() -> None:
    kubernetes = applied()
    before = kubernetes.maps["orders"].spec.current
    kubernetes.kill(2)
    kubernetes.settle()
    kubernetes.delete("orders")
    kubernetes.settle()

    kubernetes.apply(topic(partitions=3))
    kubernetes.settle()
    assert kubernetes.maps["orders"].spec.current is None
    (ready,) = kubernetes.topics["orders"].status.conditions
    assert ready.reason == "WaitingForDeletion"
    assert "broker 2 has not yet confirmed" in ready.message

    kubernetes.start(2)
    kubernetes.settle()

    spec = kubernetes.maps["orders"].spec
    assert spec.current not in {None, before}
    assert spec.tombstones == ()
    (ready,) = kubernetes.topics["orders"].status.conditions
    assert ready.status is ConditionStatus.TRUE


def test_retain_keeps_the_records_for_the_next_topic() -> None:
    kubernetes = applied(deletionPolicy="Retain")
    before = kubernetes.maps["orders"].spec
    kubernetes.delete("orders")
    kubernetes.settle()

    assert kubernetes.topics == {}
    assert kubernetes.maps["orders"].spec == replace(before, owner_uid=None)

    after = kubernetes.apply(topic(partitions=3))
    kubernetes.settle()
    assert kubernetes.maps["orders"].spec == replace(before, owner_uid=after.metadata.uid)


def test_a_policy_that_is_not_built_deletes_nothing() -> None:
    kubernetes = applied()
    kubernetes.apply(topic(partitions=3, deletionPolicy="Trash"))
    kubernetes.settle()
    kubernetes.delete("orders")
    kubernetes.settle()

    assert kubernetes.topics == {}
    assert kubernetes.maps["orders"].spec.current is not None


@pytest.mark.parametrize(
    "around",
    [
        {"topics_definition_deleting": True},
        {"namespaces_deleting": frozenset({HOME})},
    ],
)
def test_a_deletion_that_comes_with_the_kind_or_the_namespace_deletes_no_data(
    around: dict[str, Any],
) -> None:
    kubernetes = applied()
    before = kubernetes.maps["orders"].spec
    kubernetes.delete("orders")
    kubernetes.settle(**around)

    assert kubernetes.topics == {}
    assert kubernetes.maps["orders"].spec == before


def test_a_stray_topic_goes_without_touching_the_owners_data() -> None:
    kubernetes = applied()
    kubernetes.apply(topic("again", topicName="orders"))
    kubernetes.settle()
    before = kubernetes.maps["orders"].spec
    kubernetes.delete("again")
    kubernetes.settle()

    assert set(kubernetes.topics) == {"orders"}
    assert kubernetes.maps["orders"].spec == before


def test_a_finalizer_that_was_stripped_deletes_nothing() -> None:
    kubernetes = applied()
    before = kubernetes.maps["orders"].spec
    del kubernetes.topics["orders"]
    kubernetes.settle()

    assert kubernetes.maps["orders"].spec == before


def test_an_unmanaged_topic_is_deleted_without_its_data() -> None:
    kubernetes = applied()
    kubernetes.apply(topic(partitions=3, annotations={labels.MANAGED: "false"}))
    kubernetes.delete("orders")
    kubernetes.settle()

    assert kubernetes.topics == {}
    assert kubernetes.maps["orders"].spec.current is not None


def test_a_paused_topic_waits_with_its_deletion() -> None:
    kubernetes = applied()
    kubernetes.apply(topic(partitions=3, annotations={labels.PAUSE: "true"}))
    kubernetes.delete("orders")
    kubernetes.settle()

    assert set(kubernetes.topics) == {"orders"}
    assert kubernetes.maps["orders"].spec.current is not None


def test_a_topic_that_does_not_read_goes_without_its_data() -> None:
    kubernetes = applied()
    kubernetes.delete("orders")
    meta = kubernetes.topics["orders"].metadata
    unreadable = Unreadable(
        metadata=meta, cluster_name="demo", problems=(Problem("spec", "is odd", "mend it"),)
    )

    (action,) = kubernetes.plan(topics=(), unreadable=(unreadable,)).actions
    kubernetes.do(action)

    assert kubernetes.topics == {}
    assert kubernetes.maps["orders"].spec.current is not None


def test_nothing_is_concluded_before_everything_was_listed() -> None:
    kubernetes = applied()
    kubernetes.delete("orders")

    assert kubernetes.plan(is_complete=False).actions == ()
    assert kubernetes.plan(is_complete=False, maps={}).actions == ()


def test_a_topic_that_goes_with_its_cluster_keeps_its_data() -> None:
    """Foreground deletion of the BrokerCluster shows it as ending for a while."""
    kubernetes = Kubernetes()
    kubernetes.apply(topic(partitions=3))
    kubernetes.run()
    kubernetes.delete("orders")
    ending = replace(kubernetes.cluster.metadata, deletion_timestamp=kubernetes.now)
    for _ in range(5):
        kubernetes.execute(kubernetes.plan(metadata=ending).actions)

    assert kubernetes.topics == {}
    spec = kubernetes.maps["orders"].spec
    assert (len(spec.generations), spec.tombstones) == (1, ())


def test_a_broker_that_nobody_knows_of_has_confirmed_nothing() -> None:
    kubernetes = applied()
    kubernetes.kill(2)
    kubernetes.settle()
    kubernetes.delete("orders")
    kubernetes.settle()
    spec = kubernetes.maps["orders"].spec
    unknown = {one: kubernetes.brokers[one] for one in map(BrokerId, (1, 3))}

    after = confirmed(spec, kubernetes.world(brokers=unknown))

    assert after is spec
    assert after.tombstones[0].confirmed == (1, 3)
