"""Topics under the policies of their cluster: refused, tolerated, and let go on."""

from dataclasses import replace
from typing import Any

from chiplog_core.model.conditions import Condition, ConditionStatus
from chiplog_core.model.topic import Topic
from chiplog_core.naming import labels
from tests.planner.model import Kubernetes
from tests.planner.objects import HOME, of_users, topic

VIOLATION = "PolicyViolation"


def running(**policies: Any) -> Kubernetes:
    kubernetes = Kubernetes(3, topicPolicies=policies)
    kubernetes.run()
    return kubernetes


def tighten(kubernetes: Kubernetes, **policies: Any) -> None:
    """Other policies, as `kubectl apply` sets them."""
    kubernetes.configure(topicPolicies=policies)
    kubernetes.settle()


def applied(kubernetes: Kubernetes, one: Topic) -> None:
    kubernetes.apply(one)
    kubernetes.settle()


def condition(kubernetes: Kubernetes, type_: str, name: str = "orders") -> Condition | None:
    found = (one for one in kubernetes.topics[name].status.conditions if one.type == type_)
    return next(found, None)


def ready(kubernetes: Kubernetes, name: str = "orders") -> tuple[ConditionStatus, str]:
    found = condition(kubernetes, "Ready", name)
    assert found is not None
    return found.status, found.reason


def count(kubernetes: Kubernetes, name: str = "orders") -> int:
    return len(kubernetes.maps[name].spec.generations[0].partitions)


def test_nothing_is_made_of_a_topic_that_breaks_a_policy() -> None:
    kubernetes = running(maxPartitions=6, minReplicas=2)
    applied(kubernetes, topic(partitions=7, replicas=1))

    assert of_users(kubernetes.maps) == {}
    assert ready(kubernetes) == (ConditionStatus.FALSE, VIOLATION)
    found = condition(kubernetes, "Ready")
    assert found is not None
    assert found.message == (
        "spec.partitions is 7, above spec.topicPolicies.maxPartitions of BrokerCluster demo, 6: "
        "set it to at most 6; spec.replicas is 1, below spec.topicPolicies.minReplicas of "
        "BrokerCluster demo, 2: set it to at least 2"
    )


def test_it_is_made_when_it_keeps_to_them() -> None:
    kubernetes = running(maxPartitions=6)
    applied(kubernetes, topic(partitions=7))
    applied(kubernetes, topic(partitions=6))

    assert count(kubernetes) == 6
    assert ready(kubernetes) == (ConditionStatus.TRUE, "Ready")


def test_it_is_made_when_they_are_loosened() -> None:
    kubernetes = running(maxPartitions=6)
    applied(kubernetes, topic(partitions=7))
    tighten(kubernetes, maxPartitions=7)

    assert count(kubernetes) == 7


def test_what_the_cluster_gives_by_default_is_judged_too() -> None:
    kubernetes = running(minReplicas=2, maxRetention="1d")
    applied(kubernetes, topic())

    assert of_users(kubernetes.maps) == {}
    found = condition(kubernetes, "Ready")
    assert found is not None
    assert "spec.replicas is 1" in found.message
    assert "spec.config[retention.ms] is 604800000" in found.message


def test_a_topic_that_was_there_before_the_policy_runs_on_with_a_warning() -> None:
    kubernetes = running()
    applied(kubernetes, topic(partitions=7))
    tighten(kubernetes, maxPartitions=6, namePattern="x.*")

    assert ready(kubernetes) == (ConditionStatus.TRUE, "Ready")
    warning = condition(kubernetes, "Warning")
    assert warning is not None
    assert warning.reason == VIOLATION
    assert warning.message.startswith("spec.topicName is orders, which does not match x.*, ")
    assert warning.message.endswith("stays in force; a change that makes it worse is refused")

    applied(kubernetes, topic(partitions=7, config={"retention.ms": 1000}))
    assert kubernetes.maps["orders"].spec.config == {"retention.ms": "1000"}
    assert ready(kubernetes) == (ConditionStatus.TRUE, "Ready")


