"""Rules for rebalances, each with what a user reads."""

from typing import Any

import pytest

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.rebalance import Rebalance
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate import unbuilt
from chiplog_core.validate.rebalance import (
    check_rebalance,
    check_rebalance_change,
    check_rebalance_in_cluster,
)


def rebalance(namespace: str = "home", **spec: Any) -> Rebalance:
    return Rebalance.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "Rebalance",
            "metadata": {"name": "even", "namespace": namespace},
            "spec": {"clusterRef": {"name": "demo", "namespace": "home"}, **spec},
        }
    )


def texts(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


@pytest.fixture
def everything_built(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no feature were missing, to see the other rules alone."""
    monkeypatch.setattr(unbuilt, "UNBUILT", {})


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"excludedTopics": "logs-.*", "timeLimit": "1h"},
        {"spark": {"executor": {"memory": "2g"}}},
        {"measure": "Brokers", "timeLimit": "5m"},
    ],
)
def test_a_rebalance_as_users_write_it_has_no_problem(spec: dict[str, Any]) -> None:
    assert check_rebalance(rebalance(**spec)) == ()


def test_settings_of_a_spark_job_need_one() -> None:
    found = check_rebalance(
        rebalance(measure="Brokers", bytesPerSecond=1, spark={"executor": {"memory": "2g"}})
    )
    assert texts(found) == [
        f"spec.{field} is set, but is only for spec.measure Spark: remove it, or set spec.measure "
        "to Spark"
        for field in ("spark", "bytesPerSecond")
    ]


def test_the_mode_full_covers_all_brokers() -> None:
    assert texts(check_rebalance(rebalance(brokers=[1]))) == [
        "spec.brokers is set, but mode full covers all brokers: remove it, or set spec.mode"
    ]


@pytest.mark.usefixtures("everything_built")
def test_every_other_mode_is_about_some_brokers() -> None:
    assert check_rebalance(rebalance(mode="add-brokers", brokers=[4])) == ()
    assert texts(check_rebalance(rebalance(mode="remove-brokers"))) == [
        (
            "spec.brokers is missing, but mode remove-brokers needs it: "
            "list the brokers to add or remove"
        )
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "logs-[",
        "(" * 500,  # nested too deep for the interpreter
        "a{99999999999999999999}",  # a count too large for its engine
    ],
)
def test_excluded_topics_are_a_regular_expression(pattern: str) -> None:
    (problem,) = check_rebalance(rebalance(excludedTopics=pattern))

    assert problem.field == "spec.excludedTopics"
    assert problem.message.startswith("is not a regular expression (")
    assert problem.remedy == "write one like logs-.*"


def test_measuring_gets_some_time() -> None:
    assert texts(check_rebalance(rebalance(timeLimit="0s"))) == [
        "spec.timeLimit is zero: raise it, or remove it for no limit"
    ]


def test_the_settings_of_its_job_have_the_rules_of_the_clusters() -> None:
    (problem,) = check_rebalance(rebalance(spark={"driver": {"memory": "1m"}}))

    assert problem.field == "spec.spark.driver.memory"


def test_what_is_not_built_yet() -> None:
    problems = check_rebalance(rebalance(mode="remove-disks", brokers=[4]))

    assert {problem.reason for problem in problems} == {Reason.NOT_SUPPORTED}
    assert [problem.field for problem in problems] == ["spec.mode"]


def test_what_moves_replicas() -> None:
    moving = rebalance(
        mode="add-brokers",
        brokers=[4],
        goals=["DiskUsageDistributionGoal"],
        skipHardGoalCheck=True,
        concurrentPartitionMovementsPerBroker=1,
    )

    assert check_rebalance(moving) == ()


def test_another_namespace_must_be_allowed() -> None:
    cluster = BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "home"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}},
        }
    )

    assert check_rebalance_in_cluster(rebalance(), cluster) == ()
    assert texts(check_rebalance_in_cluster(rebalance("away"), cluster)) == [
        (
            "spec.clusterRef names demo, which does not accept rebalances from namespace away: "
            "add away to that cluster's spec.allowedTopicNamespaces"
        )
    ]


def test_its_cluster_cannot_be_changed() -> None:
    assert check_rebalance_change(rebalance(), rebalance(approvedProposal="even-1")) == ()
    assert texts(check_rebalance_change(rebalance(), rebalance(clusterRef={"name": "other"}))) == [
        (
            "spec.clusterRef cannot be changed: "
            "delete this Rebalance and create one for the other cluster"
        )
    ]
