"""Rules for verifications, each with what a user reads."""

from typing import Any

import pytest

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.verification import Verification
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate.verification import (
    check_verification,
    check_verification_change,
    check_verification_in_cluster,
)


def verification(namespace: str = "home", **spec: Any) -> Verification:
    return Verification.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "Verification",
            "metadata": {"name": "nightly", "namespace": namespace},
            "spec": {"clusterRef": {"name": "demo", "namespace": "home"}, **spec},
        }
    )


def cluster(**spec: Any) -> BrokerCluster:
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


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"topics": ["orders"]},
        {"topicSelector": {"matchLabels": {"team": "billing"}}},
        {"schedule": "0 3 * * 0", "timeLimit": "2h"},
        {"spark": {"driver": {"memory": "512m"}}},
    ],
)
def test_a_verification_as_users_write_it_has_no_problem(spec: dict[str, Any]) -> None:
    assert check_verification(verification(**spec)) == ()


def test_topics_are_named_or_selected_and_not_both() -> None:
    both = verification(topics=["orders"], topicSelector={"matchLabels": {"team": "billing"}})

    assert texts(check_verification(both)) == [
        "spec.topicSelector is set together with spec.topics: remove one of them"
    ]


def test_a_selector_without_labels_would_verify_nothing() -> None:
    assert texts(check_verification(verification(topicSelector={"matchLabels": {}}))) == [
        (
            "spec.topicSelector.matchLabels selects nothing: "
            "add a label, or remove topicSelector to verify all topics"
        )
    ]


def test_a_schedule_is_one_that_cron_would_carry_out() -> None:
    (problem,) = check_verification(verification(schedule="0 0 30 2 *"))

    assert problem.field == "spec.schedule"
    assert "never matches" in problem.message
    assert problem.remedy == "write minute, hour, day, month and day of the week, like 0 3 * * 0"


def test_a_run_gets_some_time() -> None:
    assert texts(check_verification(verification(timeLimit="0s"))) == [
        "spec.timeLimit is zero: raise it, or remove it for no limit"
    ]


def test_the_settings_of_its_job_have_the_rules_of_the_clusters() -> None:
    (problem,) = check_verification(verification(spark={"driver": {"memory": "1m"}}))

    assert problem.field == "spec.spark.driver.memory"


def test_all_problems_are_named_at_once() -> None:
    wrong = verification(topicSelector={"matchLabels": {}}, schedule="0 0 30 2 *", timeLimit="0s")

    assert [problem.field for problem in check_verification(wrong)] == [
        "spec.topicSelector.matchLabels",
        "spec.schedule",
        "spec.timeLimit",
    ]


def test_another_namespace_must_be_allowed() -> None:
    away = verification("away")

    assert check_verification_in_cluster(verification(), cluster()) == ()
    assert check_verification_in_cluster(away, cluster(allowedTopicNamespaces=["away"])) == ()
    assert texts(check_verification_in_cluster(away, cluster())) == [
        (
            "spec.clusterRef names demo, which does not accept verifications from namespace away: "
            "add away to that cluster's spec.allowedTopicNamespaces"
        )
    ]


def test_only_the_clusters_own_namespace_may_have_replicas_repaired() -> None:
    allowing = cluster(allowedTopicNamespaces=["away"])
    (problem,) = check_verification_in_cluster(verification("away", repair="Refetch"), allowing)

    assert check_verification_in_cluster(verification(repair="Refetch"), allowing) == ()
    assert problem.reason is Reason.NOT_ALLOWED
    assert str(problem) == (
        "spec.repair is Refetch, but the cluster is in another namespace, home: "
        "set it to None, or create the Verification in namespace home"
    )


def test_its_cluster_cannot_be_changed() -> None:
    before = verification()
    elsewhere = verification(clusterRef={"name": "other"})

    assert check_verification_change(before, verification(topics=["orders"])) == ()
    assert texts(check_verification_change(before, elsewhere)) == [
        (
            "spec.clusterRef cannot be changed: "
            "delete this Verification and create one for the other cluster"
        )
    ]
