"""Rules for consumer groups."""

from collections.abc import Iterator
from dataclasses import replace

from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.consumer_group import ConsumerGroup, Reset, ResetStrategy, WhileActive
from chiplog_core.problems import Problem, Reason

PARAMETER_OF = {
    ResetStrategy.TO_OFFSET: "offset",
    ResetStrategy.TO_DATETIME: "datetime",
    ResetStrategy.BY_DURATION: "duration",
    ResetStrategy.SHIFT_BY: "shiftBy",
}
"""The field of a reset with the parameter of its strategy; the other strategies have none."""


def check_group(group: ConsumerGroup) -> tuple[Problem, ...]:
    """Problems with a ConsumerGroup itself."""
    return tuple(problem for rule in (_reset, _max_lag, _scale) for problem in rule(group))


def check_group_in_cluster(group: ConsumerGroup, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with a ConsumerGroup in the cluster that it names."""
    namespace = group.metadata.namespace
    if cluster.allows(namespace):
        return ()
    return (
        Problem(
            "spec.clusterRef",
            f"names {cluster.metadata.name}, which does not accept ConsumerGroups from namespace "
            f"{namespace}",
            f"add {namespace} to that cluster's spec.allowedTopicNamespaces",
        ),
    )


def check_group_permissions(group: ConsumerGroup, cluster: BrokerCluster) -> tuple[Problem, ...]:
    """Problems with the fields of a ConsumerGroup that would change the group, if its namespace may
    not change this group."""
    namespace = group.metadata.namespace
    prefix = cluster.group_prefix(namespace)
    if group.group_id.startswith(prefix):
        return ()
    message = (
        f"would change group {group.group_id} of BrokerCluster {cluster.metadata.name}, but "
        f"namespace {namespace} may change only groups that start with {prefix}"
    )
    remedy = (
        "remove it, create the ConsumerGroup in the cluster's namespace, or let the cluster's "
        "owner set another prefix in spec.consumerGroups.namespacePrefixes"
    )
    features = (
        ("spec.reset", group.spec.reset is not None),
        ("spec.offsetRetention", group.spec.offset_retention is not None),
    )
    return tuple(
        Problem(field, message, remedy, Reason.NOT_ALLOWED)
        for field, is_asked in features
        if is_asked
    )


def check_group_change(before: ConsumerGroup, after: ConsumerGroup) -> tuple[Problem, ...]:
    """Problems with changing a ConsumerGroup from `before` to `after`."""
    problems = []
    if before.spec.cluster_ref != after.spec.cluster_ref:
        remedy = "delete this ConsumerGroup and create one for the other cluster"
        problems.append(Problem("spec.clusterRef", "cannot be changed", remedy))
    if before.group_id != after.group_id:
        remedy = "create another ConsumerGroup; a group cannot be renamed"
        problems.append(Problem("spec.groupId", "cannot be changed", remedy))
    if _is_another_reset(before.spec.reset, after.spec.reset):
        remedy = "set another spec.reset.id: each id runs only once"
        problems.append(Problem("spec.reset", "was changed under the same id", remedy))
    return tuple(problems)


def _is_another_reset(before: Reset | None, after: Reset | None) -> bool:
    """Whether a reset keeps its id but moves to other offsets. A change from a dry run to a real
    one is allowed."""
    if before is None or after is None or before.id != after.id:
        return False
    return _offsets_part(before) != _offsets_part(after)


def _offsets_part(reset: Reset) -> Reset:
    """The reset with fixed values in the fields that do not affect the new offsets."""
    return replace(reset, dry_run=True, while_active=WhileActive.REFUSE)


def _reset(group: ConsumerGroup) -> Iterator[Problem]:
    """Problems with the parameters of a reset."""
    reset = group.spec.reset
    if reset is None:
        return
    given = {
        "offset": reset.offset,
        "datetime": reset.datetime,
        "duration": reset.duration,
        "shiftBy": reset.shift_by,
    }
    parameter = PARAMETER_OF.get(reset.strategy)
    for name, value in given.items():
        if value is not None and name != parameter:
            message = f"is set, but strategy {reset.strategy} does not use it"
            yield Problem(f"spec.reset.{name}", message, "remove it")
        if value is None and name == parameter:
            message = f"is missing, but strategy {reset.strategy} needs it"
            yield Problem(f"spec.reset.{name}", message, "add it")


def _max_lag(group: ConsumerGroup) -> Iterator[Problem]:
    """Problems with the limits of the lag."""
    max_lag = group.spec.max_lag
    if max_lag is not None and max_lag.records is None and max_lag.seconds is None:
        yield Problem("spec.maxLag", "is empty", "set records or seconds, or both")


def _scale(group: ConsumerGroup) -> Iterator[Problem]:
    """Problems with the scaling of the consumers' Deployment."""
    scale = group.spec.scale
    if scale is not None and scale.min > scale.max:
        message = f"is {scale.min}, above max, which is {scale.max}"
        yield Problem("spec.scale.min", message, "lower it, or raise spec.scale.max")
