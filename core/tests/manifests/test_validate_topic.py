"""Rules for topics, each with what a user reads."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate import unbuilt
from chiplog_core.validate.topic import (
    check_partition_count,
    check_topic,
    check_topic_change,
    check_topic_in_cluster,
    check_topic_name_is_free,
    warn_about_topic,
)


def topic(name: str = "orders", namespace: str = "home", **spec: object) -> Topic:
    return Topic.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "Topic",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"},
            "spec": {"clusterRef": {"name": "demo"}, **spec},
        }
    )


def cluster(**spec: object) -> BrokerCluster:
    return BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "home"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}, **spec},
        }
    )


def texts(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


@pytest.fixture
def everything_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no feature were missing, to see the other rules alone."""
    monkeypatch.setattr(unbuilt, "UNBUILT", {})


def test_a_plain_topic_has_no_problem() -> None:
    plain = topic(partitions=6, replicas=1, config={"retention.ms": 60_000})

    assert check_topic(plain) == ()
    assert check_topic_in_cluster(plain, cluster()) == ()
    assert warn_about_topic(plain) == ()


@pytest.mark.parametrize("name", [".", ".."])
def test_dots_alone_are_no_name(name: str) -> None:
    assert texts(check_topic(topic(topicName=name))) == [
        f"spec.topicName is {name!r}: choose another name"
    ]


def test_internal_names_belong_to_the_cluster() -> None:
    assert texts(check_topic(topic(topicName="__consumer_offsets"))) == [
        (
            "spec.topicName is __consumer_offsets, which belongs to the cluster itself: "
            "choose another name"
        )
    ]


def test_a_wrong_configuration_names_the_key() -> None:
    assert texts(check_topic(topic(config={"retention.mss": 1}))) == [
        ("spec.config[retention.mss] is not a topic configuration key: did you mean retention.ms?")
    ]


def test_min_isr_is_at_most_replicas() -> None:
    config = {"min.insync.replicas": "3"}

    assert texts(check_topic(topic(replicas=2, config=config))) == [
        ("spec.config[min.insync.replicas] is 3, but spec.replicas is 2: set it to at most 2")
    ]
    assert check_topic(topic(replicas=3, config=config)) == ()
    assert check_topic(topic(config=config)) == ()


@pytest.mark.usefixtures("everything_built")
def test_settings_of_repartition_are_only_for_it() -> None:
    growth = {"strategy": "Append", "partitioner": "murmur2", "maxReplay": 0}

    assert texts(check_topic(topic(growth=growth))) == [
        "spec.growth.partitioner is set, but only Repartition uses it: remove it",
        "spec.growth.maxReplay is set, but only Repartition uses it: remove it",
    ]
    assert check_topic(topic(growth={**growth, "strategy": "Repartition"})) == ()
    assert check_topic(topic(growth={})) == ()


@pytest.mark.usefixtures("everything_built")
def test_a_trash_ttl_is_only_for_the_trash() -> None:
    assert texts(check_topic(topic(trashTTL="7d"))) == [
        (
            "spec.trashTTL is set, but only deletionPolicy Trash uses it: "
            "remove it, or set spec.deletionPolicy to Trash"
        )
    ]
    assert check_topic(topic(trashTTL="7d", deletionPolicy="Trash")) == ()


def placed(*replicas: list[int]) -> list[dict[str, object]]:
    return [
        {"partition": partition, "replicas": brokers} for partition, brokers in enumerate(replicas)
    ]


def test_assignments_name_some_partitions_or_all() -> None:
    assert check_topic(topic(partitions=2, replicas=2, assignments=placed([1, 2], [2, 3]))) == ()
    assert check_topic(topic(assignments=placed([1, 2], [2, 3]))) == ()
    gap = [{"partition": 0, "replicas": [1]}, {"partition": 2, "replicas": [1]}]
    assert check_topic(topic(partitions=3, assignments=gap)) == ()
    assert texts(check_topic(topic(partitions=2, assignments=gap))) == [
        (
            "spec.assignments names partition 2, but spec.partitions is 2 and the first partition "
            "is 0: remove it, or raise spec.partitions"
        )
    ]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            topic(assignments=placed([1], [2, 3])),
            "spec.assignments has entries with 1, 2 replicas: give each the same number of brokers",
        ),
        (
            topic(replicas=2, assignments=placed([1], [2])),
            (
                "spec.assignments has entries with 1 replicas, but spec.replicas is 2: give each "
                "as many brokers as spec.replicas says, or change spec.replicas"
            ),
        ),
        (
            topic(assignments=placed([1]), config={"min.insync.replicas": 2}),
            (
                "spec.config[min.insync.replicas] is 2, but the number of replicas in "
                "spec.assignments is 1: set it to at most 1"
            ),
        ),
    ],
)
def test_assignments_have_the_same_number_of_replicas(wrong: Topic, text: str) -> None:
    assert texts(check_topic(wrong)) == [text]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"growth": {"strategy": "Repartition"}}, "spec.growth.strategy"),
        ({"deletionPolicy": "Trash"}, "spec.deletionPolicy"),
    ],
)
def test_what_is_not_built_is_said_so(spec: dict[str, Any], field: str) -> None:
    (problem,) = check_topic(topic(**spec))

    assert problem.field == field
    assert problem.reason is Reason.NOT_SUPPORTED
    assert "not built yet" in problem.message


def test_another_namespace_must_be_allowed() -> None:
    away = topic(namespace="away")

    assert texts(check_topic_in_cluster(away, cluster())) == [
        (
            "spec.clusterRef names demo, which does not accept Topics from namespace away: "
            "add away to that cluster's spec.allowedTopicNamespaces"
        )
    ]
    assert check_topic_in_cluster(away, cluster(allowedTopicNamespaces=["away"])) == ()


