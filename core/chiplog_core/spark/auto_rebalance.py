"""Decides when the operator rebalances a cluster automatically (`spec.autoRebalance`).

Level-triggered: brokers are new because they are not among those that have had their share of the
load, not because somebody scaled the cluster a moment ago. A Rebalance begins in two writes: first
the cluster's status gets its name, then it is created. So an operator that takes over in between
finds the name and continues, and never creates a second one. There is at most one at a time.

One that fails is reported, and nothing else begins, until somebody has deleted it or it has
succeeded after all: what failed once would fail again.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import inf
from typing import Any

from chiplog_core.durations import duration_ms
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.model.annotations import REBALANCE_TEMPLATE
from chiplog_core.model.auto_rebalance import (
    DEFAULT_THRESHOLD_PERCENT,
    AutoRebalance,
    AutoRebalanceMode,
    AutoRebalanceState,
    AutoRebalanceStatus,
    LeftUneven,
)
from chiplog_core.model.broker import BrokerIntent
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.conditions import ConditionType
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.rebalance import (
    Rebalance,
    RebalanceMeasure,
    RebalanceMode,
    RebalanceSpec,
)
from chiplog_core.model.rebalance_status import RebalanceState
from chiplog_core.model.references import ClusterRef
from chiplog_core.model.roll_policy import UTC
from chiplog_core.naming import labels
from chiplog_core.observed.pinned import pinned_partitions
from chiplog_core.observed.places import Place
from chiplog_core.observed.settings import paused
from chiplog_core.observed.shared_domains import SharedDomains
from chiplog_core.observed.world import World
from chiplog_core.rebalance.brokers_load import partitions_of
from chiplog_core.rebalance.settings import Goal, RebalanceRefused, read_goals
from chiplog_core.rebalance.skew import Skew
from chiplog_core.rebalance.usable_brokers import brokers_of
from chiplog_core.spark.steps import StepEvent
from chiplog_core.validate.broker_cluster import check_cluster
from chiplog_core.windows import opens_at, read_window, read_zone

STAYS = timedelta(minutes=5)
"""For how long the load must be uneven before a Rebalance begins, if the user does not say."""
MIN_INTERVAL = timedelta(hours=1)
"""How long after an automatic Rebalance uneven load begins no other one."""
MIN_GROWTH_PERCENT = 5
"""By how many points the load must be more uneven than the last Rebalance for that reason left it,
before the next one begins: what one could not even out, because of pins or one huge partition, the
next one could not either."""
SETTLES = timedelta(minutes=2)
"""After so long the rates are those of the leaders that a Rebalance chose: these return 30 s after
its last move, and a rate is that of a minute."""
LEFT_WITHIN = timedelta(minutes=5)
"""For so long after that, what the load is at most counts as left by the Rebalance."""
LEFT_KNOWN_WITHIN = timedelta(hours=1)
"""If the load was not known for so long after a Rebalance, it is not known what that left: as after
an update of an operator that recorded one value for all goals. The next one may begin."""
LEFT_HOLDS = timedelta(days=7)
"""If the load has been more even than the Rebalance left it for so long, that counts as left. It is
longer than a night or a weekend without load, after which a burst would begin a useless one."""

NEW = AutoRebalanceStatus(state=AutoRebalanceState.IDLE)
"""Nothing is known yet."""

BEGUN, FAILED = "AutoRebalanceBegun", "AutoRebalanceFailed"

RUN_STATES = frozenset({AutoRebalanceState.ON_SCALE_UP, AutoRebalanceState.ON_IMBALANCE})
"""The states in which a Rebalance of the operator is in progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoView:
    """A cluster and all that decides about automatic Rebalances, at one moment."""

    cluster: BrokerCluster
    world: World
    rebalances: Mapping[str, Rebalance] = field(default_factory=dict)
    """The readable Rebalances in the cluster's namespace, by name."""
    unreadable: frozenset[str] = frozenset()
    """Names of Rebalances there that cannot be parsed."""
    skew: Skew | None = None
    """How uneven the load is; None if it is not known now."""
    is_measured: bool = False
    """Whether the brokers were asked in this pass."""


