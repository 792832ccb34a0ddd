"""The status of a BrokerCluster: its counts and conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from chiplog_core.config.given import warn_about_values
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.model.actions import Report
from chiplog_core.model.annotations import CLUSTERS_KEYS, DELETE_POD_AND_PVC, unknown_keys
from chiplog_core.model.broker_cluster import BrokerClusterStatus
from chiplog_core.model.conditions import ConditionStatus, ConditionType, Verdict
from chiplog_core.model.verdicts import (
    FAILED_APPLY,
    brokers_named,
    fails,
    holds,
    paused_verdict,
    problems_text,
    refused,
    unknown,
)
from chiplog_core.naming import api, labels
from chiplog_core.naming.taken_names import REMEDY
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.places import Level
from chiplog_core.observed.settings import Settings
from chiplog_core.observed.volumes import size_reached
from chiplog_core.observed.world import World
from chiplog_core.planner.brokers.cordoned import why_not_scheduled
from chiplog_core.planner.brokers.endpoints import bootstrap_addresses
from chiplog_core.planner.brokers.maintenance import maintenance_verdicts, under_maintenance
from chiplog_core.planner.brokers.removal_order import named_for_removal
from chiplog_core.planner.brokers.volume_losses import losing_volumes
from chiplog_core.planner.brokers.waiting_listeners import waiting_listeners
from chiplog_core.planner.counts import Counts
from chiplog_core.planner.leadership.leader_orders import is_in_force
from chiplog_core.planner.moves.wanted_replicas import leaving_brokers
from chiplog_core.planner.reports.certificate_report import certificate_verdicts
from chiplog_core.planner.reports.other_reports import published, with_verdicts
from chiplog_core.planner.reports.roll_report import (
    requested_restarts_text,
    roll_status,
    why_not_applied,
)
from chiplog_core.planner.rolls.restart_requests import restart_request_problems
from chiplog_core.planner.rolls.rollout import Rollout, is_serving
from chiplog_core.planner.topics.internal_topics import internal_topic_status
from chiplog_core.planner.volumes.rebuild_requests import LAST_REPLICA
from chiplog_core.planner.volumes.volume_rebuilds import (
    REBUILD_REMEDY,
    RebuildRefusal,
    rebuild_request_problems,
)
from chiplog_core.problems import Problem, Reason
from chiplog_core.topic_name import CONSUMER_OFFSETS, TRANSACTION_STATE
from chiplog_core.validate.broker_cluster import check_jobs
from chiplog_core.validate.outside import NO_TLS_ROUTES

BROKER_UNREADABLE = "BrokerUnreadable"
MAP_UNREADABLE = "PartitionMapUnreadable"
LOAD_BALANCER_PENDING = "LoadBalancerPending"
PATIENCE = timedelta(minutes=5)
"""How long a rolling restart may wait before the reason becomes RestartBlocked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the status of a cluster is made from."""

    world: World
    settings: Settings
    brokers: BrokerStates
    broker_ids: tuple[BrokerId, ...]
    problems: tuple[Problem, ...]
    counts: Counts
    rollout: Rollout
    rebuild_refusals: tuple[RebuildRefusal, ...] = ()
    internal_topic_verdicts: tuple[Verdict, ...] = ()
    """Conditions about internal topics, which have no Topic objects."""

    @property
    def serving(self) -> tuple[BrokerId, ...]:
        """The brokers whose pods are ready and whose processes are alive."""
        return tuple(
            broker_id
            for broker_id in self.broker_ids
            if is_serving(self.world, self.brokers, broker_id)
        )

    @property
    def missing(self) -> tuple[BrokerId, ...]:
        """The brokers that do not serve, although they are not under maintenance."""
        expected = set(self.broker_ids) - under_maintenance(self.settings.cluster)
        return tuple(sorted(expected.difference(self.serving)))


def cluster_report(facts: ClusterFacts, now: datetime) -> Iterator[Report]:
    """The status of the BrokerCluster, if it differs from the published one."""
    world = facts.world
    if not world.metadata.uid:
        return  # the BrokerCluster does not exist
    if world.cluster is None:
        before = published(world.manifest_status, BrokerClusterStatus())
    else:
        before = world.cluster.status
    verdicts = _verdicts(facts, now)
    after = with_verdicts(_described(before, facts, now), verdicts, world.metadata, now)
    if after != before:
        yield Report(kind=api.BROKER_CLUSTER, metadata=world.metadata, status=after)


def _described(
    status: BrokerClusterStatus, facts: ClusterFacts, now: datetime
) -> BrokerClusterStatus:
    """The status with the current numbers, addresses and cluster id, but the old conditions."""
    world, counts = facts.world, facts.counts
    brokers = [broker for _, broker in sorted(world.brokers.items())]
    ready = [broker_id for broker_id in facts.serving if broker_id not in counts.lagging]
    return replace(
        status,
        cluster_id=brokers[0].spec.cluster_id if brokers else None,
        replicas=len(facts.broker_ids) + len(world.unreadable_brokers),
        ready_replicas=len(ready),
        selector=f"{labels.CLUSTER}={world.metadata.name},{labels.COMPONENT}={labels.BROKER}",
        listeners=(
            status.listeners
            if world.cluster is None
            else tuple(bootstrap_addresses(world, world.cluster))
        ),
        revision=facts.rollout.gate.revision or status.revision,
        roll=roll_status(facts.rollout, status.roll, now)
        if facts.rollout.is_planned
        else status.roll,
        volume_size=size_reached(world) or status.volume_size,
        topics=counts.topics,
        partitions=counts.partitions,
        consumer_offsets=internal_topic_status(world, CONSUMER_OFFSETS) or status.consumer_offsets,
        transaction_state=(
            internal_topic_status(world, TRANSACTION_STATE) or status.transaction_state
        ),
        offline_partitions=counts.offline,
        under_replicated_partitions=counts.under_replicated,
        sharing_partitions=counts.sharing,
    )


def _verdicts(facts: ClusterFacts, now: datetime) -> list[Verdict]:
    """All conditions of the BrokerCluster."""
    verdicts = [_ready(facts), _healthy(facts), _applied(facts, now), _quiesced(facts)]
    verdicts.append(_stable(verdicts))  # summarizes exactly the four before it
    if facts.settings.is_paused:
        verdicts.append(paused_verdict(facts.world.metadata))
    verdicts += _merged_by_type(
        [
            *maintenance_verdicts(facts.world, facts.settings.cluster),
            *facts.internal_topic_verdicts,
            *_annotation_warning(facts.world),
            *_without_effect(facts.settings),
            *_without_jobs(facts.settings),
            *_not_rebalanced(facts.world),
            *_losing_volumes(facts.world),
            *_sharing(facts.counts),
            *certificate_verdicts(facts.world),
        ]
    )
    verdicts += _disk_pressure(facts.world)
    verdicts += _rebuild_refused(facts.rebuild_refusals)
    regressed = sorted(
        name
        for name, counts in facts.counts.of_topic.items()
        # If reports are wanted although there is a leader, the map is older than what brokers know.
        if any(state.leader is not None for state in counts.awaiting_reports)
    )
    if regressed:
        message = (
            f"brokers have applied newer metadata of topic {', '.join(regressed[:10])} than the "
            "API server has, as after etcd was restored from a backup; the operator elects no "
            "leaders there until all replicas have reported"
        )
        verdicts.append(holds(ConditionType.METADATA_REGRESSED, "BrokersKnowMore", message))
    return verdicts


def _without_effect(settings: Settings) -> Iterator[Verdict]:
    """A warning for keys of the cluster's spec.config that have no effect."""
    cluster = settings.valid_cluster
    if cluster is not None and (problems := warn_about_values(cluster.spec.config)):
        yield holds(ConditionType.WARNING, problems[0].reason.value, problems_text(problems))


