"""Which ConsumerGroup may scale a Deployment, and the condition Scaled.

The operator may scale every Deployment, but a user who writes a ConsumerGroup may not. So the
Deployment must name, with an annotation, the ConsumerGroup that scales it: a user who may write the
annotation may scale the Deployment anyway. It can name only one: two ConsumerGroups would set
different numbers of replicas in turn. For the same reason a Deployment is not scaled if a
HorizontalPodAutoscaler scales it.
"""

from collections.abc import Mapping

from chiplog_core.group_watch.scaling import Facts
from chiplog_core.model.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.verdicts import fails, holds
from chiplog_core.naming import labels
from chiplog_core.observed.settings import paused
from chiplog_core.validate.consumer_group import check_group


def may_scale(group: ConsumerGroup) -> bool:
    """Whether the object asks for a Deployment to be scaled, in a spec without problems, and is
    not paused."""
    if group.spec.scale is None or paused(group.metadata):
        return False
    return not any(problem.field.startswith("spec.scale") for problem in check_group(group))


def autoscaled(autoscaler: str, deployment: str) -> Verdict:
    """The verdict if a HorizontalPodAutoscaler already scales the Deployment."""
    message = (
        f"HorizontalPodAutoscaler {autoscaler} scales Deployment {deployment} too: delete it, or "
        "remove spec.scale"
    )
    return fails(ConditionType.SCALED, "ScaledByAnother", message)


def agrees(annotations: Mapping[str, str], group: ConsumerGroup) -> bool:
    """Whether a Deployment's annotations allow this ConsumerGroup to scale it."""
    return annotations.get(labels.SCALED_BY) == group.metadata.name


def not_agreed(annotations: Mapping[str, str], group: ConsumerGroup, deployment: str) -> Verdict:
    """The verdict if the Deployment's annotation does not name this ConsumerGroup."""
    named = annotations.get(labels.SCALED_BY)
    flaw = f"names {named}" if named is not None else "is missing"
    message = (
        f"Deployment {deployment} does not allow scaling: its annotation {labels.SCALED_BY} "
        f"{flaw}. Set it to {group.metadata.name}, or remove spec.scale"
    )
    return fails(ConditionType.SCALED, "NotAgreed", message)


def missing(namespace: str, deployment: str) -> Verdict:
    """The verdict if there is no such Deployment."""
    message = (
        f"there is no Deployment {deployment} in namespace {namespace}: create it, or correct "
        "spec.scale.deploymentRef"
    )
    return fails(ConditionType.SCALED, "DeploymentNotFound", message)


def forbidden(error: str) -> Verdict:
    """The verdict if RBAC does not allow the operator to scale the Deployment."""
    return fails(
        ConditionType.SCALED,
        "Forbidden",
        "the operator may not scale the Deployment of spec.scale: grant its ServiceAccount the "
        f"permissions in docs/permissions.md: {error}",
    )


def scaled(facts: Facts) -> Verdict:
    """The verdict for the condition Scaled if nothing prevents scaling. It is True, or Unknown with
    the reason LagUnknown while the lag or the number of partitions is not known: then the lag does
    not change the number of replicas.

    The message does not contain the number of replicas, because each change of that number would
    cause a write of the status.
    """
    if facts.lag is None or facts.partitions is None:
        unknown = "lag" if facts.lag is None else "number of partitions"
        return Verdict(
            type=ConditionType.SCALED.value,
            status=ConditionStatus.UNKNOWN,
            reason="LagUnknown",
            message=f"the group's {unknown} is unknown, so the Deployment is not scaled by the lag "
            "until the brokers report it; see the condition Ready",
        )
    return holds(ConditionType.SCALED, "Scaled")
