"""Whether a ConsumerGroup may scale a Deployment, and what a user reads where it may not."""

import pytest

from chiplog_core.group_watch import deployments
from chiplog_core.group_watch.scaling import Facts
from chiplog_core.model.conditions import ConditionStatus, Verdict
from chiplog_core.naming import labels
from tests.group_watch.cluster import group_object

SCALE = {"deploymentRef": {"name": "readers"}, "max": 3, "lagPerReplica": 100}


def verdict_of(verdict: Verdict) -> tuple[str, ConditionStatus, str]:
    return verdict.type, verdict.status, verdict.reason


def test_only_who_asks_for_it_in_a_sound_spec_and_is_not_paused_scales() -> None:
    paused = {"annotations": {labels.PAUSE: "true"}}

    assert deployments.may_scale(group_object(scale=SCALE))
    assert not deployments.may_scale(group_object())
    assert not deployments.may_scale(group_object(meta=paused, scale=SCALE))
    assert not deployments.may_scale(group_object(scale={**SCALE, "min": 5}))


def test_a_problem_elsewhere_in_the_spec_does_not_stop_scaling() -> None:
    assert deployments.may_scale(group_object(scale=SCALE, maxLag={}))


def test_a_deployment_agrees_by_naming_the_consumer_group() -> None:
    group = group_object("billing")

    assert deployments.agrees({labels.SCALED_BY: "billing"}, group)
    assert not deployments.agrees({labels.SCALED_BY: "others"}, group)
    assert not deployments.agrees({}, group)


@pytest.mark.parametrize(
    ("annotations", "has"),
    [({}, "is missing"), ({labels.SCALED_BY: "others"}, "names others")],
)
def test_without_that_a_user_reads_what_the_annotation_says_and_should(
    annotations: dict[str, str], has: str
) -> None:
    verdict = deployments.not_agreed(annotations, group_object("billing"), "readers")

    assert verdict_of(verdict) == ("Scaled", ConditionStatus.FALSE, "NotAgreed")
    assert verdict.message == (
        f"Deployment readers does not allow scaling: its annotation {labels.SCALED_BY} {has}. "
        "Set it to billing, or remove spec.scale"
    )


def test_an_autoscaler_goes_first() -> None:
    verdict = deployments.autoscaled("by-cpu", "readers")

    assert verdict_of(verdict) == ("Scaled", ConditionStatus.FALSE, "ScaledByAnother")
    assert verdict.message == (
        "HorizontalPodAutoscaler by-cpu scales Deployment readers too: delete it, or remove "
        "spec.scale"
    )


def test_a_deployment_that_is_missing_or_forbidden_is_named_with_a_remedy() -> None:
    missing, forbidden = deployments.missing("apps", "readers"), deployments.forbidden("no right")

    assert verdict_of(missing) == ("Scaled", ConditionStatus.FALSE, "DeploymentNotFound")
    assert missing.message == (
        "there is no Deployment readers in namespace apps: create it, or correct "
        "spec.scale.deploymentRef"
    )
    assert verdict_of(forbidden) == ("Scaled", ConditionStatus.FALSE, "Forbidden")
    assert forbidden.message == (
        "the operator may not scale the Deployment of spec.scale: grant its ServiceAccount the "
        "permissions in docs/permissions.md: no right"
    )


@pytest.mark.parametrize(
    ("lag", "partitions", "what"),
    [(None, 6, "lag"), (None, None, "lag"), (5, None, "number of partitions")],
)
def test_what_is_not_known_makes_the_condition_unknown(
    lag: int | None, partitions: int | None, what: str
) -> None:
    verdict = deployments.scaled(Facts(replicas=1, partitions=partitions, lag=lag))

    assert verdict_of(verdict) == ("Scaled", ConditionStatus.UNKNOWN, "LagUnknown")
    assert verdict.message == (
        f"the group's {what} is unknown, so the Deployment is not scaled by the lag until the "
        "brokers report it; see the condition Ready"
    )


def test_the_condition_is_the_same_for_every_number_of_replicas() -> None:
    verdicts = {
        deployments.scaled(Facts(replicas=replicas, partitions=6, lag=lag))
        for replicas, lag in [(1, 0), (3, 250), (6, 10_000)]
    }

    assert [verdict_of(verdict) for verdict in verdicts] == [
        ("Scaled", ConditionStatus.TRUE, "Scaled")
    ]