def _without_jobs(settings: Settings) -> Iterator[Verdict]:
    """A warning if Spark jobs cannot run with the cluster's settings."""
    cluster = settings.valid_cluster
    if cluster is not None and (problems := check_jobs(cluster)):
        message = (
            "no Verification or Rebalance with spec.measure Spark can run: "
            f"{problems_text(problems)}"
        )
        yield holds(ConditionType.WARNING, problems[0].reason.value, message)


def _not_rebalanced(world: World) -> Iterator[Verdict]:
    """A warning if the last automatic Rebalance has failed."""
    status = None if world.cluster is None else world.cluster.status.auto_rebalance
    if status is not None and status.failure:
        yield holds(ConditionType.WARNING, "AutoRebalanceFailed", status.failure)


def _annotation_warning(world: World) -> Iterator[Verdict]:
    """A warning for unknown annotations on the cluster or on brokers' StatefulSets and pods."""
    problems = [
        *unknown_keys(world.metadata, also_known=CLUSTERS_KEYS),
        *_removal_problems(world),
        *restart_request_problems(world),
        *rebuild_request_problems(world),
    ]
    if problems:
        yield holds(ConditionType.WARNING, "UnknownAnnotation", problems_text(problems[:10]))


def _removal_problems(world: World) -> Iterator[Problem]:
    """The problem with the annotation that names brokers to remove, also while none is removed."""
    _, problem = named_for_removal(world.metadata.annotations, world.brokers)
    if problem is not None:
        yield problem


