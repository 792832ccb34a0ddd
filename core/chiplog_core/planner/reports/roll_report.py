"""What the status of a BrokerCluster says about its rolling restart."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.model.broker_cluster import Roll, RollState
from chiplog_core.model.verdicts import brokers_named
from chiplog_core.planner.rolls.roll_gate import UNKNOWN_CAUSE
from chiplog_core.planner.rolls.rollout import Rollout
from chiplog_core.planner.volumes.volume_rebuilds import REBUILD_REMEDY

RESTARTING = "Restarting"
HELD = "UnderMaintenance"
REQUESTED = "requested by an annotation"
MAX_CAUSE_LENGTH = 1_024


def roll_status(rollout: Rollout, before: Roll | None, now: datetime) -> Roll | None:
    """The entry `status.roll`; None if no broker is to be restarted. `before` is the published
    one."""
    brokers = tuple(sorted({*rollout.outdated, *rollout.requested}))
    if not brokers:
        return None
    cause = (rollout.gate.cause or UNKNOWN_CAUSE) if rollout.outdated else REQUESTED
    waits = [wait for one in brokers if (wait := rollout.wait_of(one)) is not None]
    is_ongoing = bool(rollout.pending)
    state = RollState.ONGOING if is_ongoing else RollState.PENDING
    return Roll(
        state=state,
        since=before.since
        if before is not None and before.state is state
        else now.replace(microsecond=0),
        brokers=brokers,
        cause=cause[:MAX_CAUSE_LENGTH],
        continues_at=None if is_ongoing else next((wait.until for wait in waits), None),
        message="; ".join(_what_it_waits_for(rollout, brokers))[:MAX_MESSAGE_LENGTH],
    )


def why_not_applied(rollout: Rollout, waiting: str) -> tuple[str, str]:
    """Reason and message of the condition ConfigurationApplied while brokers must restart.
    `waiting` is the reason if the restarts wait for brokers, else empty."""
    cause = rollout.gate.cause or UNKNOWN_CAUSE
    must_restart = f"{brokers_named(rollout.outdated)} must restart for {cause}"
    message = "; ".join((must_restart, *_what_it_waits_for(rollout, rollout.outdated)))
    free = [one for one in rollout.outdated if one not in rollout.held]
    if not free:
        return HELD, message
    waits = [rollout.wait_of(one) for one in free]
    first = waits[0]
    if first is not None and None not in waits:
        return first.reason, message
    return waiting or RESTARTING, message


def requested_restarts_text(rollout: Rollout) -> str:
    """The message about brokers whose restart was requested and may be made, and what it waits for;
    empty if there are none."""
    requested = [one for one in rollout.requested if one in rollout.pending]
    if not requested:
        return ""
    must_restart = f"{brokers_named(requested)} must restart, as requested"
    return "; ".join((must_restart, *_what_it_waits_for(rollout, requested)))


def _what_it_waits_for(rollout: Rollout, brokers: Sequence[BrokerId]) -> Iterator[str]:
    """Parts of a message: what the restart of these brokers waits for."""
    waits = dict.fromkeys(
        wait.message
        for one in brokers
        if one not in rollout.held and (wait := rollout.wait_of(one)) is not None
    )
    yield from waits
    if held := [one for one in brokers if one in rollout.held]:
        yield f"waiting until the maintenance of {brokers_named(held)} ends"
    if rollout.unreadable_maps:
        yield (
            f"waiting until PartitionMap {rollout.unreadable_maps[0]} can be parsed, because it "
            "may need any broker"
        )
    stuck = rollout.unable.intersection(rollout.waits_for).difference(rollout.outdated)
    waits_for = [one for one in rollout.waits_for if one not in {*rollout.starting, *stuck}]
    if waits_for:
        yield f"waiting for {brokers_named(waits_for)} to be ready and in sync"
    if rollout.starting:
        yield (
            f"waiting for {brokers_named(rollout.starting)} to start, which may take long if logs "
            "are recovered"
        )
    if stuck:
        yield (
            f"{brokers_named(sorted(stuck))} cannot start (the condition Ready says why): correct "
            "the spec, and the pod is created again"
        )
    if losing := [one for one in brokers if one in rollout.losing]:
        yield (
            f"the volume claim of {brokers_named(losing)} is being deleted, and the data would go "
            f"with the pod: {REBUILD_REMEDY}"
        )
    if needed := [one for one in brokers if one in rollout.needed]:
        yield (
            f"without {brokers_named(needed)}, partitions would have fewer in-sync replicas than "
            "their min.insync.replicas"
        )
