"""One plan for a cluster: what to do, from its observed state.

The steps follow their dependencies: the spec, live brokers, Broker objects, maps, restarts, then
statuses. Each step sees the world as it was read, never what an earlier step is about to write:
what a decision depends on must have been observed.
"""

from collections.abc import Callable
from datetime import datetime

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import Action, Plan
from chiplog_core.model.roll_policy import RollPolicy
from chiplog_core.observed.broker_states import BrokerStates, find_broker_states
from chiplog_core.observed.pinned import NONE_PINNED, pinned_partitions
from chiplog_core.observed.sessions import awaiting_admission
from chiplog_core.observed.settings import Settings, find_settings
from chiplog_core.observed.world import World
from chiplog_core.planner.admin.requests import AdminPlan, answer_requests
from chiplog_core.planner.broker_objects import plan_brokers
from chiplog_core.planner.brokers.maintenance import under_maintenance
from chiplog_core.planner.brokers.stranded import find_stranded
from chiplog_core.planner.brokers.unable_to_start import next_unable_ms, unable_to_start
from chiplog_core.planner.counts import Counts, count_partitions
from chiplog_core.planner.leadership.leader_orders import find_orders
from chiplog_core.planner.leadership.preferred import find_moves
from chiplog_core.planner.leadership.proposals import gather_proposals
from chiplog_core.planner.leadership.regression import Answers, gather_reports, next_overdue_ms
from chiplog_core.planner.marks import metadata_changes
from chiplog_core.planner.moves.reassignment import gather_move_reports
from chiplog_core.planner.moves.replica_orders import find_replica_orders
from chiplog_core.planner.placement.growth import find_placement_targets
from chiplog_core.planner.reports.cluster_report import ClusterFacts, cluster_report, next_report_ms
from chiplog_core.planner.reports.other_reports import unreadable_reports
from chiplog_core.planner.rolls.restart_limits import shrinks_any_isr
from chiplog_core.planner.rolls.restart_requests import requests_for_all
from chiplog_core.planner.rolls.roll_gate import find_gate
from chiplog_core.planner.rolls.rollout import Rollout, RollScene, plan_rollout
from chiplog_core.planner.topics.adoption import find_orphans
from chiplog_core.planner.topics.internal_topics import internal_topic_verdicts
from chiplog_core.planner.topics.maps_plan import Situation
from chiplog_core.planner.topics.ownership import find_owners
from chiplog_core.planner.topics.topic_maps import MapPlanner
from chiplog_core.planner.topics.topic_reports import topic_reports
from chiplog_core.planner.volumes.claim_removals import claim_removals
from chiplog_core.planner.volumes.rebuild_requests import judge_requests
from chiplog_core.planner.volumes.volume_rebuilds import find_rebuilds, while_maps_change


def plan(world: World, now: datetime, new_topic_id: Callable[[], TopicId]) -> Plan:
    """What to do next, and when to plan again. The function is pure except for `new_topic_id`,
    which returns a new random topic id."""
    settings = find_settings(world)
    brokers = find_broker_states(world, awaiting_admission(world))
    admin = _admin(world, settings, now)
    cluster = settings.valid_cluster
    pinned = NONE_PINNED if cluster is None else pinned_partitions(world, cluster)
    counts = count_partitions(world.maps, brokers, pinned)
    requests = judge_requests(world, settings, brokers, counts)
    brokers_plan = plan_brokers(world, settings, brokers, admin, requests, new_topic_id)
    rollout = _rollout(world, settings, brokers, brokers_plan.ids, counts, now)
    rebuilds = find_rebuilds(world, settings, requests, brokers_plan.ids)
    moves = find_moves(world, counts, now, admin.elections, is_rolling=bool(rollout.pending))
    situation = Situation(
        world=world,
        settings=settings,
        brokers=brokers,
        answers=Answers(
            reports=gather_reports(world),
            proposals=gather_proposals(world),
            open_questions_ms=world.open_questions_ms,
        ),
        reassignments=admin.reassignments,
        throttles=admin.throttles,
        moves=moves,
        move_reports=gather_move_reports(world),
        orders=find_orders(world, settings, brokers),
        replica_orders=find_replica_orders(world, settings),
        ownership=find_owners(world, settings),
        broker_ids=brokers_plan.ids,
        find_placement_targets=lambda: find_placement_targets(world, brokers, brokers_plan.intents),
        new_topic_id=new_topic_id,
        now=now,
    )
    maps = MapPlanner(situation).plan()
    if maps.actions or brokers_plan.actions:
        rebuilds = while_maps_change(rebuilds, world)
    facts = ClusterFacts(
        world=world,
        settings=settings,
        brokers=brokers,
        broker_ids=brokers_plan.ids,
        problems=brokers_plan.problems,
        counts=counts,
        rollout=rollout,
        rebuild_refusals=rebuilds.refusals,
        internal_topic_verdicts=tuple(internal_topic_verdicts(situation, maps, counts.of_topic)),
    )
    actions: list[Action] = [*brokers_plan.actions, *maps.actions, *admin.writes]
    actions += metadata_changes(world, settings)
    actions += claim_removals(world, settings, brokers)
    adoption = find_orphans(world, settings, now)
    actions += adoption.actions
    stranded = find_stranded(world, settings, now)
    # A rolling restart waits, so that not more brokers are down at the same time than it assumes.
    if stranded.restarts:
        actions += stranded.restarts
    elif rebuilds.rebuild is not None:
        actions.append(rebuilds.rebuild)
    elif rollout.restarts and not shrinks_any_isr(world.maps, maps.actions):
        actions += rollout.restarts
    if settings.valid_cluster is not None and world.is_complete:
        actions += requests_for_all(world, brokers_plan.ids)
    if world.is_complete:
        actions += topic_reports(situation, maps, counts.of_topic)
        actions += unreadable_reports(world, now)
        actions += cluster_report(facts, now)
    return Plan(
        brokers=brokers_plan.ids,
        actions=tuple(actions),
        requeue_after_ms=_soonest(
            maps.requeue_after_ms,
            admin.requeue_after_ms,
            moves.requeue_after_ms,
            stranded.requeue_after_ms,
            adoption.requeue_after_ms,
            next_report_ms(facts, now),
            rollout.gate.requeue_after_ms(now),
            next_unable_ms(world, rollout.concerned, now),
            next_overdue_ms(world),
        ),
        may_apply=settings.valid_cluster is not None,
    )


def _rollout(
    world: World,
    settings: Settings,
    brokers: BrokerStates,
    broker_ids: tuple[BrokerId, ...],
    counts: Counts,
    now: datetime,
) -> Rollout:
    """The rolling restart; nothing while the spec is refused, or not everything is known."""
    cluster = settings.valid_cluster
    if cluster is None or not world.is_complete or world.unreadable_brokers:
        return Rollout()
    return plan_rollout(
        RollScene(
            world=world,
            brokers=brokers,
            broker_ids=broker_ids,
            counts=counts,
            gate=find_gate(world, cluster, now),
            unable=unable_to_start(world, now),
            held=under_maintenance(cluster),
            max_parallel=(cluster.spec.roll_policy or RollPolicy()).max_parallel_per_rack,
        )
    )


def _admin(world: World, settings: Settings, now: datetime) -> AdminPlan:
    """The plan for requests of admin clients; empty until all objects are listed."""
    if settings.cluster is None or not world.is_complete:
        return AdminPlan(writes=(), answers={})
    return answer_requests(world, now)


def _soonest(*times_ms: int | None) -> int | None:
    """The lowest of the times; None if all are None."""
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