def _merged_by_type(verdicts: list[Verdict]) -> list[Verdict]:
    """One verdict per condition type, with the reason of the first and the messages of all."""
    found: dict[str, Verdict] = {}
    for verdict in verdicts:
        before = found.get(verdict.type)
        message = verdict.message if before is None else f"{before.message}; {verdict.message}"
        found[verdict.type] = replace(before or verdict, message=message[:MAX_MESSAGE_LENGTH])
    return list(found.values())


def _disk_pressure(world: World) -> Iterator[Verdict]:
    """The condition DiskPressure, if the volume of a broker is nearly full."""
    full = [
        broker_id
        for broker_id, broker in sorted(world.brokers.items())
        if not broker.spec.retired
        and any(directory.full for directory in broker.status.directories)
    ]
    if full:
        message = (
            f"almost no space is left on the volume of {brokers_named(full)}, so writes to "
            "partitions led there are refused and producers retry. Shorten the retention of "
            "topics, or enlarge spec.storage"
        )
        yield holds(ConditionType.DISK_PRESSURE, "VolumeNearlyFull", message)


def _losing_volumes(world: World) -> Iterator[Verdict]:
    """A warning about brokers whose claims are being deleted although nobody asked the operator."""
    losing = sorted(losing_volumes(world) & world.pods.keys())
    losing = [one for one in losing if not world.pods[one].deleting]
    losing = [one for one in losing if not DELETE_POD_AND_PVC.is_set(world.pods[one].annotations)]
    if losing:
        message = (
            f"the volume claim of {brokers_named(losing)} is being deleted: the data goes when the "
            f"pod does. Do not delete the pod; {REBUILD_REMEDY}"
        )
        yield holds(ConditionType.WARNING, "VolumeBeingDeleted", message)


def _sharing(counts: Counts) -> Iterator[Verdict]:
    """Warnings about partitions that would lose two replicas with one node or rack, although
    another one has none of them."""
    for level, where, reason, why in (
        (Level.NODE, "on one node", "ReplicasShareNode", "a pod moved there"),
        (Level.RACK, "in one rack", "ReplicasShareRack", "spec.rack was set"),
    ):
        found = counts.sharing_at.get(level)
        if found is None:
            continue
        number = found.partitions + found.pinned.total()
        message = (
            f"{_partitions(number)} two replicas {where} ({', '.join(sorted(found.names)[:10])})"
        )
        if found.partitions:
            message += (
                f", as after {why}, a placement by hand, or because it was created while a "
                f"{level.name.lower()} was down: a Rebalance with RackAwareGoal separates them"
            )
        if found.pinned:
            topics = ", ".join(sorted(found.pinned)[:10])
            message += (
                f"; spec.assignments of Topic {topics} places {found.pinned.total()} of them "
                "there: change it, because no Rebalance moves these"
            )
        yield holds(ConditionType.WARNING, reason, message)


def _rebuild_refused(refusals: Sequence[RebuildRefusal]) -> Iterator[Verdict]:
    """The condition RebuildRefused, if the request for a broker's new volume cannot be carried out
    now. The reason is that of a refusal which does not pass by itself, if there is one."""
    if refusals:
        reasons = [refusal.reason for refusal in refusals]
        reason = LAST_REPLICA if LAST_REPLICA in reasons else reasons[0]
        message = "; ".join(refusal.message for refusal in refusals[:5])
        yield holds(ConditionType.REBUILD_REFUSED, reason, message)


def _ready(facts: ClusterFacts) -> Verdict:
    """The condition Ready: False with the first reason that applies, in this order: the spec is
    refused, an object cannot be written or parsed, brokers do not serve, a listener waits for a
    load balancer."""
    problems = (*facts.settings.problems, *facts.problems)
    if problems:
        return refused(problems)
    if facts.world.refused_maps:
        return fails(ConditionType.READY, "MapWriteRefused", _refused_maps(facts.world))
    if facts.world.apply_problems:
        return fails(ConditionType.READY, *_not_applied(facts.world))
    if facts.world.unreadable_brokers:
        return fails(ConditionType.READY, BROKER_UNREADABLE, _unreadable(facts.world))
    if facts.missing or not facts.broker_ids:
        reasons = [_why_not_ready(facts.world, broker_id) for broker_id in facts.missing[:10]]
        return fails(ConditionType.READY, "BrokersNotReady", "; ".join(reasons))
    return _reachable(facts)


