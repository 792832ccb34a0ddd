"""From Topics to PartitionMaps: made, owned, configured, grown, refused."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.config.topic_keys import Durability
from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Create, Replace, SetMetadata
from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.model.partition_map import PartitionMapSpec, PartitionState
from chiplog_core.naming import labels
from chiplog_core.observed.world import Unreadable
from chiplog_core.planner.topics.new_maps import ASSEMBLY_TIME
from chiplog_core.planner.topics.topic_config import flushed
from chiplog_core.problems import Problem
from tests.planner.model import Kubernetes
from tests.planner.objects import of_users, topic


def running(replicas: int = 3, **spec: Any) -> Kubernetes:
    kubernetes = Kubernetes(replicas, **spec)
    kubernetes.run()
    return kubernetes


def applied(name: str = "orders", **spec: Any) -> Kubernetes:
    kubernetes = running()
    kubernetes.apply(topic(name, **spec))
    kubernetes.settle()
    return kubernetes


def spec_of(kubernetes: Kubernetes, name: str = "orders") -> PartitionMapSpec:
    return kubernetes.maps[name].spec


def states(kubernetes: Kubernetes, name: str = "orders") -> tuple[PartitionState, ...]:
    return spec_of(kubernetes, name).generations[0].partitions


def ready(kubernetes: Kubernetes, name: str = "orders") -> Condition:
    return kubernetes.topics[name].status.conditions[0]


def condition(kubernetes: Kubernetes, type_: str, name: str = "orders") -> Condition | None:
    found = (one for one in kubernetes.topics[name].status.conditions if one.type == type_)
    return next(found, None)


# -- made


def test_a_topic_gets_an_id_a_placement_and_leaders() -> None:
    kubernetes = applied(partitions=6)

    spec = spec_of(kubernetes)
    assert kubernetes.maps["orders"].metadata.name == "demo.orders"
    assert spec.owner_uid == kubernetes.topics["orders"].metadata.uid
    assert [state.replicas for state in states(kubernetes)] == [(1,), (2,), (3,)] * 2
    assert [str(state.leader) for state in states(kubernetes)] == ["1@1", "2@1", "3@1"] * 2
    status = kubernetes.topics["orders"].status
    assert (status.topic_id, status.partitions, status.replicas) == (spec.current, 6, 1)
    assert ready(kubernetes).status is ConditionStatus.TRUE


def test_three_replicas_in_three_zones() -> None:
    kubernetes = Kubernetes(3, rack={"topologyKey": "zone"})
    kubernetes.run()
    kubernetes.settle()
    kubernetes.apply(topic(partitions=6, replicas=3))
    kubernetes.settle()

    assert [state.replicas for state in states(kubernetes)] == [
        (1, 2, 3),
        (2, 3, 1),
        (3, 1, 2),
        (1, 3, 2),
        (2, 1, 3),
        (3, 2, 1),
    ]
    assert spec_of(kubernetes).min_isr == 2
    assert [broker.spec.rack for broker in kubernetes.brokers.values()] == [
        "zone-1",
        "zone-2",
        "zone-3",
    ]


def test_the_finalizer_comes_before_the_map() -> None:
    kubernetes = running()
    kubernetes.apply(topic())

    actions = kubernetes.plan().actions
    assert [type(one) for one in actions] == [SetMetadata]

    kubernetes.execute(actions)
    assert [type(one) for one in kubernetes.plan().actions] == [Create]


def test_defaults_come_from_the_cluster() -> None:
    kubernetes = running(config={"num.partitions": 4, "log.retention.hours": 2})
    kubernetes.apply(topic())
    kubernetes.settle()

    assert len(states(kubernetes)) == 4
    assert spec_of(kubernetes).inherited_config == {
        "chiplog.durability": "Fsync",
        "log.retention.hours": "2",
    }


def test_the_first_topics_wait_for_all_brokers_but_not_for_ever() -> None:
    kubernetes = Kubernetes(3)
    kubernetes.apply(topic())
    kubernetes.settle()
    kubernetes.start(1)
    kubernetes.start(2)
    kubernetes.settle()

    assert "orders" not in kubernetes.maps
    assert ready(kubernetes).reason == "WaitingForBrokers"
    assert ready(kubernetes).message == "waiting for broker 3 to start"
    assert kubernetes.plan().requeue_after_ms == 1_000

    kubernetes.now += ASSEMBLY_TIME * 2
    kubernetes.settle()
    assert [state.replicas for state in states(kubernetes)] == [(1,)]


def test_a_dead_broker_gets_no_new_partition() -> None:
    kubernetes = running()
    kubernetes.kill(2)
    kubernetes.settle()

    kubernetes.apply(topic(partitions=4))
    kubernetes.settle()

    assert [state.replicas for state in states(kubernetes)] == [(1,), (3,), (1,), (3,)]


def test_without_any_broker_there_is_no_map_and_a_reason() -> None:
    kubernetes = running(1)
    kubernetes.kill(1)
    kubernetes.settle()
    kubernetes.apply(topic())
    kubernetes.settle()

    assert "orders" not in kubernetes.maps
    assert ready(kubernetes).message == (
        "needs 1 ready brokers, but there are 0: wait for more brokers"
    )


def test_nothing_is_made_before_everything_was_listed() -> None:
    kubernetes = running()
    kubernetes.apply(topic())
    kubernetes.execute(kubernetes.plan(is_complete=False).actions)

    assert kubernetes.plan(is_complete=False).actions == ()


# -- refused


def test_a_wrong_topic_is_told_so_and_changes_nothing() -> None:
    kubernetes = applied(config={"retention.ms": 1000})
    kubernetes.apply(topic(config={"retention.ms": 2000, "retentoin.bytes": 1}))
    kubernetes.settle()

    assert spec_of(kubernetes).config == {"retention.ms": "1000"}
    assert ready(kubernetes).reason == "InvalidConfig"
    assert "did you mean retention.bytes?" in ready(kubernetes).message


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"replicas": 4}, "spec.replicas is 4, but cluster demo has 3 brokers"),
        (
            {"replicas": 2, "config": {"min.insync.replicas": 3}},
            "spec.config[min.insync.replicas] is 3, but spec.replicas is 2",
        ),
    ],
)
def test_more_than_there_are_is_refused_with_the_number(spec: dict[str, Any], told: str) -> None:
    kubernetes = applied(**spec)

    assert "orders" not in kubernetes.maps
    assert ready(kubernetes).reason == "InvalidConfig"
    assert told in ready(kubernetes).message


def test_the_first_owner_keeps_the_name_and_the_second_is_told_who_has_it() -> None:
    kubernetes = applied(topicName="a.b")
    kubernetes.apply(topic("again", topicName="a.b"))
    kubernetes.apply(topic("similar", topicName="a_b"))
    kubernetes.settle()

    assert set(of_users(kubernetes.maps)) == {"a.b"}
    for name in ("again", "similar"):
        assert ready(kubernetes, name).reason == "ResourceConflict"
        assert ready(kubernetes, name).status is ConditionStatus.FALSE


def test_of_two_new_ones_the_older_gets_the_name() -> None:
    kubernetes = running()
    kubernetes.apply(topic("younger", topicName="a.b"))
    kubernetes.now -= ASSEMBLY_TIME
    older = kubernetes.apply(topic("older", topicName="a_b"))
    kubernetes.now += ASSEMBLY_TIME
    kubernetes.settle()

    maps = of_users(kubernetes.maps)
    assert {one.spec.owner_uid for one in maps.values()} == {older.metadata.uid}


def test_a_namespace_that_is_not_allowed() -> None:
    kubernetes = running()
    stray = topic()
    kubernetes.apply(replace(stray, metadata=replace(stray.metadata, namespace="away")))
    kubernetes.settle()

    assert not of_users(kubernetes.maps)
    assert "spec.allowedTopicNamespaces" in ready(kubernetes).message


# -- adopted


def test_an_equal_topic_takes_over_a_map_whose_owner_is_gone() -> None:
    kubernetes = applied(partitions=2)
    before = spec_of(kubernetes)
    del kubernetes.topics["orders"]
    kubernetes.settle()
    assert spec_of(kubernetes) == before, "absence never means delete"

    after = kubernetes.apply(topic(partitions=2))
    kubernetes.settle()

    assert spec_of(kubernetes) == replace(before, owner_uid=after.metadata.uid)
    assert ready(kubernetes).status is ConditionStatus.TRUE


def test_a_map_whose_owner_does_not_read_is_not_up_for_adoption() -> None:
    kubernetes = applied()
    broken = kubernetes.topics.pop("orders")
    other = kubernetes.apply(topic("other", topicName="orders"))
    unreadable = Unreadable(
        metadata=broken.metadata,
        cluster_name="demo",
        problems=(Problem("spec.partitions", "is 'x'", "set it to a number"),),
    )
    kubernetes.execute(kubernetes.plan(unreadable=(unreadable,)).actions)
    kubernetes.execute(kubernetes.plan(unreadable=(unreadable,)).actions)

    assert spec_of(kubernetes).owner_uid == broken.metadata.uid != other.metadata.uid


def test_nothing_is_adopted_before_everything_was_listed() -> None:
    kubernetes = applied()
    owner = spec_of(kubernetes).owner_uid
    del kubernetes.topics["orders"]
    kubernetes.apply(topic())
    for _ in range(3):
        kubernetes.execute(kubernetes.plan(is_complete=False).actions)

    assert spec_of(kubernetes).owner_uid == owner


# -- changed


def test_a_change_of_configuration_is_one_write() -> None:
    kubernetes = applied()
    kubernetes.apply(topic(config={"retention.ms": 60_000}))

    (write,) = kubernetes.plan().actions
    assert isinstance(write, Replace)
    kubernetes.settle()

    assert spec_of(kubernetes).config == {"retention.ms": "60000"}


def test_topics_follow_their_cluster() -> None:
    kubernetes = applied()
    kubernetes.configure(config={"log.retention.ms": 5_000}, durability="PageCache")
    kubernetes.settle()

    assert spec_of(kubernetes).inherited_config["log.retention.ms"] == "5000"
    assert spec_of(kubernetes).durability is Durability.PAGE_CACHE
    assert spec_of(kubernetes).durability_switch == 1
    assert kubernetes.brokers[next(iter(kubernetes.brokers))].spec.config == {
        "chiplog.durability": "PageCache",
        "log.retention.ms": "5000",
    }


def test_a_typo_in_the_cluster_changes_nothing_for_topics() -> None:
    kubernetes = Kubernetes(1, config={"log.retention.hours": 500})
    kubernetes.apply(topic())
    kubernetes.run()
    kubernetes.configure(config={"log.retention.hour": 500})
    kubernetes.settle()

    assert spec_of(kubernetes).inherited_config["log.retention.hours"] == "500"
    assert kubernetes.cluster.status.conditions[0].reason == "InvalidConfig"


def test_fsync_after_page_cache_counts_when_every_replica_has_flushed() -> None:
    kubernetes = applied(partitions=3, config={"chiplog.durability": "PageCache"})
    kubernetes.apply(topic(partitions=3))
    kubernetes.execute(kubernetes.plan().actions)

    spec = spec_of(kubernetes)
    assert spec.durability is Durability.FSYNC
    assert (spec.durability_switch, spec.unflushed) == (1, (1, 2, 3))

    kubernetes.settle()
    assert spec_of(kubernetes).unflushed == ()


def test_a_flush_of_an_earlier_switch_does_not_count() -> None:
    kubernetes = applied(config={"chiplog.durability": "PageCache"})
    kubernetes.apply(topic())
    kubernetes.execute(kubernetes.plan().actions)
    kubernetes.obey()  # answers switch 1
    spec = replace(spec_of(kubernetes), durability_switch=3)
    kubernetes.maps["orders"] = replace(kubernetes.maps["orders"], spec=spec)

    assert not [one for one in kubernetes.plan().actions if isinstance(one, Replace)]


# -- grown


def test_growth_continues_the_stripe_and_warns_of_the_keys() -> None:
    kubernetes = applied(partitions=2)
    before = states(kubernetes)
    kubernetes.apply(topic(partitions=6))
    kubernetes.settle()

    assert states(kubernetes)[:2] == before
    assert [state.replicas for state in states(kubernetes)] == [(1,), (2,), (3,)] * 2
    warning = condition(kubernetes, "Warning")
    assert warning is not None
    assert warning.reason == "KeysRemapped"
    assert warning.message.startswith(
        "the topic grew from 2 to 6 partitions by Append: about 67% of"
    )
    assert ready(kubernetes).status is ConditionStatus.TRUE


def test_the_warning_stays_until_the_spec_changes_again() -> None:
    kubernetes = applied(partitions=2)
    kubernetes.apply(topic(partitions=6))
    kubernetes.settle()
    kubernetes.kill(1)
    kubernetes.settle()
    assert condition(kubernetes, "Warning") is not None

    kubernetes.apply(topic(partitions=6, config={"retention.ms": 1}))
    kubernetes.settle()

    assert condition(kubernetes, "Warning") is None


def test_fewer_partitions_are_refused() -> None:
    kubernetes = applied(partitions=6)
    kubernetes.apply(topic(partitions=4))
    kubernetes.settle()

    assert len(states(kubernetes)) == 6
    assert ready(kubernetes).reason == "NotSupported"
    assert ready(kubernetes).message.startswith("spec.partitions is 4, but the topic has 6")
    assert kubernetes.topics["orders"].status.partitions == 6


def test_a_topic_that_names_no_number_keeps_what_it_has() -> None:
    kubernetes = applied(partitions=6)
    kubernetes.apply(topic())
    kubernetes.settle()

    assert len(states(kubernetes)) == 6
    assert ready(kubernetes).status is ConditionStatus.TRUE


# -- left alone


def test_a_paused_topic_is_left_alone_except_for_elections() -> None:
    kubernetes = applied(partitions=1)
    paused = {labels.PAUSE: "true"}
    kubernetes.apply(topic(partitions=4, config={"retention.ms": 1}, annotations=paused))
    kubernetes.start(1)
    kubernetes.settle()

    assert [str(state.leader) for state in states(kubernetes)] == ["1@2"]
    assert spec_of(kubernetes).config == {}
    assert condition(kubernetes, "ReconciliationPaused") is not None

    kubernetes.apply(topic(partitions=4))
    kubernetes.settle()
    assert len(states(kubernetes)) == 4
    assert condition(kubernetes, "ReconciliationPaused") is None


def test_a_paused_cluster_is_left_alone_except_for_elections() -> None:
    kubernetes = applied(partitions=1)
    meta = kubernetes.cluster.metadata
    meta = replace(meta, annotations={labels.PAUSE: "true"})
    kubernetes.cluster = replace(kubernetes.cluster, metadata=meta)
    kubernetes.apply(topic(partitions=4))
    kubernetes.start(1)
    kubernetes.settle()

    assert [str(state.leader) for state in states(kubernetes)] == ["1@2"]
    assert "ReconciliationPaused" in [one.type for one in kubernetes.cluster.status.conditions]


def test_a_cluster_that_does_not_read_still_gets_elections() -> None:
    kubernetes = applied(partitions=1)
    kubernetes.start(1)
    problem = Problem("spec.replicas", "is 'x'", "set it to a number")
    for _ in range(4):
        kubernetes.execute(kubernetes.plan(cluster=None, cluster_problems=(problem,)).actions)
        kubernetes.obey()

    assert [str(state.leader) for state in states(kubernetes)] == ["1@2"]
    assert kubernetes.cluster.status.conditions[0].message.startswith("spec.replicas is 'x'")


def test_an_unmanaged_topic_is_left_alone() -> None:
    kubernetes = applied(partitions=1)
    unmanaged = {labels.MANAGED: "false"}
    kubernetes.apply(topic(partitions=4, annotations=unmanaged))
    kubernetes.apply(topic("other", annotations=unmanaged))
    kubernetes.settle()

    assert len(states(kubernetes)) == 1
    assert "other" not in kubernetes.maps
    assert condition(kubernetes, "Unmanaged", "other") is not None


@pytest.mark.parametrize("name", ["Orders", "order_placed", "_schemas"])
def test_names_that_kubernetes_does_not_allow(name: str) -> None:
    kubernetes = applied("some-name", topicName=name)

    assert set(of_users(kubernetes.maps)) == {name}
    assert kubernetes.topics["some-name"].status.topic_name == name


# -- how many there may be


def test_topics_and_partitions_beyond_the_clusters_limit_wait_and_say_so() -> None:
    limits = {"chiplog.max.topics": "2", "chiplog.max.partitions": "10"}
    kubernetes = running(config=limits)
    for name, partitions in (("a", 6), ("b", 4), ("c", 1)):
        kubernetes.apply(topic(name, partitions=partitions))
        kubernetes.settle()

    assert set(of_users(kubernetes.maps)) == {"a", "b"}
    assert (ready(kubernetes, "c").status, ready(kubernetes, "c").reason) == (
        ConditionStatus.FALSE,
        "ClusterFull",
    )
    assert "chiplog.max.topics, which is 2" in ready(kubernetes, "c").message
    kubernetes.apply(topic("b", partitions=5))
    kubernetes.settle()
    assert len(states(kubernetes, "b")) == 4
    assert "chiplog.max.partitions, which is 10" in ready(kubernetes, "b").message
    # Level-triggered: with room again, both are done.
    kubernetes.delete("a")
    kubernetes.settle()
    assert len(states(kubernetes, "b")) == 5
    assert len(states(kubernetes, "c")) == 1


def test_a_cluster_above_its_limit_keeps_all_it_has() -> None:
    kubernetes = running()
    for name in ("a", "b"):
        kubernetes.apply(topic(name, partitions=5))
        kubernetes.settle()
    before = dict(kubernetes.maps)
    limits = {"chiplog.max.topics": "1", "chiplog.max.partitions": "1"}
    kubernetes.configure(config=limits)
    kubernetes.settle()

    assert set(of_users(kubernetes.maps)) == {"a", "b"}
    assert [len(states(kubernetes, name)) for name in ("a", "b")] == [5, 5]
    assert all(ready(kubernetes, name).status is ConditionStatus.TRUE for name in ("a", "b"))
    assert [one.metadata.name for one in before.values()] == [
        one.metadata.name for one in kubernetes.maps.values()
    ]


def test_until_all_have_flushed_a_broker_counts_if_it_has_or_is_retired_and_not_if_unknown() -> (
    None
):
    kubernetes = applied(partitions=3, config={"chiplog.durability": "PageCache"})
    kubernetes.apply(topic(partitions=3))
    kubernetes.execute(kubernetes.plan().actions)
    spec = spec_of(kubernetes)
    assert spec.unflushed == (1, 2, 3)
    first, second = (kubernetes.brokers[BrokerId(one)] for one in (1, 2))
    retired = replace(first, spec=replace(first.spec, retired=True))

    world = kubernetes.world(brokers={BrokerId(1): retired, BrokerId(2): second})

    assert flushed(spec, world).unflushed == (2, 3)


def test_more_partitions_wait_for_a_broker_to_put_them_on() -> None:
    kubernetes = applied(partitions=2, replicas=3)
    for broker_id in (1, 2, 3):
        kubernetes.kill(broker_id)
    kubernetes.apply(topic(partitions=6, replicas=3))
    kubernetes.settle()

    assert len(states(kubernetes)) == 2


def test_a_topic_that_is_deleted_before_it_has_a_map_gets_none() -> None:
    kubernetes = Kubernetes(3)
    made = kubernetes.apply(topic())
    going = replace(made.metadata, deletion_timestamp=kubernetes.now, finalizers=("a.b/c",))
    kubernetes.topics["orders"] = replace(made, metadata=going)
    kubernetes.run()

    assert "orders" not in kubernetes.maps


def test_a_new_topic_of_a_paused_cluster_says_why_it_has_to_wait() -> None:
    kubernetes = Kubernetes(3)
    kubernetes.run()
    kubernetes.apply(topic())
    paused = replace(kubernetes.cluster.metadata, annotations={labels.PAUSE: "true"})
    kubernetes.settle(metadata=paused)

    assert "orders" not in kubernetes.maps
    assert (ready(kubernetes).reason, ready(kubernetes).message) == (
        "Paused",
        "the BrokerCluster is paused: the topic is created when it is resumed",
    )


def test_a_new_topic_of_a_cluster_that_does_not_read_waits_for_it() -> None:
    kubernetes = Kubernetes(3)
    kubernetes.run()
    kubernetes.apply(topic())
    kubernetes.execute(
        kubernetes.plan(cluster=None, cluster_problems=(Problem("spec", "is odd", "x"),)).actions
    )

    assert "orders" not in kubernetes.maps
    assert (ready(kubernetes).reason, ready(kubernetes).message) == (
        "WaitingForCluster",
        "the spec of the BrokerCluster cannot be parsed: correct it",
    )


def test_a_new_topic_of_a_cluster_that_was_refused_from_the_start_waits_for_it() -> None:
    kubernetes = Kubernetes(3, config={"log.retention.hour": 500})
    kubernetes.apply(topic())
    kubernetes.settle()

    assert "orders" not in kubernetes.maps
    assert ready(kubernetes).reason == "WaitingForCluster"
