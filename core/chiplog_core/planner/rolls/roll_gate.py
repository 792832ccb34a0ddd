"""Whether brokers may be restarted now, as spec.rollPolicy says: windows, and the user's approval.

The gate only delays the next restart. One that has begun is completed by Kubernetes whatever the
gate says. A restart that a user requests needs no approval, but waits for a window as well.

Before the first restart for a new revision the status must name it: users, and their programs, see
in `status.roll` and the condition ConfigurationApplied what is to come, and why.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from chiplog_core.model.annotations import field_of, shown
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.roll_policy import RollApproval, RollPolicy
from chiplog_core.naming import labels
from chiplog_core.observed.world import World
from chiplog_core.windows import opens_at, read_window, read_zone

OUTSIDE_WINDOW = "WaitingForWindow"
NOT_APPROVED = "WaitingForApproval"
OF_OPERATOR = "another version or other settings of the operator (the spec has not changed)"
UNKNOWN_CAUSE = "a changed configuration"


@dataclass(frozen=True, slots=True)
class Wait:
    """Why no broker is restarted now."""

    reason: str
    """Reason of a condition."""
    message: str
    until: datetime | None = None
    """When the wait ends by itself; None if it does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollGate:
    """Which restarts may be made now."""

    revision: str = ""
    """The revision that all pods should have; empty if it is not known."""
    cause: str = ""
    """Why pods with another revision must restart."""
    is_announced: bool = True
    """Whether the published status names the revision."""
    of_requests: Wait | None = None
    """Why a restart that a user requests must wait; None if it need not."""
    of_changes: Wait | None = None
    """Why a restart for a change must wait; None if it need not."""

    def requeue_after_ms(self, now: datetime) -> int | None:
        """In how many milliseconds a window opens; None if no restart waits for one."""
        if self.of_requests is None or self.of_requests.until is None:
            return None
        return (self.of_requests.until - now) // timedelta(milliseconds=1) + 1


def find_gate(world: World, cluster: BrokerCluster, now: datetime) -> RollGate:
    """Which restarts the policy of the cluster allows now."""
    policy = cluster.spec.roll_policy or RollPolicy()
    revision = max(world.revisions.values(), default="")
    window = _wait_for_window(policy, now)
    return RollGate(
        revision=revision,
        cause=_cause(world, cluster, revision),
        is_announced=(cluster.status.revision or "") == revision,
        of_requests=window,
        of_changes=_wait_for_approval(world, policy, revision, window) or window,
    )


def _wait_for_window(policy: RollPolicy, now: datetime) -> Wait | None:
    """The wait for the next window; None if one is open, or there are none."""
    zone = read_zone(policy.time_zone)
    windows = [read_window(one.schedule, one.duration, zone) for one in policy.windows]
    opens = opens_at(windows, now)
    if opens is None:
        return None
    text = opens.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    message = f"waiting for the next window of spec.rollPolicy, which opens at {text}"
    return Wait(OUTSIDE_WINDOW, message, opens)


def _wait_for_approval(
    world: World, policy: RollPolicy, revision: str, window: Wait | None
) -> Wait | None:
    """The wait for the approval of this revision; None if it has it, or needs none."""
    if policy.approval is RollApproval.AUTOMATIC:
        return None
    given = world.metadata.annotations.get(labels.APPROVED_REVISION, "")
    if given == revision:
        return None
    message = (
        f"waiting for your approval: set {field_of(labels.APPROVED_REVISION)} of the BrokerCluster "
        f"to {revision}"
    )
    if given:
        message += f" (it is {shown(given)})"
    wait = Wait(NOT_APPROVED, message)
    return wait if window is None else replace(wait, message=f"{message}; then {window.message}")


def _cause(world: World, cluster: BrokerCluster, revision: str) -> str:
    """Why the revision is another one than before. It stays in the status until the roll is
    complete, because only the plan that sees the change can tell."""
    status = cluster.status
    if (status.revision or "") == revision:
        return status.roll.cause if status.roll is not None else ""
    if world.restart_reasons:
        return ", ".join(world.restart_reasons)
    is_spec_known = status.observed_generation == world.metadata.generation
    return OF_OPERATOR if is_spec_known else UNKNOWN_CAUSE