def _reachable(facts: ClusterFacts) -> Verdict:
    """The condition Ready of a cluster whose brokers serve: False if a listener waits for a load
    balancer."""
    world, cluster = facts.world, facts.settings.valid_cluster
    waiting = [] if cluster is None else list(waiting_listeners(world, cluster, facts.broker_ids))
    if waiting:
        return fails(ConditionType.READY, LOAD_BALANCER_PENDING, "; ".join(waiting))
    return holds(ConditionType.READY, "Ready")


def _refused_maps(world: World) -> str:
    """The message about PartitionMaps that the operator planned and its own checks refused."""
    return (
        f"{'; '.join(world.refused_maps[:10])}. The previous maps stay in force. This is a bug in "
        "the operator: report this message; after an upgrade, go back to the previous version"
    )


def _not_applied(world: World) -> tuple[str, str]:
    """The reason and the message about objects that the API server refused, with what to do about
    it."""
    problems = world.apply_problems
    shown = "; ".join(problems[:10])
    is_supported = set(problems) != {NO_TLS_ROUTES}
    reason = FAILED_APPLY if is_supported else Reason.NOT_SUPPORTED.value
    if all(REMEDY in problem or problem == NO_TLS_ROUTES for problem in problems):
        return reason, f"{shown}. The operator keeps trying"  # each problem names its remedy
    return reason, (
        f"{shown}. Grant the missing quota or permission, or correct the spec; the operator keeps "
        "trying"
    )


def _unreadable(world: World) -> str:
    """The message about Broker objects that cannot be parsed."""
    reasons = "; ".join(f"{name}: {why}" for name, why in sorted(world.unreadable_brokers.items()))
    return (
        "a Broker object cannot be parsed, so the operator decides nothing about that broker. "
        f"{reasons}. Correct the object, or update the operator if a newer broker wrote it"
    )


def _unreadable_maps(names: Sequence[str]) -> str:
    """The message about PartitionMaps that cannot be parsed, and so are not written."""
    return (
        f"PartitionMap {', '.join(names[:10])} cannot be parsed, so the operator does not write "
        "there what topics inherit from the spec. Correct the object, or update the operator if a "
        "newer one wrote it"
    )


def _why_not_ready(world: World, broker_id: BrokerId) -> str:
    """Why the broker is not ready: its pod's message, the broker's own, or the state of its
    process."""
    pod, broker = world.pods.get(broker_id), world.brokers.get(broker_id)
    if pod is None:
        why = "has no pod"
    elif pod.ran_out_of_memory:
        why = "ran out of memory and cannot start (OOMKilled): raise spec.resources.limits.memory"
    elif pod.message:
        where = why_not_scheduled(world, broker_id)
        why = f"{pod.message}; {where}" if where else pod.message
    elif broker is not None and broker.status.message:
        why = broker.status.message
    elif pod.deleting:
        why = "is being stopped"
    else:
        process = None if broker is None else broker.status.incarnation
        is_fenced = broker is not None and broker.spec.fenced
        why = "has not renewed its Lease" if is_fenced else "is starting"
        if process is not None:
            why = world.ended.get(process, why)  # how the process ended, if that is known
    return f"broker {broker_id}: {why}"


def _healthy(facts: ClusterFacts) -> Verdict:
    """The condition Healthy: every partition has a live leader and all replicas in sync."""
    counts = facts.counts
    if counts.offline:
        message = (
            f"{_partitions(counts.offline)} no live leader; the Ready condition of each Topic "
            "shows its partitions and what to do"
        )
        return fails(ConditionType.HEALTHY, "PartitionsOffline", message)
    if counts.under_replicated:
        message = (
            f"{_partitions(counts.under_replicated)} replicas that are out of sync, on "
            f"{brokers_named(sorted(counts.lagging))}"
        )
        return fails(ConditionType.HEALTHY, "UnderReplicated", message)
    return holds(ConditionType.HEALTHY, "Healthy")


def _applied(facts: ClusterFacts, now: datetime) -> Verdict:
    """The condition ConfigurationApplied: every broker runs with the configuration of the spec."""
    condition, rollout = ConditionType.CONFIGURATION_APPLIED, facts.rollout
    if facts.settings.problems:
        reason = facts.settings.problems[0].reason.value
        return fails(
            condition,
            reason,
            "the spec was refused (see the condition Ready), so the previous configuration stays "
            "in force",
        )
    if facts.settings.is_paused:
        return fails(
            condition,
            "Paused",
            "the cluster is paused: changes of the spec are applied when it is resumed",
        )
    if facts.world.apply_problems:
        return fails(condition, *_not_applied(facts.world))
    if (unreadable := _why_not_known(facts)) is not None:
        return unknown(condition, *unreadable)
    if not rollout.outdated:
        return holds(condition, "Applied")
    reason = ""
    if not rollout.restarts and rollout.is_waiting:
        reason = "RestartBlocked" if _is_late(facts, now) else "WaitingToRestart"
    return fails(condition, *why_not_applied(rollout, reason))


