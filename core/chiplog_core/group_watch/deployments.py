"""Who scales a Deployment: one ConsumerGroup, and nobody besides. What is told where it cannot be.

Two that scale the same one would never agree, so that pods would come and go for ever: whoever is
not alone leaves it alone, and says so.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from chiplog_core.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.group_watch.scaling import Facts
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.planner.settings import paused
from chiplog_core.planner.verdicts import fails, holds
from chiplog_core.validate.consumer_group import check_group


def may_scale(group: ConsumerGroup) -> bool:
    """Whether a ConsumerGroup that speaks for its group wants a Deployment scaled, and says it
    right."""
    if group.spec.scale is None or paused(group.metadata):
        return False
    return not any(one.field.startswith("spec.scale") for one in check_group(group))


def rival_of(group: ConsumerGroup, everyone: Iterable[ConsumerGroup]) -> ConsumerGroup | None:
    """The ConsumerGroup, older than this one, that names the same Deployment; whichever cluster
    it is of."""
    older = [
        one
        for one in everyone
        if one.metadata.uid != group.metadata.uid
        and one.metadata.deletion_timestamp is None
        and _target(one) == _target(group)
        and _age(one) < _age(group)
    ]
    return min(older, key=_age, default=None)


def _target(group: ConsumerGroup) -> tuple[str, str] | None:
    scale = group.spec.scale
    return None if scale is None else (group.metadata.namespace, scale.deployment_ref.name)


def _age(group: ConsumerGroup) -> tuple[datetime, str]:
    meta = group.metadata
    return meta.creation_timestamp or datetime.max.replace(tzinfo=UTC), meta.name


def rivalled(rival: ConsumerGroup, deployment: str) -> Verdict:
    """Another ConsumerGroup was first."""
    message = (
        f"ConsumerGroup {rival.metadata.name} scales Deployment {deployment} too, and came first: "
        "remove spec.scale from one of the two"
    )
    return fails(ConditionType.SCALED, "ScaledByAnother", message)


def autoscaled(autoscaler: str, deployment: str) -> Verdict:
    """A HorizontalPodAutoscaler has the Deployment."""
    message = (
        f"HorizontalPodAutoscaler {autoscaler} scales Deployment {deployment} too: delete it, or "
        "remove spec.scale"
    )
    return fails(ConditionType.SCALED, "ScaledByAnother", message)


def missing(namespace: str, deployment: str) -> Verdict:
    """There is nothing to scale."""
    message = (
        f"there is no Deployment {deployment} in namespace {namespace}: make it, or correct "
        "spec.scale.deploymentRef"
    )
    return fails(ConditionType.SCALED, "DeploymentNotFound", message)


def forbidden(error: str) -> Verdict:
    """The operator's rights do not reach so far."""
    return fails(
        ConditionType.SCALED,
        "Forbidden",
        f"grant the operator what docs/permissions.md lists: {error}",
    )


def scaled(facts: Facts) -> Verdict:
    """Nothing is in the way. Not how many: that would be a write of the status for each change."""
    if facts.lag is None or facts.partitions is None:
        what = "lag" if facts.lag is None else "number of partitions"
        return Verdict(
            type=ConditionType.SCALED.value,
            status=ConditionStatus.UNKNOWN,
            reason="LagUnknown",
            message=f"the group's {what} is not known: the Deployment is left as it is",
        )
    return holds(ConditionType.SCALED, "Scaled")