def test_what_would_make_it_worse_is_refused_and_the_last_good_state_runs_on() -> None:
    kubernetes = running()
    applied(kubernetes, topic(partitions=7))
    tighten(kubernetes, maxPartitions=6, maxRetention="9d")
    applied(kubernetes, topic(partitions=8, config={"retention.ms": 1000}))

    assert count(kubernetes) == 7
    assert kubernetes.maps["orders"].spec.config == {}
    assert ready(kubernetes) == (ConditionStatus.FALSE, VIOLATION)
    assert condition(kubernetes, "Warning") is None

    applied(kubernetes, topic(partitions=7, config={"retention.ms": -1}))
    assert kubernetes.maps["orders"].spec.config == {}
    assert ready(kubernetes) == (ConditionStatus.FALSE, VIOLATION)
    warning = condition(kubernetes, "Warning")
    assert warning is not None
    assert warning.message.startswith("spec.partitions is 7")


def test_a_default_that_the_platform_changes_is_no_fault_of_a_topic() -> None:
    kubernetes = running(maxRetention="9d")
    applied(kubernetes, topic(partitions=1))
    kubernetes.configure(config={"log.retention.ms": -1}, topicPolicies={"maxRetention": "9d"})
    kubernetes.settle()
    applied(kubernetes, topic(partitions=2))

    assert count(kubernetes) == 2
    assert ready(kubernetes) == (ConditionStatus.TRUE, "Ready")
    warning = condition(kubernetes, "Warning")
    assert warning is not None
    assert "spec.config[retention.ms] is -1" in warning.message


def test_a_lost_map_is_made_anew_whatever_the_policies_say() -> None:
    kubernetes = running()
    applied(kubernetes, topic(partitions=7))
    tighten(kubernetes, maxPartitions=6)
    del kubernetes.maps["orders"]
    kubernetes.settle()

    assert ready(kubernetes)[1] != VIOLATION


def test_records_that_were_left_are_taken_over_only_under_a_name_that_is_allowed() -> None:
    kubernetes = Kubernetes(3, allowedTopicNamespaces=["*"])
    kubernetes.run()
    applied(kubernetes, topic(partitions=7, deletionPolicy="Retain"))
    assert kubernetes.topics["orders"].metadata.namespace == HOME
    left = kubernetes.maps["orders"]
    kubernetes.maps["orders"] = replace(left, spec=replace(left.spec, owner_uid="gone"))
    tighten(kubernetes, maxPartitions=6, namePattern="o.*")

    assert ready(kubernetes) == (ConditionStatus.TRUE, "Ready")

    kubernetes.maps["orders"] = replace(left, spec=replace(left.spec, owner_uid="gone"))
    prefixes = [{"namespace": HOME, "prefix": "home."}]
    tighten(kubernetes, namespacePrefixes=prefixes)

    assert ready(kubernetes) == (ConditionStatus.FALSE, VIOLATION)
    assert kubernetes.maps["orders"].spec.owner_uid == "gone"


def test_policies_that_do_not_read_let_nothing_new_in_and_what_there_is_run_on() -> None:
    kubernetes = running()
    applied(kubernetes, topic(partitions=1))
    tighten(kubernetes, namePattern="(")
    applied(kubernetes, topic("payments", partitions=1))
    applied(kubernetes, topic(partitions=2))

    assert count(kubernetes) == 2
    assert "payments" not in kubernetes.maps
    assert ready(kubernetes, "payments") == (ConditionStatus.FALSE, VIOLATION)


def test_a_refused_topic_can_be_deleted() -> None:
    kubernetes = running(maxPartitions=6)
    applied(kubernetes, topic(partitions=7))
    assert labels.TOPIC_FINALIZER in kubernetes.topics["orders"].metadata.finalizers
    kubernetes.delete("orders")
    kubernetes.settle()

    assert "orders" not in kubernetes.topics