@dataclass(slots=True)
class AutoStep:
    """What is to be done: objects to create or delete, then the status, then Events."""

    status: AutoRebalanceStatus | None
    create: Rebalance | None = None
    delete: Rebalance | None = None
    events: list[StepEvent] = field(default_factory=list)


def measures_skew(cluster: BrokerCluster) -> bool:
    """Whether the brokers are to be asked how uneven their load is: no Rebalance is in progress,
    and uneven load may begin one."""
    status = cluster.status.auto_rebalance or NEW
    return (
        AutoRebalanceMode.IMBALANCE in _settings(cluster)
        and status.state is AutoRebalanceState.IDLE
        and not paused(cluster.metadata)
    )


def staying_brokers(world: World) -> tuple[BrokerId, ...]:
    """The brokers that serve and are not about to be removed."""
    return tuple(broker.broker_id for broker in brokers_of(world) if broker.is_usable)


def separable(world: World, cluster: BrokerCluster) -> int:
    """How many partitions have two replicas on one node or in one rack that a Rebalance may
    separate: another one is free, and no Topic places them there."""
    brokers = brokers_of(world)
    domains = SharedDomains.of(
        {one.broker_id: Place(one.rack, one.node) for one in brokers},
        [one.broker_id for one in brokers if one.is_usable],
    )
    pinned = pinned_partitions(world, cluster)
    partitions = partitions_of(found.spec for found in world.maps.values())
    return sum(
        name.partition not in pinned.get(name.topic, ()) and bool(domains.needless(state.target))
        for name, state in partitions.items()
    )


def next_step(view: AutoView, now: datetime) -> AutoStep:
    """The next step; it may be called as often as one likes."""
    cluster = view.cluster
    before = cluster.status.auto_rebalance
    is_ending = cluster.metadata.deletion_timestamp is not None
    if is_ending or paused(cluster.metadata):
        return AutoStep(status=before)
    if not cluster.spec.auto_rebalance:
        return AutoStep(status=None)
    if check_cluster(cluster):  # the planner reports it; until it is corrected, nothing begins
        return AutoStep(status=before)
    return _Steps(view, before or NEW, now.replace(microsecond=0)).step()


def not_created(step: AutoStep, why: str) -> AutoStep:
    """The step if the API server refused to create its Rebalance; `why` is what it said. The next
    pass tries again. The planner makes a condition of the failure, and an Event when it changes."""
    status, wanted = step.status, step.create
    assert status is not None, "a cluster without automatic Rebalances creates none"
    assert wanted is not None, "it was to be created"
    failure = (
        f"Rebalance {wanted.metadata.name} cannot be created: {why}. The operator tries it again: "
        "correct the template, the operator's permissions, or the policy that refuses it"
    )
    return AutoStep(status=replace(status, failure=failure[:MAX_MESSAGE_LENGTH]))


