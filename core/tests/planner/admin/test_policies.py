"""Admin clients under the topic policies of the cluster: refused as kubectl is, in its words."""

from typing import Any

import pytest

from chiplog_core.admin.answers import Verdict
from chiplog_core.admin.codes import Code
from chiplog_core.admin.config_change import Change, ConfigChange
from chiplog_core.admin.operations import ConfigureTopic, CreateTopic, GrowTopic, Operation

PARTITIONS = (
    "spec.partitions is 7, above spec.topicPolicies.maxPartitions of BrokerCluster prod, 6: set it "
    "to at most 6"
)
RETENTION = (
    "spec.config[retention.ms] is -1, above spec.topicPolicies.maxRetention of BrokerCluster prod, "
    "7d: set it to at most 604800000"
)


def set_policies(kubernetes: Any, **policies: Any) -> None:
    kubernetes.cluster["spec"]["topicPolicies"] = policies


def set_retention(value: str, *, replace: bool = False, validate_only: bool = False) -> Operation:
    changes = (ConfigChange(Change.SET, "retention.ms", value),)
    return ConfigureTopic(
        name="orders", changes=changes, replace=replace, validate_only=validate_only
    )


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("policies", "operation", "text"),
    [
        ({"maxPartitions": 6}, {"partitions": 7}, PARTITIONS),
        (
            {"minReplicas": 2},
            {},
            (
                "spec.replicas is 1, below spec.topicPolicies.minReplicas of BrokerCluster prod, "
                "2: set it to at least 2"
            ),
        ),
        ({"maxRetention": "7d"}, {"config": {"retention.ms": "-1"}}, RETENTION),
        (
            {"namePattern": r"[a-z]+\.[a-z]+"},
            {},
            (
                r"spec.topicName is orders, which does not match [a-z]+\.[a-z]+, "
                "spec.topicPolicies.namePattern of BrokerCluster prod: choose another name"
            ),
        ),
        (
            {"namespacePrefixes": [{"namespace": "kafka", "prefix": "k."}]},
            {},
            (
                "spec.topicName is orders, but spec.topicPolicies.namespacePrefixes of "
                "BrokerCluster prod requires that names of topics in namespace kafka start with "
                "k.: choose a name with that prefix"
            ),
        ),
    ],
)
def test_a_topic_that_breaks_a_policy_is_not_made(
    kubernetes: Any,
    policies: dict[str, Any],
    operation: dict[str, Any],
    text: str,
    validate_only: bool,
) -> None:
    set_policies(kubernetes, **policies)
    wanted = CreateTopic(name="orders", validate_only=validate_only, **operation)

    found = kubernetes.outcome(wanted)

    assert (found.code, found.message) == (Code.POLICY_VIOLATION, text)
    assert kubernetes.created == []


def test_a_topic_that_keeps_to_them_is_made(kubernetes: Any) -> None:
    set_policies(kubernetes, maxPartitions=6, requireNamespacePrefix=True)

    assert kubernetes.outcome(CreateTopic(name="orders", partitions=6)).code is Code.NONE
    assert kubernetes.created == ["orders"]


@pytest.mark.parametrize("validate_only", [False, True])
def test_growth_beyond_the_limit_is_refused(kubernetes: Any, validate_only: bool) -> None:
    kubernetes.made("orders", partitions=2)
    set_policies(kubernetes, maxPartitions=6)

    found = kubernetes.outcome(GrowTopic(name="orders", partitions=7, validate_only=validate_only))

    assert (found.code, found.message) == (Code.POLICY_VIOLATION, PARTITIONS)
    assert kubernetes.outcome(GrowTopic(name="orders", partitions=6)).code is Code.NONE


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("replace", [False, True])
def test_a_configuration_that_breaks_a_policy_is_refused(
    kubernetes: Any, replace: bool, validate_only: bool
) -> None:
    kubernetes.made("orders", partitions=2)
    set_policies(kubernetes, maxRetention="7d")

    found = kubernetes.outcome(set_retention("-1", replace=replace, validate_only=validate_only))

    assert (found.code, found.message) == (Code.POLICY_VIOLATION, RETENTION)
    assert kubernetes.outcome(set_retention("1000")).code is Code.NONE


def test_a_topic_that_was_there_before_a_policy_can_be_configured_and_not_made_worse(
    kubernetes: Any,
) -> None:
    kubernetes.made("orders", count=8, partitions=8)
    set_policies(kubernetes, maxPartitions=6, namePattern="x.*")

    assert kubernetes.outcome(set_retention("1000")) == Verdict(
        topic_uid=kubernetes.topics["kafka", "orders"]["metadata"]["uid"]
    )
    found = kubernetes.outcome(GrowTopic(name="orders", partitions=9))
    assert found.code is Code.POLICY_VIOLATION
    assert found.message.endswith("set it to at most 6, or leave it as it is")


# -- how many there may be


def test_requests_of_one_moment_together_stay_within_the_clusters_limit(kubernetes: Any) -> None:
    kubernetes.cluster["spec"]["config"] |= {
        "chiplog.max.topics": "3",
        "chiplog.max.partitions": "20",
    }
    asked = [
        kubernetes.ask(CreateTopic(name=f"t{number}", partitions=4), 1 + number % 3)
        for number in range(9)
    ]
    plan = kubernetes.plan()
    assert len(plan.writes) == 3
    kubernetes.publish(plan.answers)
    said = kubernetes.answers().values()
    assert len(said) == len(asked) - 3
    assert {one.code for one in said} == {Code.POLICY_VIOLATION}
    assert all("chiplog.max.topics, which is 3" in one.message for one in said)


def test_growing_counts_what_is_added(kubernetes: Any) -> None:
    kubernetes.cluster["spec"]["config"] |= {"chiplog.max.partitions": "10"}
    kubernetes.made("orders", 8)
    verdict = kubernetes.outcome(GrowTopic(name="orders", partitions=11))
    assert verdict.code == Code.POLICY_VIOLATION
    assert "chiplog.max.partitions, which is 10" in verdict.message
    assert kubernetes.outcome(GrowTopic(name="orders", partitions=10)).code == Code.NONE
