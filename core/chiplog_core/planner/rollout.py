"""Restarting brokers for what cannot change while they run: one at a time, never at a price.

A broker that is not ready goes first: the change may be what heals it. A restart never takes a
partition below the replicas that acks=all asks for, as far as it has that many at all, and it
waits until those that run with the new configuration already are ready and in sync with
everything they hold: what the previous restart touched is whole again before the next one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from chiplog_core.ids import BrokerId
from chiplog_core.planner.actions import RestartPod
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.members import Life, Members
from chiplog_core.planner.world import World

CONFIG_CHANGE = "ConfigChangeRequiresRestart"


@dataclass(frozen=True, slots=True)
class Rollout:
    """Which brokers still run with what was before, and what is done about it now."""

    outdated: tuple[BrokerId, ...] = ()
    restart: RestartPod | None = None
    waits_for: tuple[BrokerId, ...] = ()
    """Brokers that have to be well again first."""
    is_needed: tuple[BrokerId, ...] = ()
    """Brokers without which some partition would have too few replicas in sync."""


def plan_rollout(
    world: World, members: Members, broker_ids: Sequence[BrokerId], counts: Counts
) -> Rollout:
    """The next restart, if one is due and harmless."""
    outdated = tuple(broker_id for broker_id in broker_ids if _is_outdated(world, broker_id))
    if not outdated:
        return Rollout()
    going = tuple(broker_id for broker_id, pod in sorted(world.pods.items()) if pod.deleting)
    if going:
        return Rollout(outdated, waits_for=going)
    unwell = tuple(one for one in broker_ids if not _is_well(world, members, one, counts))
    spared = tuple(one for one in outdated if one not in counts.needed)
    for broker_id in spared:
        if not world.pods[broker_id].ready:
            return Rollout(outdated, _restart(world, broker_id))
    if spared and set(unwell) <= set(outdated):
        return Rollout(outdated, _restart(world, spared[0]))
    return Rollout(outdated, waits_for=unwell, is_needed=tuple(sorted(counts.needed)))


def is_serving(world: World, members: Members, broker_id: BrokerId) -> bool:
    """Whether the broker's pod is ready and its process alive in its session."""
    pod, member = world.pods.get(broker_id), members.of.get(broker_id)
    is_ready = pod is not None and pod.ready and not pod.deleting
    return is_ready and member is not None and member.life is Life.ALIVE


def _is_outdated(world: World, broker_id: BrokerId) -> bool:
    pod, wanted = world.pods.get(broker_id), world.revisions.get(broker_id)
    return pod is not None and wanted is not None and not pod.deleting and pod.revision != wanted


def _is_well(world: World, members: Members, broker_id: BrokerId, counts: Counts) -> bool:
    return is_serving(world, members, broker_id) and broker_id not in counts.lagging


def _restart(world: World, broker_id: BrokerId) -> RestartPod:
    pod = world.pods[broker_id]
    return RestartPod(broker_id=broker_id, pod_name=pod.name, pod_uid=pod.uid, reason=CONFIG_CHANGE)