class _Steps:
    def __init__(self, view: AutoView, status: AutoRebalanceStatus, now: datetime) -> None:
        self._view = view
        self._before = status
        self._status = status
        self._now = now
        self._settings = _settings(view.cluster)
        self._step = AutoStep(status=status)

    def step(self) -> AutoStep:
        """Decide everything."""
        self._set(waits_until=None)
        self._note_skew()
        if self._status.state in RUN_STATES:
            self._follow()
        else:
            self._rest()
        if self._status.state is not self._before.state:
            self._set(last_transition_time=self._now)
        self._step.status = self._status
        return self._step

    # ---- a Rebalance of the operator ----

    def _follow(self) -> None:
        """Create the Rebalance that the status names, or find out whether it has ended."""
        name = self._status.rebalance or ""
        found = self._view.rebalances.get(name)
        if found is None:
            if name in self._view.unreadable:
                return
            if self._status.created:
                self._end("")  # somebody deleted it, so that it is not carried out
            else:
                self._create(name)
            return
        if not self._status.created:
            self._set(created=True, failure="")
        state, outcome = found.status.state, found.status.outcome
        if state is RebalanceState.READY:
            self._end("")
        elif state in {RebalanceState.NOT_READY, RebalanceState.STOPPED} or (
            state is RebalanceState.PROPOSAL_READY and outcome is not None
        ):
            self._end(_failure_of(found))

    def _create(self, name: str) -> None:
        """Create the Rebalance with this name; end the run if its template is gone."""
        by_state = {
            AutoRebalanceState.ON_SCALE_UP: AutoRebalanceMode.ADD_BROKERS,
            AutoRebalanceState.ON_IMBALANCE: AutoRebalanceMode.IMBALANCE,
        }
        settings = self._settings.get(by_state[self._status.state])
        if settings is None:  # it was taken out of the spec in the meantime
            self._give_up("")
            return
        template = self._template(settings)
        if isinstance(template, str):
            self._give_up(template)
            return
        cluster = self._view.cluster.metadata
        spec = replace(
            template,
            cluster_ref=ClusterRef(name=cluster.name),
            mode=RebalanceMode.ADD_BROKERS if self._status.brokers else RebalanceMode.FULL,
            brokers=self._status.brokers,
            approved_proposal=None,
        )
        metadata = Metadata(
            name=name,
            namespace=cluster.namespace,
            labels={labels.MANAGED_BY: labels.OPERATOR, labels.CLUSTER: cluster.name},
            annotations={labels.REBALANCE_AUTO_APPROVAL: "true"},
        )
        self._step.create = Rebalance(metadata=metadata, spec=spec)

    def _give_up(self, failure: str) -> None:
        """The Rebalance is not created, so that it leaves nothing."""
        if self._status.state is AutoRebalanceState.ON_IMBALANCE:
            self._set(left_brokers=())
        self._set(state=AutoRebalanceState.IDLE, rebalance=None, brokers=(), failure=failure)

    def _end(self, failure: str) -> None:
        """The Rebalance has ended. `failure` says why it failed; empty if it did not."""
        if failure:
            self._step.events.append(StepEvent(True, FAILED, failure))
        else:
            self._add_balanced(self._status.brokers)
        self._set(
            state=AutoRebalanceState.IDLE,
            finished_at=self._now,
            failure=failure[:MAX_MESSAGE_LENGTH],
            brokers=self._status.brokers if failure else (),
            imbalanced_since=None,
            uneven_goals=(),
        )

    # ---- what begins the next one ----

    def _rest(self) -> None:
        """No Rebalance of the operator is in progress: begin one if there is a reason."""
        if self._has_failed():
            self._set(state=AutoRebalanceState.IDLE)
            return
        if not _is_known(self._view.world):
            return
        self._set(state=AutoRebalanceState.IDLE)
        if self._is_removing():
            # Removed brokers are emptied anyway; nothing else moves in the meantime.
            if AutoRebalanceMode.REMOVE_BROKERS in self._settings:
                self._set(state=AutoRebalanceState.ON_SCALE_DOWN)
            return
        new = self._new_brokers()
        if not _is_at_rest(self._view):
            return
        due = [(AutoRebalanceMode.ADD_BROKERS, new)] if new else []
        if self._is_imbalanced_for_long():
            due.append((AutoRebalanceMode.IMBALANCE, ()))
        waits = []
        for mode, brokers in due:
            until = self._opens_at(mode)
            if until is None:
                self._begin(mode, brokers)
                return
            waits.append(until)
        self._set(waits_until=min(waits, default=None))

    def _opens_at(self, mode: AutoRebalanceMode) -> datetime | None:
        """When a Rebalance of this mode may begin; None if it may now."""
        settings = self._settings[mode]
        zone = read_zone(settings.time_zone or UTC)
        windows = [read_window(one.schedule, one.duration, zone) for one in settings.windows]
        return opens_at(windows, self._now)

    def _has_failed(self) -> bool:
        """Whether the last Rebalance has failed and nobody has done anything about it."""
        if not self._status.failure:
            return False
        if self._status.rebalance is None:  # its template is missing: try again
            self._set(failure="")
            return False
        name = self._status.rebalance
        found = self._view.rebalances.get(name)
        if name in self._view.unreadable:
            return True
        if found is None:
            is_addition = bool(self._status.brokers)
            left_brokers = self._status.left_brokers if is_addition else ()  # it is tried again
            self._set(failure="", brokers=(), left_brokers=left_brokers)
            return False
        if found.status.state is RebalanceState.READY:
            self._add_balanced(self._status.brokers)
            if not self._status.brokers:
                self._set(left=())  # what it left while it had failed
            self._set(failure="", brokers=(), finished_at=self._now)
            return False
        return True

    def _is_removing(self) -> bool:
        """Whether brokers are about to be removed."""
        return any(
            broker.spec.intent is BrokerIntent.REMOVE and not broker.spec.retired
            for broker in self._view.world.brokers.values()
        )

    def _new_brokers(self) -> tuple[BrokerId, ...]:
        """The brokers that were added and have not had their share of the load. If that was not
        recorded yet, those without any replica of users, unless nobody has one."""
        world = self._view.world
        staying = [broker.broker_id for broker in brokers_of(world)]
        holding = {
            broker_id
            for state in partitions_of(found.spec for found in world.maps.values()).values()
            for broker_id in state.holders
        }
        known = set(self._status.balanced_brokers) or holding
        if not holding:
            known = set(staying)  # there is nothing to move
        new = tuple(broker_id for broker_id in staying if broker_id not in known)
        is_wanted = AutoRebalanceMode.ADD_BROKERS in self._settings
        kept = staying if not is_wanted else [one for one in staying if one in known]
        self._set(balanced_brokers=tuple(sorted(kept)))
        return new if is_wanted else ()

    def _is_imbalanced_for_long(self) -> bool:
        """Whether the load has been uneven for long enough, and the last automatic Rebalance ended
        at least `MIN_INTERVAL` ago."""
        since, finished_at = self._status.imbalanced_since, self._status.finished_at
        if since is None or self._now - since < self._stays():
            return False
        return finished_at is None or self._now - finished_at >= MIN_INTERVAL

    def _stays(self) -> timedelta:
        """For how long the load must be uneven."""
        settings = self._settings.get(AutoRebalanceMode.IMBALANCE)
        if settings is None or settings.uneven_for is None:
            return STAYS
        return timedelta(milliseconds=duration_ms(settings.uneven_for))

    def _tolerated(self, goal: Goal, threshold: int) -> float:
        """How uneven the load may be for a goal: up to the threshold, and no more than a little
        above what the last Rebalance for that reason left. While that is not known yet, no load is
        too uneven."""
        is_by_number = goal is Goal.RACK_AWARE
        least = 0 if is_by_number else threshold
        if self._status.left_brokers != self._broker_ids():
            return least
        if not self._status.left:
            return inf
        left = next((one.value for one in self._status.left if one.goal == goal), None)
        if left is None:  # it was not a goal then
            return least
        return max(least, left if is_by_number else left + MIN_GROWTH_PERCENT)

    def _note_left(self, values: Mapping[Goal, int]) -> None:
        """Record what the last Rebalance left for each goal: the highest value in the first minutes
        after it, because rates vary from one minute to the next. Later it is lowered to the highest
        one of `LEFT_HOLDS`, and never raised: load that grows slowly grows too."""
        status = self._status
        is_of_others = status.left_brokers != self._broker_ids()
        if status.state in RUN_STATES or is_of_others or status.finished_at is None:
            return
        ended = self._now - status.finished_at
        if ended < SETTLES:
            return
        before = {one.goal: one for one in status.left}
        if not before and ended > LEFT_KNOWN_WITHIN:
            self._set(left_brokers=())  # the load may have become uneven since, for a new reason
            return
        is_first = not before or ended <= SETTLES + LEFT_WITHIN
        found = []
        for goal, value in sorted(values.items()):
            old = before.get(goal)
            if old is None or is_first:
                left = value if old is None else max(value, old.value)
                new = LeftUneven(
                    goal=goal.value, value=left, highest=value, highest_since=self._now
                )
            else:
                new = self._lowered(old, value)
            if old is not None or is_first:
                found.append(new)
        self._set(left=tuple(found))

    def _lowered(self, left: LeftUneven, value: int) -> LeftUneven:
        """What a Rebalance left, lowered to the highest value of `LEFT_HOLDS`, if these are over.
        `value` is the present one."""
        highest = max(value, left.highest)
        if self._now - left.highest_since < LEFT_HOLDS:
            return replace(left, highest=highest)
        lowered = min(left.value, highest)
        return replace(left, value=lowered, highest=value, highest_since=self._now)

    def _broker_ids(self) -> tuple[BrokerId, ...]:
        return tuple(broker.broker_id for broker in brokers_of(self._view.world))

    def _goals(self, settings: AutoRebalance) -> frozenset[Goal]:
        """What a Rebalance of this mode aims at; everything if its template cannot be used."""
        template = self._template(settings)
        try:
            return read_goals(() if isinstance(template, str) else template.goals)
        except RebalanceRefused:
            return frozenset(Goal)

    def _note_skew(self) -> None:
        """Record how uneven the load is, if the brokers were asked. If a broker did not answer, it
        is not known whether the load has stayed uneven."""
        settings = self._settings.get(AutoRebalanceMode.IMBALANCE)
        if settings is None:
            self._set(
                imbalanced_since=None,
                bytes_skew_percent=None,
                replicas_skew_percent=None,
                leaders_skew_percent=None,
                bytes_in_skew_percent=None,
                uneven_goals=(),
                left=(),
                left_brokers=(),
            )
        if settings is None or not self._view.is_measured:
            return
        skew, goals = self._view.skew, self._goals(settings)
        threshold = settings.threshold or DEFAULT_THRESHOLD_PERCENT
        self._set(
            bytes_skew_percent=None if skew is None else skew.bytes_percent,
            replicas_skew_percent=None if skew is None else skew.replicas_percent,
            leaders_skew_percent=None if skew is None else skew.leaders_for(goals),
            bytes_in_skew_percent=None if skew is None else skew.bytes_in_percent,
        )
        values = None if skew is None else skew.by_goal(goals)
        if values is None:
            self._set(imbalanced_since=None, uneven_goals=())
            return
        if Goal.RACK_AWARE in goals:
            values[Goal.RACK_AWARE] = separable(self._view.world, self._view.cluster)
        self._note_left(values)
        too_uneven = sorted(
            goal.value for goal, value in values.items() if value > self._tolerated(goal, threshold)
        )
        since = self._status.imbalanced_since or self._now
        self._set(imbalanced_since=since if too_uneven else None, uneven_goals=tuple(too_uneven))

    def _begin(self, mode: AutoRebalanceMode, brokers: tuple[BrokerId, ...]) -> None:
        """Record the name of a new Rebalance. It is created in the next pass, when the status has
        been written. The last one, which has ended, is deleted."""
        template = self._template(self._settings[mode])
        if isinstance(template, str):
            if template != self._before.failure:
                self._step.events.append(StepEvent(True, FAILED, template))
            self._set(failure=template, rebalance=None)
            return
        run = self._status.runs + 1
        name = _name(self._view.cluster.metadata, mode, run, self._now)
        last = self._view.rebalances.get(self._status.rebalance or "")
        if last is not None and last.status.state is RebalanceState.READY:
            self._step.delete = last
        is_addition = mode is AutoRebalanceMode.ADD_BROKERS
        if not is_addition:
            self._set(left=(), left_brokers=self._broker_ids())  # not known before it has ended
        self._set(
            state=AutoRebalanceState.ON_SCALE_UP
            if is_addition
            else AutoRebalanceState.ON_IMBALANCE,
            rebalance=name,
            created=False,
            brokers=brokers,
            runs=run,
        )
        why = (
            f"brokers {', '.join(map(str, brokers))} were added"
            if is_addition
            else f"the load has been uneven since {self._status.imbalanced_since:%H:%M:%S} UTC "
            f"({', '.join(self._status.uneven_goals)})"
        )
        self._step.events.append(StepEvent(False, BEGUN, f"{why}: Rebalance {name} begins"))

    def _template(self, settings: AutoRebalance) -> RebalanceSpec | str:
        """The spec that a Rebalance of this mode gets, or what is wrong with its template."""
        if settings.template is None:
            reference = ClusterRef(name=self._view.cluster.metadata.name)
            return RebalanceSpec(cluster_ref=reference, measure=RebalanceMeasure.BROKERS)
        found = self._view.rebalances.get(settings.template)
        where = f"the template of spec.autoRebalance mode {settings.mode}"
        if found is None:
            return (
                f"{where}: there is no Rebalance {settings.template} in namespace "
                f"{self._view.cluster.metadata.namespace} that can be parsed: create it, or remove "
                "the field template"
            )
        if not REBALANCE_TEMPLATE.is_set(found.metadata.annotations):
            return (
                f"{where}: Rebalance {settings.template} is not a template: set its annotation "
                f"{labels.REBALANCE_TEMPLATE} to true"
            )
        return found.spec

    def _add_balanced(self, brokers: Iterable[BrokerId]) -> None:
        """Record that these brokers are not new any more."""
        balanced = {*self._status.balanced_brokers, *brokers}
        self._set(balanced_brokers=tuple(sorted(balanced)))

    def _set(self, **changes: Any) -> None:
        """Change fields of the status."""
        self._status = replace(self._status, **changes)


