"""What admin clients are told, by Kafka's codes, and what is written for them."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_core.admin.answers import TopicCounts
from chiplog_core.admin.codes import Code
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import (
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    GrowTopic,
    Operation,
)
from chiplog_core.ids import BrokerId, Incarnation, TopicId
from chiplog_core.model.admin import AdminAnswer, AdminOperation
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.topic import Topic
from chiplog_core.naming import api, labels
from chiplog_core.observed.world import Unreadable, WriteResult
from chiplog_core.planner.admin.requests import answer_requests

if TYPE_CHECKING:
    from tests.planner.admin.conftest import Kubernetes

ALL_OF_SPEC: dict[str, object] = {
    "f:spec": {"f:clusterRef": {}, "f:partitions": {}, "f:config": {"f:segment.ms": {}}}
}
KUBECTL = ("kubectl-client-side-apply", ALL_OF_SPEC)
ADMIN = (labels.KAFKA_ADMIN, ALL_OF_SPEC)


def topic(kubernetes: "Kubernetes", name: str, namespace: str = "kafka") -> Topic:
    return Topic.from_manifest(kubernetes.topics[namespace, name])


def configure(name: str = "orders", **values: str) -> ConfigureTopic:
    changes = (ConfigChange(Change.SET, key.replace("_", "."), v) for key, v in values.items())
    return ConfigureTopic(name=name, changes=tuple(changes))


# CreateTopics


def test_a_topic_is_made_and_the_answer_names_its_object(kubernetes: "Kubernetes") -> None:
    operation = CreateTopic(name="orders", partitions=6, replicas=1, config={"retention.ms": "5"})
    verdict = kubernetes.outcome(operation)
    made = topic(kubernetes, "orders")
    assert (verdict.code, verdict.topic_uid) == (Code.NONE, made.metadata.uid)
    assert kubernetes.topics["kafka", "orders"]["spec"] == {
        "clusterRef": {"name": "prod"},
        "partitions": 6,
        "replicas": 1,
        "config": {"retention.ms": "5"},
    }
    assert made.metadata.labels == {labels.CLUSTER: "prod"}


def test_what_is_left_to_the_cluster_is_fixed_when_the_topic_is_made(
    kubernetes: "Kubernetes",
) -> None:
    kubernetes.outcome(CreateTopic(name="orders"))
    assert topic(kubernetes, "orders").spec.partitions == 4
    assert topic(kubernetes, "orders").spec.replicas == 1


def test_a_name_that_kubernetes_does_not_allow_is_kept_in_the_spec(
    kubernetes: "Kubernetes",
) -> None:
    assert kubernetes.outcome(CreateTopic(name="order_placed")).code is Code.NONE
    (found,) = (Topic.from_manifest(one) for one in kubernetes.topics.values())
    assert (found.spec.topic_name, found.topic_name) == ("order_placed", "order_placed")
    assert found.metadata.name.startswith("order-placed-")


def test_a_dry_run_makes_nothing_and_says_no_uid(kubernetes: "Kubernetes") -> None:
    verdict = kubernetes.outcome(CreateTopic(name="orders", validate_only=True))
    assert (verdict.code, verdict.topic_uid) == (Code.NONE, None)
    assert verdict.would_have == TopicCounts(partitions=4, replicas=1)
    assert not kubernetes.topics


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (CreateTopic(name="there"), Code.TOPIC_ALREADY_EXISTS),
        (CreateTopic(name="there", validate_only=True), Code.TOPIC_ALREADY_EXISTS),
        (CreateTopic(name="of_team"), Code.TOPIC_ALREADY_EXISTS),
        (CreateTopic(name="of.team"), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="a/b"), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name=""), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="__consumer_offsets"), Code.INVALID_TOPIC_EXCEPTION),
        (CreateTopic(name="n", partitions=0), Code.INVALID_PARTITIONS),
        (CreateTopic(name="n", partitions=2_001), Code.INVALID_PARTITIONS),
        (CreateTopic(name="n", replicas=0), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", replicas=4), Code.INVALID_REPLICATION_FACTOR),
        (CreateTopic(name="n", assignments={0: (9,)}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", assignments={0: ()}), Code.INVALID_REPLICA_ASSIGNMENT),
        (CreateTopic(name="n", config={"retention.mss": "1"}), Code.INVALID_CONFIG),
        (CreateTopic(name="n", config={"cleanup.policy": "condense"}), Code.INVALID_CONFIG),
        (CreateTopic(name="n", config={"min.insync.replicas": "2"}), Code.INVALID_CONFIG),
        (CreateTopic(name="other-object"), Code.POLICY_VIOLATION),
    ],
)
def test_a_topic_that_cannot_be_is_refused(
    kubernetes: "Kubernetes", operation: CreateTopic, code: Code
) -> None:
    kubernetes.made("there")
    kubernetes.made("of-team", namespace="team", topicName="of_team")
    kubernetes.made("other-object", topicName="something-else")
    before = list(kubernetes.topics)
    verdict = kubernetes.outcome(operation)
    assert (verdict.code, bool(verdict.message)) == (code, True)
    assert list(kubernetes.topics) == before


def test_a_namespace_that_may_not_name_the_cluster_takes_no_name(kubernetes: "Kubernetes") -> None:
    kubernetes.apply("orders", namespace="stranger")
    assert kubernetes.outcome(CreateTopic(name="orders")).code is Code.NONE


def test_a_name_whose_records_were_kept_is_taken(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    del kubernetes.topics["kafka", "orders"]
    verdict = kubernetes.outcome(CreateTopic(name="orders"))
    assert verdict.code is Code.TOPIC_ALREADY_EXISTS
    assert "apply a Topic" in verdict.message


def test_a_name_that_is_being_given_up_is_waited_for(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    kubernetes.topics["kafka", "orders"]["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    request_id = kubernetes.ask(CreateTopic(name="orders"))
    kubernetes.settle()
    assert request_id not in kubernetes.answers()

    del kubernetes.topics["kafka", "orders"]
    old = kubernetes.maps["orders"]
    kubernetes.maps["orders"] = replace(old, spec=replace(old.spec, current=None, generations=()))
    kubernetes.settle()
    assert request_id not in kubernetes.answers()

    del kubernetes.maps["orders"]
    kubernetes.settle()
    assert kubernetes.answers()[request_id].code is Code.NONE


def test_a_name_that_is_not_given_up_in_time_exists(kubernetes: "Kubernetes") -> None:
    manifest = kubernetes.made("orders")
    manifest["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    kubernetes.ask(CreateTopic(name="orders"), wait_s=0)
    kubernetes.settle()
    (verdict,) = kubernetes.answers().values()
    assert verdict.code is Code.TOPIC_ALREADY_EXISTS
    assert "being deleted" in verdict.message


def test_of_two_topics_that_want_a_name_the_oldest_is_meant(kubernetes: "Kubernetes") -> None:
    for name, second in (("younger", 2), ("older", 1)):
        manifest = kubernetes.apply(name, topicName="orders")
        manifest["metadata"]["creationTimestamp"] = f"2026-01-31T12:00:0{second}Z"
    assert kubernetes.outcome(GrowTopic(name="orders", partitions=5)).code is Code.NONE
    assert topic(kubernetes, "older").spec.partitions == 5
    assert topic(kubernetes, "younger").spec.partitions is None


def test_a_topic_that_no_object_can_hold_is_refused(kubernetes: "Kubernetes") -> None:
    for name, read in (("n" * 249, Code.NONE), ("n" * 250, Code.INVALID_TOPIC_EXCEPTION)):
        assert kubernetes.outcome(CreateTopic(name=name)).code is read


def test_what_does_not_fit_into_a_manifest_is_refused(kubernetes: "Kubernetes") -> None:
    many = tuple(range(1, 34))
    one = kubernetes.brokers[BrokerId(1)]
    kubernetes.brokers.update({BrokerId(number): one for number in many})
    verdict = kubernetes.outcome(CreateTopic(name="n", assignments={0: many}), 2)
    assert (verdict.code, "33 entries" in verdict.message) == (
        Code.INVALID_REPLICA_ASSIGNMENT,
        True,
    )


@pytest.mark.parametrize(
    ("kind", "code"),
    [(api.TOPIC, Code.POLICY_VIOLATION), (api.CONSUMER_GROUP, Code.NONE)],
)
def test_an_object_that_does_not_read_keeps_its_name(
    kubernetes: "Kubernetes", kind: api.ResourceKind, code: Code
) -> None:
    metadata = Metadata(name="orders", namespace="kafka")
    kubernetes.unreadable = (
        Unreadable(metadata=metadata, cluster_name="prod", problems=(), kind=kind),
    )
    assert kubernetes.outcome(CreateTopic(name="orders")).code is code


# DeleteTopics


def test_a_topic_that_is_being_deleted_already_is_deleted(kubernetes: "Kubernetes") -> None:
    manifest = kubernetes.made("orders", deletionPolicy="Retain")
    manifest["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    assert kubernetes.outcome(DeleteTopic(name="orders")).code is Code.NONE


def test_a_topic_whose_map_is_missing_still_is_the_one_its_status_names(
    kubernetes: "Kubernetes",
) -> None:
    topic_id = TopicId(b"sixteen bytes id")
    manifest = kubernetes.apply("orders")
    manifest["status"] = {"topicId": str(topic_id)}
    assert kubernetes.outcome(DeleteTopic(name="orders", topic_id=topic_id)).code is Code.NONE
    assert topic(kubernetes, "orders").metadata.deletion_timestamp is not None


def test_a_topic_is_deleted_as_the_very_object_that_was_read(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[ADMIN])
    request_id = kubernetes.ask(DeleteTopic(name="orders"))
    (write,) = kubernetes.plan().writes
    read = topic(kubernetes, "orders").metadata
    assert write.delete
    assert write.metadata.uid == read.uid
    assert write.metadata.resource_version == read.resource_version
    kubernetes.settle()
    assert kubernetes.answers()[request_id].code is Code.NONE
    assert topic(kubernetes, "orders").metadata.deletion_timestamp is not None


def test_a_topic_of_another_namespace_is_found_by_its_name(kubernetes: "Kubernetes") -> None:
    kubernetes.made("of-team", namespace="team", topicName="order_placed")
    assert kubernetes.outcome(DeleteTopic(name="order_placed")).code is Code.NONE
    assert topic(kubernetes, "of-team", "team").metadata.deletion_timestamp is not None


@pytest.mark.parametrize("policy", ["Retain", "Trash"])
def test_records_that_are_to_be_kept_are_not_deleted(kubernetes: "Kubernetes", policy: str) -> None:
    kubernetes.made("orders", deletionPolicy=policy)
    verdict = kubernetes.outcome(DeleteTopic(name="orders"))
    assert verdict.code is Code.POLICY_VIOLATION
    assert "kafka/orders" in verdict.message
    assert "set it to Delete" in verdict.message


def test_a_topic_of_another_manager_is_not_deleted(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[KUBECTL])
    verdict = kubernetes.outcome(DeleteTopic(name="orders"))
    assert verdict.code is Code.POLICY_VIOLATION
    for word in ("kubectl-client-side-apply", "kafka/orders", "kubectl delete"):
        assert word in verdict.message


def test_a_topic_id_that_the_name_no_longer_means_is_gone(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    other = TopicId(b"anotherTopicsId!")
    assert kubernetes.outcome(DeleteTopic(name="orders", topic_id=other)).code is Code.NONE
    assert topic(kubernetes, "orders").metadata.deletion_timestamp is None

    current = kubernetes.maps["orders"].spec.current
    assert kubernetes.outcome(DeleteTopic(name="orders", topic_id=current)).code is Code.NONE
    assert topic(kubernetes, "orders").metadata.deletion_timestamp is not None


# CreatePartitions


def test_partitions_are_added(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[ADMIN], config={"segment.ms": 7})
    verdict = kubernetes.outcome(GrowTopic(name="orders", partitions=5))
    after = topic(kubernetes, "orders")
    assert (verdict.code, verdict.topic_uid) == (Code.NONE, after.metadata.uid)
    assert (after.spec.partitions, after.spec.config) == (5, {"segment.ms": 7})


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (GrowTopic(name="orders", partitions=2), Code.INVALID_PARTITIONS),
        (GrowTopic(name="orders", partitions=1), Code.INVALID_PARTITIONS),
        (GrowTopic(name="orders", partitions=2_001), Code.INVALID_PARTITIONS),
        (
            GrowTopic(name="orders", partitions=3, assignments=((9,),)),
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        (
            GrowTopic(name="orders", partitions=4, assignments=((1,),)),
            Code.INVALID_REPLICA_ASSIGNMENT,
        ),
        (GrowTopic(name="unknown", partitions=3), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (GrowTopic(name="a/b", partitions=3), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (GrowTopic(name="managed", partitions=3), Code.POLICY_VIOLATION),
        (GrowTopic(name="paused", partitions=3), Code.POLICY_VIOLATION),
        (GrowTopic(name="unmanaged", partitions=3), Code.POLICY_VIOLATION),
        (GrowTopic(name="leaving", partitions=3), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (GrowTopic(name="retained", partitions=3), Code.POLICY_VIOLATION),
        (GrowTopic(name="__consumer_offsets", partitions=99), Code.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_growth_that_cannot_be_is_refused(
    kubernetes: "Kubernetes", operation: GrowTopic, code: Code
) -> None:
    kubernetes.made("orders")
    kubernetes.made("managed", owned=[KUBECTL])
    kubernetes.made("paused", annotations={labels.PAUSE: "true"})
    kubernetes.made("unmanaged", annotations={labels.MANAGED: "false"})
    kubernetes.made("leaving")["metadata"]["deletionTimestamp"] = "2026-01-31T12:00:00Z"
    kubernetes.made("retained")
    del kubernetes.topics["kafka", "retained"]
    kubernetes.maps["__consumer_offsets"] = replace(
        kubernetes.maps["orders"],
        spec=replace(
            kubernetes.maps["orders"].spec, topic_name="__consumer_offsets", owner_uid=None
        ),
    )
    verdict = kubernetes.outcome(operation)
    assert (verdict.code, bool(verdict.message)) == (code, True)
    assert topic(kubernetes, "orders").spec.partitions is None


def test_a_growth_that_is_only_validated_leaves_the_topic(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders")
    operation = GrowTopic(name="orders", partitions=5, validate_only=True)
    assert kubernetes.outcome(operation).code is Code.NONE
    assert topic(kubernetes, "orders").spec.partitions is None


# IncrementalAlterConfigs and AlterConfigs


def test_a_key_is_changed_and_the_others_are_left(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[KUBECTL], config={"segment.ms": 7, "retention.ms": 5})
    kubernetes.ask(configure(retention_ms="9"))
    (write,) = kubernetes.plan().writes
    assert write.patch is not None
    assert write.patch["spec"] == {"config": {"retention.ms": "9"}}
    kubernetes.settle()
    assert topic(kubernetes, "orders").spec.config == {"segment.ms": 7, "retention.ms": "9"}


def test_a_key_of_another_manager_is_not_changed(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[KUBECTL], config={"segment.ms": 7})
    verdict = kubernetes.outcome(configure(segment_ms="8", retention_ms="9"))
    assert verdict.code is Code.POLICY_VIOLATION
    for word in ("spec.config[segment.ms]", "kafka/orders", "kubectl-client-side-apply"):
        assert word in verdict.message
    assert topic(kubernetes, "orders").spec.config == {"segment.ms": 7}


def test_a_value_that_is_as_wished_is_no_change_of_it(kubernetes: "Kubernetes") -> None:
    manifest = kubernetes.made("orders", owned=[KUBECTL], config={"segment.ms": 7})
    verdict = kubernetes.outcome(configure(segment_ms="7"))
    assert (verdict.code, verdict.topic_uid) == (Code.NONE, manifest["metadata"]["uid"])


def test_a_replacement_takes_away_what_it_does_not_name(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", config={"segment.ms": 7, "retention.ms": 5})
    assert kubernetes.outcome(replace(configure(segment_ms="7"), replace=True)).code is Code.NONE
    assert topic(kubernetes, "orders").spec.config == {"segment.ms": 7}


def test_a_replacement_does_not_take_away_another_managers_key(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", owned=[KUBECTL], config={"segment.ms": 7})
    verdict = kubernetes.outcome(replace(configure(retention_ms="7"), replace=True))
    assert verdict.code is Code.POLICY_VIOLATION
    assert topic(kubernetes, "orders").spec.config == {"segment.ms": 7}


def test_a_key_that_is_wrong_can_be_taken_away_and_blocks_else(kubernetes: "Kubernetes") -> None:
    kubernetes.made("orders", config={"segment.mss": 7})
    assert kubernetes.outcome(configure(retention_ms="7")).code is Code.INVALID_CONFIG
    change = ConfigChange(Change.DELETE, "segment.mss")
    operation = ConfigureTopic(name="orders", changes=(change,))
    assert kubernetes.outcome(operation).code is Code.NONE
    assert topic(kubernetes, "orders").spec.config == {}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        (configure("unknown", retention_ms="7"), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (configure(retention_ms="soon"), Code.INVALID_CONFIG),
        (configure(min_insync_replicas="2"), Code.INVALID_CONFIG),
        (configure("__consumer_offsets", retention_ms="7"), Code.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    kubernetes: "Kubernetes", operation: Operation, code: Code
) -> None:
    kubernetes.made("orders")
    assert kubernetes.outcome(operation).code is code


# Whose requests count, and how long


def test_requests_of_a_process_that_is_not_admitted_count_for_nothing(
    kubernetes: "Kubernetes",
) -> None:
    kubernetes.ask(CreateTopic(name="orders"))
    old = kubernetes.brokers[BrokerId(1)]
    status = replace(old.status, incarnation=Incarnation("f" * 32))
    answers = (AdminAnswer(id="r1"),)
    kubernetes.brokers[BrokerId(1)] = replace(
        old, status=status, spec=replace(old.spec, answers=answers)
    )
    plan = kubernetes.plan()
    assert (plan.writes, plan.answers[BrokerId(1)]) == ((), ())


def test_an_answer_stays_as_it_is_until_its_request_is_gone(kubernetes: "Kubernetes") -> None:
    request_id = kubernetes.ask(CreateTopic(name="orders"))
    kubernetes.settle()
    before = kubernetes.answers()[request_id]
    kubernetes.topics.clear()
    kubernetes.settle()
    assert kubernetes.answers()[request_id] == before
    assert not kubernetes.topics

    kubernetes.set_requests(1, ())
    kubernetes.settle()
    assert not kubernetes.answers()


def test_what_was_not_begun_in_time_is_not_begun(kubernetes: "Kubernetes") -> None:
    request_id = kubernetes.ask(CreateTopic(name="orders"), wait_s=0)
    kubernetes.settle()
    assert kubernetes.answers()[request_id].code is Code.REQUEST_TIMED_OUT
    assert not kubernetes.topics


def test_a_plan_says_when_the_next_request_runs_out_of_time(kubernetes: "Kubernetes") -> None:
    assert kubernetes.plan().requeue_after_ms is None
    kubernetes.ask(CreateTopic(name="a"), wait_s=30)
    kubernetes.ask(CreateTopic(name="b"), wait_s=10)
    assert kubernetes.plan().requeue_after_ms == 10_001


def test_what_was_done_is_answered_even_after_its_time(kubernetes: "Kubernetes") -> None:
    request_id = kubernetes.ask(CreateTopic(name="orders"))
    plan = kubernetes.plan()
    kubernetes.carry_out(plan.writes[0])
    late = kubernetes.plan(now=kubernetes.requests(1)[0].deadline + timedelta(seconds=1))
    kubernetes.publish(late.answers)
    assert kubernetes.answers()[request_id].code is Code.NONE


def test_what_the_api_server_refuses_is_refused_with_its_words(
    kubernetes: "Kubernetes", key_of: Any
) -> None:
    request_id = kubernetes.ask(CreateTopic(name="orders"))
    kubernetes.results[key_of(1, request_id)] = WriteResult(accepted=False, message="quota!")
    kubernetes.settle()
    verdict = kubernetes.answers()[request_id]
    assert (verdict.code, verdict.message) == (Code.POLICY_VIOLATION, "quota!")


def test_a_topic_deleted_right_after_it_was_made_is_not_made_anew(
    kubernetes: "Kubernetes",
) -> None:
    request_id = kubernetes.ask(CreateTopic(name="orders"))
    for write in kubernetes.plan().writes:
        kubernetes.carry_out(write)
    kubernetes.topics.clear()
    kubernetes.settle()
    assert not kubernetes.topics
    assert request_id not in kubernetes.answers()


def test_a_change_whose_mark_was_replaced_is_not_made_anew(kubernetes: "Kubernetes") -> None:
    manifest = kubernetes.made("orders")
    request_id = kubernetes.ask(configure(retention_ms="9"))
    kubernetes.carry_out(kubernetes.plan().writes[0])
    manifest["metadata"]["annotations"] = {}  # kubectl replace, with a manifest of before
    manifest["spec"]["config"] = {"retention.ms": "1"}
    kubernetes.settle()
    verdict = kubernetes.answers()[request_id]
    assert (verdict.code, verdict.topic_uid) == (Code.NONE, manifest["metadata"]["uid"])
    assert topic(kubernetes, "orders").spec.config == {"retention.ms": "1"}


def test_nothing_is_concluded_before_everything_was_listed(kubernetes: "Kubernetes") -> None:
    kubernetes.ask(CreateTopic(name="orders"), wait_s=0)
    world = replace(kubernetes.world(), is_complete=False)
    plan = answer_requests(world, kubernetes.requests(1)[0].deadline + timedelta(seconds=1))
    assert not plan.writes
    assert not any(plan.answers.values())


def test_without_a_cluster_that_reads_clients_wait(kubernetes: "Kubernetes") -> None:
    kubernetes.ask(CreateTopic(name="orders"))
    world = replace(kubernetes.world(), cluster=None)
    deadline = kubernetes.requests(1)[0].deadline
    assert not answer_requests(world, deadline - timedelta(seconds=1)).writes
    (answer,) = answer_requests(world, deadline).answers[BrokerId(1)]
    assert answer.results[0].error_code == Code.REQUEST_TIMED_OUT
    assert "BrokerCluster" in answer.results[0].error_message


def test_while_the_cluster_is_paused_nothing_is_changed(kubernetes: "Kubernetes") -> None:
    kubernetes.cluster["metadata"]["annotations"] = {labels.PAUSE: "true"}
    verdict = kubernetes.outcome(CreateTopic(name="orders"))
    assert verdict.code is Code.POLICY_VIOLATION
    assert labels.PAUSE in verdict.message


@pytest.mark.parametrize(
    "changes",
    [{"body": "{"}, {"body": "[]"}, {"op": AdminOperation.ELECT_LEADERS}],
)
def test_a_request_that_does_not_read_is_refused(
    kubernetes: "Kubernetes", changes: Mapping[str, Any]
) -> None:
    kubernetes.ask(CreateTopic(name="orders"))
    (request,) = kubernetes.requests(1)
    kubernetes.set_requests(1, (replace(request, **changes),))
    kubernetes.settle()
    assert kubernetes.answers()[request.id].code is Code.INVALID_REQUEST


def test_an_answer_about_a_name_that_cannot_be_still_is_a_valid_answer(
    kubernetes: "Kubernetes",
) -> None:
    kubernetes.ask(CreateTopic(name="a/b"))
    kubernetes.settle()
    (answer,) = kubernetes.brokers[BrokerId(1)].spec.answers
    assert answer.error_code == Code.INVALID_TOPIC_EXCEPTION
    read = type(kubernetes.brokers[BrokerId(1)]).from_manifest(
        kubernetes.brokers[BrokerId(1)].to_manifest()
    )
    assert read.spec.answers == (answer,)
