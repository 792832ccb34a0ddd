"""Rules for consumer groups, each with what a user reads."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.naming.api import API_VERSION
from chiplog_core.problems import Problem
from chiplog_core.validate.consumer_group import (
    check_group,
    check_group_change,
    check_group_in_cluster,
)


def group(name: str = "readers", namespace: str = "home", **spec: object) -> ConsumerGroup:
    return ConsumerGroup.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "ConsumerGroup",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterRef": {"name": "demo"}, **spec},
        }
    )


def texts(problems: tuple[Problem, ...]) -> list[str]:
    return [str(problem) for problem in problems]


def test_a_plain_group_has_no_problem() -> None:
    assert check_group(group()) == ()
    assert check_group_change(group(), group()) == ()


@pytest.mark.parametrize(
    ("strategy", "parameter"),
    [
        ("to-offset", {"offset": 5}),
        ("to-datetime", {"datetime": "2026-01-31T12:00:00Z"}),
        ("by-duration", {"duration": "2h"}),
        ("shift-by", {"shiftBy": -5}),
        ("to-earliest", {}),
        ("to-latest", {}),
        ("to-current", {}),
    ],
)
def test_every_strategy_with_what_it_needs(strategy: str, parameter: dict[str, Any]) -> None:
    assert check_group(group(reset={"id": "one", "strategy": strategy, **parameter})) == ()


def test_a_strategy_without_what_it_needs() -> None:
    reset = {"id": "one", "strategy": "to-offset", "duration": "2h"}

    assert texts(check_group(group(reset=reset))) == [
        "spec.reset.offset is missing, but strategy to-offset needs it: add it",
        "spec.reset.duration is set, but strategy to-offset does not use it: remove it",
    ]


def test_a_lag_objective_says_something() -> None:
    assert texts(check_group(group(maxLag={}))) == [
        "spec.maxLag is empty: set records or seconds, or both"
    ]
    assert check_group(group(maxLag={"records": 0})) == ()
    assert check_group(group(maxLag={"seconds": 5})) == ()


def scale(**fields: int) -> dict[str, object]:
    return {"deploymentRef": {"name": "readers"}, "lagPerReplica": 100, **fields}


def test_the_fewest_pods_are_at_most_the_most() -> None:
    assert texts(check_group(group(scale=scale(min=5, max=3)))) == [
        "spec.scale.min is 5, above max, which is 3: lower it, or raise spec.scale.max"
    ]
    assert check_group(group(scale=scale(min=3, max=3))) == ()


def test_another_namespace_must_be_allowed() -> None:
    cluster = BrokerCluster.from_manifest(
        {
            "apiVersion": API_VERSION,
            "kind": "BrokerCluster",
            "metadata": {"name": "demo", "namespace": "home"},
            "spec": {"replicas": 3, "storage": {"size": "1Gi"}},
        }
    )

    assert check_group_in_cluster(group(), cluster) == ()
    assert texts(check_group_in_cluster(group(namespace="away"), cluster)) == [
        (
            "spec.clusterRef names demo, which does not accept ConsumerGroups from namespace away: "
            "add away to that cluster's spec.allowedTopicNamespaces"
        )
    ]


def test_who_a_group_is_cannot_be_changed() -> None:
    elsewhere = group(groupId="others", clusterRef={"name": "other"})

    assert texts(check_group_change(group(), elsewhere)) == [
        (
            "spec.clusterRef cannot be changed: "
            "delete this ConsumerGroup and create one for the other cluster"
        ),
        "spec.groupId cannot be changed: create another ConsumerGroup; a group cannot be renamed",
    ]


def reset(**fields: object) -> ConsumerGroup:
    return group(reset={"id": "one", "strategy": "to-offset", "offset": 5, **fields})


@pytest.mark.parametrize(
    "another",
    [
        reset(offset=6),
        reset(topics=[{"topic": "orders"}]),
        reset(strategy="to-latest", offset=None),
    ],
)
def test_another_reset_needs_another_id(another: ConsumerGroup) -> None:
    assert texts(check_group_change(reset(), another)) == [
        (
            "spec.reset was changed under the same id: "
            "set another spec.reset.id: each id runs only once"
        )
    ]


@pytest.mark.parametrize(
    "later",
    [
        reset(),
        reset(dryRun=False),
        reset(whileActive="Fence"),
        reset(id="two", offset=6),
        group(),
    ],
)
def test_a_plan_may_be_run_and_a_new_id_may_go_anywhere(later: ConsumerGroup) -> None:
    assert check_group_change(reset(), later) == ()
    assert check_group_change(group(), later) == ()


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_group_can_be_judged(
    data: st.DataObject, values_of: Callable[[type[Any]], st.SearchStrategy[Any]]
) -> None:
    before, after = data.draw(values_of(ConsumerGroup)), data.draw(values_of(ConsumerGroup))

    for problem in (*check_group(after), *check_group_change(before, after)):
        assert problem.field.startswith("spec")
        assert problem.message
        assert problem.remedy