def _settings(cluster: BrokerCluster) -> dict[AutoRebalanceMode, AutoRebalance]:
    """The cluster's settings, by mode."""
    return {settings.mode: settings for settings in cluster.spec.auto_rebalance}


def _is_known(world: World) -> bool:
    """Whether all brokers and partitions of the cluster are known."""
    return world.is_complete and not (world.unreadable_brokers or world.unreadable_maps)


def _is_at_rest(view: AutoView) -> bool:
    """Whether all brokers that the spec asks for serve, and nothing is moving: only then the load
    is where it will be."""
    if view.world.rebalances:  # those whose moves are in progress
        return False
    brokers = brokers_of(view.world)
    if len(brokers) != view.cluster.spec.replicas or not all(one.is_usable for one in brokers):
        return False
    partitions = partitions_of(found.spec for found in view.world.maps.values())
    return not any(state.is_moving for state in partitions.values())


def _failure_of(rebalance: Rebalance) -> str:
    """Why a Rebalance has failed, and what to do."""
    ready = next(
        (one for one in rebalance.status.conditions if one.type == ConditionType.READY), None
    )
    why = f" ({ready.message})" if ready is not None and ready.message else ""
    name, state = rebalance.metadata.name, rebalance.status.state
    return (
        f"Rebalance {name} is {state}{why}: set its annotation {labels.REBALANCE} to refresh, or "
        "delete it; until then no automatic one begins"
    )


def _name(metadata: Metadata, mode: AutoRebalanceMode, run: int, now: datetime) -> str:
    """The name of a new Rebalance. Its hash has the time, so that it is new even if the number of
    the run was lost with the status."""
    text = f"{metadata.uid} {mode} {run} {now.isoformat()}"
    return f"{metadata.name}-auto-{mode}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