def _why_not_known(facts: ClusterFacts) -> tuple[str, str] | None:
    """Reason and message if nobody knows whether the configuration is applied; else None."""
    if not facts.rollout.is_planned:
        # Restarts are planned only if all brokers are known.
        return BROKER_UNREADABLE, _unreadable(facts.world)
    maps = sorted(facts.world.unreadable_maps)
    return (MAP_UNREADABLE, _unreadable_maps(maps)) if maps and not facts.rollout.outdated else None


def _is_late(facts: ClusterFacts, now: datetime) -> bool:
    """Whether a waiting restart has waited for longer than `PATIENCE`."""
    left = _patience_left(facts, now)
    return left is not None and left <= timedelta()


def _patience_left(facts: ClusterFacts, now: datetime) -> timedelta | None:
    """The time until a waiting restart counts as blocked; None if nothing is waited for.

    The waiting begins when ConfigurationApplied or Healthy became False, whichever was later: each
    restart of a roll makes Healthy False again, so a long roll that makes progress is not blocked.
    """
    if facts.world.cluster is None:
        return None
    false_since = [
        condition.last_transition_time
        for condition in facts.world.cluster.status.conditions
        if condition.type in {ConditionType.CONFIGURATION_APPLIED, ConditionType.HEALTHY}
        and condition.status is ConditionStatus.FALSE
    ]
    if not false_since:
        return None
    roll = facts.world.cluster.status.roll
    # A roll that waited for its window or its approval has not been blocked by that.
    return max([*false_since, *([roll.since] if roll is not None else [])]) + PATIENCE - now


def next_report_ms(facts: ClusterFacts, now: datetime) -> int | None:
    """After how many milliseconds a waiting restart counts as blocked, which changes the status;
    None if no restart waits, or it is blocked already."""
    rollout = facts.rollout
    if rollout.restarts or not set(rollout.outdated).intersection(rollout.pending):
        return None
    left = _patience_left(facts, now)
    if left is None or left <= timedelta():
        return None
    return left // timedelta(milliseconds=1) + 1


def _quiesced(facts: ClusterFacts) -> Verdict:
    """The condition Quiesced: no restart, no move and no catching up is in progress."""
    if requested := requested_restarts_text(facts.rollout):
        return fails(ConditionType.QUIESCED, "InProgress", requested)
    busy = (
        facts.rollout.pending
        or facts.world.unreadable_brokers
        or facts.counts.offline
        or facts.counts.under_replicated
    )
    if moves := _moves_text(facts):
        return fails(ConditionType.QUIESCED, "InProgress", moves)
    if any(map(is_in_force, facts.world.rebalances)):
        return fails(ConditionType.QUIESCED, "InProgress", "a Rebalance is being carried out")
    if busy or facts.missing:
        return fails(
            ConditionType.QUIESCED, "InProgress", "brokers are starting, restarting or catching up"
        )
    return holds(ConditionType.QUIESCED, "Quiesced")


def _moves_text(facts: ClusterFacts) -> str:
    """The message about replicas that are being moved and brokers that are being removed; empty if
    there are none."""
    texts = []
    if moving := facts.counts.moving:
        texts.append(f"replicas of {_partitions_only(moving)} are being moved")
    if leaving_data := facts.counts.leaving_data:
        texts.append(f"old replicas of {_partitions_only(leaving_data)} are still to be deleted")
    if leaving := sorted(leaving_brokers(facts.world.brokers)):
        texts.append(f"to be removed when nothing is left on them: {brokers_named(leaving)}")
    return "; ".join(texts)


def _stable(verdicts: list[Verdict]) -> Verdict:
    """The condition Stable, which is True if all the given conditions are."""
    broken = [verdict.type for verdict in verdicts if verdict.status is not ConditionStatus.TRUE]
    if broken:
        return fails(
            ConditionType.STABLE, "NotStable", f"these conditions are not True: {', '.join(broken)}"
        )
    return holds(ConditionType.STABLE, "Stable")


def _partitions(count: int) -> str:
    """The beginning of a sentence, like "3 partitions have"."""
    return f"{_partitions_only(count)} {'has' if count == 1 else 'have'}"


def _partitions_only(count: int) -> str:
    """A number of partitions, like "3 partitions"."""
    return "1 partition" if count == 1 else f"{count} partitions"