def test_replicas_are_at_most_the_brokers() -> None:
    message = "is 4, but cluster demo has 3 brokers: set it to at most 3, or add brokers"

    assert texts(check_topic_in_cluster(topic(replicas=4), cluster())) == [
        f"spec.replicas {message}"
    ]
    default = cluster(config={"default.replication.factor": 4})
    assert texts(check_topic_in_cluster(topic(), default)) == [f"spec.replicas {message}"]
    assert check_topic_in_cluster(topic(replicas=3), cluster()) == ()


def test_min_isr_is_at_most_the_clusters_replicas_where_the_topic_names_none() -> None:
    strict = topic(config={"min.insync.replicas": 2})

    assert texts(check_topic_in_cluster(strict, cluster())) == [
        (
            "spec.config[min.insync.replicas] is 2, but the cluster's "
            "default.replication.factor is 1: set spec.replicas"
        )
    ]
    wide = cluster(config={"default.replication.factor": 3})
    assert check_topic_in_cluster(strict, wide) == ()


def test_partitions_cannot_be_taken_away() -> None:
    (problem,) = check_topic_change(topic(partitions=12), topic(partitions=6))

    assert problem.reason is Reason.NOT_SUPPORTED
    assert str(problem) == (
        "spec.partitions is 6, but the topic has 12 and partitions cannot be removed: set it to "
        "12 or more"
    )


def test_what_is_not_built_is_no_way_past_it() -> None:
    after = topic(partitions=6, growth={"strategy": "Repartition"})

    (problem,) = check_topic_change(topic(partitions=12), after)
    assert "Repartition" not in str(problem), "no advice that is refused when it is followed"


def test_unless_they_are_repartitioned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbuilt, "UNBUILT", {})
    after = topic(partitions=6, growth={"strategy": "Repartition"})

    assert check_topic_change(topic(partitions=12), after) == ()
    (problem,) = check_topic_change(topic(partitions=12), topic(partitions=6))
    assert problem.remedy == "set it to 12 or more, or set spec.growth.strategy to Repartition"


def test_a_number_of_partitions_that_is_not_set_stays() -> None:
    assert check_topic_change(topic(partitions=12), topic()) == ()
    assert check_topic_change(topic(), topic(partitions=1)) == ()
    assert check_partition_count(12, topic(partitions=12).spec) == ()


@given(st.integers(1, 2_000), st.integers(1, 2_000))
def test_a_topic_only_ever_grows(before: int, after: int) -> None:
    refused = check_topic_change(topic(partitions=before), topic(partitions=after))

    assert bool(refused) == (after < before)


def test_who_a_topic_is_cannot_be_changed() -> None:
    elsewhere = topic(topicName="others", clusterRef={"name": "other"})

    assert texts(check_topic_change(topic(), elsewhere)) == [
        (
            "spec.clusterRef cannot be changed: delete this Topic and create one for the other "
            "cluster"
        ),
        "spec.topicName cannot be changed: create another Topic; a topic cannot be renamed",
    ]


def test_writing_the_name_it_has_changes_nothing() -> None:
    assert check_topic_change(topic("orders"), topic("orders", topicName="orders")) == ()


def test_a_name_belongs_to_the_topic_that_had_it_first() -> None:
    owners = {"orders": "uid-of-another", "payments": "uid-of-payments"}

    (problem,) = check_topic_name_is_free(topic("orders"), owners, {})

    assert problem.reason is Reason.RESOURCE_CONFLICT
    assert str(problem) == (
        "spec.topicName is orders, which another Topic (uid uid-of-another) already has: "
        "choose another name"
    )
    assert check_topic_name_is_free(topic("payments"), owners, {}) == ()
    assert check_topic_name_is_free(topic("refunds"), owners, {}) == ()


def test_the_topic_that_has_the_name_is_named_where_it_is_known() -> None:
    objects = {"uid-of-another": "shop/orders-of-2024"}
    (problem,) = check_topic_name_is_free(topic("orders"), {"orders": "uid-of-another"}, objects)

    assert "another Topic (shop/orders-of-2024) already has" in str(problem)


def test_names_that_metrics_cannot_tell_apart_collide() -> None:
    (problem,) = check_topic_name_is_free(topic("a.b"), {"a_b": "uid-of-another"}, {})

    assert str(problem) == (
        "spec.topicName is a.b, which collides in Kafka's metric names with topic a_b: "
        "choose another name"
    )


def test_a_warning_where_no_broker_may_be_lost() -> None:
    strict = topic(replicas=3, config={"min.insync.replicas": 3})

    assert texts(warn_about_topic(strict)) == [
        (
            "spec.config[min.insync.replicas] equals spec.replicas (3), so a single unavailable "
            "broker blocks all writes with acks=all: set it to 2"
        )
    ]


@pytest.mark.parametrize(
    "calm",
    [
        topic(replicas=3, config={"min.insync.replicas": 2}),
        topic(replicas=1, config={"min.insync.replicas": 1}),
        topic(config={"min.insync.replicas": 3}),
        topic(replicas=3),
    ],
)
def test_no_warning_otherwise(calm: Topic) -> None:
    assert warn_about_topic(calm) == ()


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_topic_can_be_judged(
    data: st.DataObject, values_of: Callable[[type[Any]], st.SearchStrategy[Any]]
) -> None:
    before, after = data.draw(values_of(Topic)), data.draw(values_of(Topic))

    for problem in (
        *check_topic(after),
        *check_topic_in_cluster(after, cluster()),
        *check_topic_change(before, after),
        *warn_about_topic(after),
    ):
        assert problem.field.startswith("spec.")
        assert problem.message
        assert problem.remedy
