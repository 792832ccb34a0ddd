"""What the status of a User says."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from chiplog_core.manifest.reading import Unknown, read
from chiplog_core.manifest.shapes import object_shape
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.conditions import ConditionType, Verdict, merge
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.principals import username_of
from chiplog_core.model.user import User, UserStatus
from chiplog_core.model.verdicts import fails, holds, problems_text, refused
from chiplog_core.observed.world import Unreadable
from chiplog_core.problems import InvalidManifest, Problem
from chiplog_core.validate.user import warn_about_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How far the operator came with a User."""

    problems: tuple[Problem, ...] = ()
    """Why the user is not admitted, or has no credentials."""
    waits_for: str = ""
    """What it waits for, in words; empty if for nothing."""
    secret: str | None = None
    """Name of the Secret with its credentials."""


def user_status(user: User, cluster: BrokerCluster, outcome: Outcome, now: datetime) -> UserStatus:
    """The status of a User of an existing cluster."""
    verdicts = [_ready(outcome), *_warnings(user, cluster)]
    return replace(
        _with_verdicts(user.status, verdicts, user.metadata, now),
        username=username_of(user),
        secret=outcome.secret,
    )


def without_cluster(user: User, cluster_name: str, namespace: str, now: datetime) -> UserStatus:
    """The status of a User whose cluster does not exist."""
    verdict = fails(
        ConditionType.READY,
        "ClusterNotFound",
        f"there is no BrokerCluster {cluster_name} in namespace {namespace}: create it, or "
        "correct spec.clusterRef in a new User",
    )
    return _with_verdicts(user.status, [verdict], user.metadata, now)


def unreadable_status(unreadable: Unreadable, now: datetime) -> UserStatus:
    """The status of a User that cannot be parsed."""
    try:
        before: UserStatus = read(
            object_shape(UserStatus), unreadable.manifest_status, "status", Unknown.IGNORE
        )
    except InvalidManifest:
        before = UserStatus()
    return _with_verdicts(before, [refused(unreadable.problems)], unreadable.metadata, now)


def _ready(outcome: Outcome) -> Verdict:
    if outcome.problems:
        return refused(outcome.problems)
    if outcome.waits_for:
        return fails(ConditionType.READY, "Pending", f"waiting for {outcome.waits_for}")
    return holds(ConditionType.READY, "Ready")


def _warnings(user: User, cluster: BrokerCluster) -> Iterator[Verdict]:
    warnings = warn_about_user(user, cluster)
    if warnings:
        yield holds(ConditionType.WARNING, warnings[0].reason.value, problems_text(warnings))


def _with_verdicts(
    status: UserStatus, verdicts: Sequence[Verdict], meta: Metadata, now: datetime
) -> UserStatus:
    conditions = merge(status.conditions, verdicts, observed_generation=meta.generation, now=now)
    return replace(status, observed_generation=meta.generation, conditions=conditions)
