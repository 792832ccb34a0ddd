"""One pass over the consumer groups of a cluster: the requests to brokers, their answers, and the
statuses to write.

The operator calls the methods in this order, and does the I/O in between: `facts_requests`,
`take_facts`; then `retention_requests` and `position_requests`, `take_retention` and
`take_positions`; then `finish`. Every pass starts from the beginning, so the operator may stop a
pass at any point.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from chiplog_core.group_watch.claims import GroupOwners, find_group_owners, not_deleted
from chiplog_core.group_watch.discovery import needless_objects, new_objects
from chiplog_core.group_watch.due import (
    Allowance,
    cost_ms,
    has_moved,
    new_allowance,
    urgency,
)
from chiplog_core.group_watch.lags import (
    Ends,
    Lags,
    Moment,
    committed_of,
    ends_of,
    find_lags,
)
from chiplog_core.group_watch.memory import Known, UnreachablePartitions, gone_ms
from chiplog_core.group_watch.pace import requeue_after_ms
from chiplog_core.group_watch.requests import Coordinators, position_requests
from chiplog_core.group_watch.scene import Scene
from chiplog_core.group_watch.statuses import (
    ObservedState,
    Others,
    group_status,
    is_retention_due,
    retention_ms,
    status_without_figures,
)
from chiplog_core.groups.at import At
from chiplog_core.ids import BrokerId
from chiplog_core.limits import MAX_EXCHANGED_GROUPS
from chiplog_core.model.actions import Action, Announce, EventType, Report
from chiplog_core.model.conditions import ConditionStatus, ConditionType
from chiplog_core.model.consumer_group import ConsumerGroup
from chiplog_core.model.group_exchange import (
    GroupFacts,
    GroupRetention,
    GroupsAnswer,
    GroupsRequest,
    Positions,
    PositionsRequest,
    RetentionAnswer,
    RetentionRequest,
    lag_records,
)
from chiplog_core.model.group_status import ConsumerGroupStatus, GroupState
from chiplog_core.model.partition_map import PartitionMapSpec
from chiplog_core.model.verdicts import fails, refused
from chiplog_core.naming import api
from chiplog_core.topic_name import CONSUMER_OFFSETS

MAX_RETENTIONS = MAX_EXCHANGED_GROUPS
STILL_MS = 2**62
"""Stands for the time since the last change of a figure, if none has changed yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFigures:
    """A group's exact figures, for metrics."""

    group_id: str
    members: int
    lags: Lags


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedGroup:
    """A ConsumerGroup that owns its group, and the findings of this pass."""

    group: ConsumerGroup
    coordinator: BrokerId | None
    """None while the group's partition of `__consumer_offsets` has no leader."""
    facts: GroupFacts | None
    """None if the coordinator did not answer."""
    lags: Lags | None
    may_change: bool
    """Whether the ConsumerGroup may change its group, for example reset it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """The result of a pass."""

    actions: tuple[Action, ...]
    figures: tuple[GroupFigures, ...]
    """The figures of every group that answered and has an object."""
    requeue_after_ms: int
    """When the next pass is due, from the start of this one."""


@dataclass(slots=True)
class GroupWatch:
    """The passes over one cluster's groups, with the memory between passes. A time in milliseconds
    is of a monotonic clock; a `datetime` is of the wall clock."""

    _known: dict[str, Known] = field(default_factory=dict)
    """By group id."""
    _unreachable: UnreachablePartitions = field(default_factory=UnreachablePartitions)
    _allowances: dict[str, Allowance] = field(default_factory=dict)
    """By uid of the ConsumerGroup."""
    _seen: dict[str, ConsumerGroupStatus] = field(default_factory=dict)
    """The statuses of the last pass, written or not, by uid of the ConsumerGroup."""
    _times_ms: dict[Moment, int] = field(default_factory=dict)
    """The timestamps of the next records to consume, in milliseconds since 1970."""
    _moved_ms: int | None = None
    """When a figure of any group last changed."""
    # -- of the pass in progress
    _group_owners: GroupOwners = field(default_factory=GroupOwners)
    _offsets: PartitionMapSpec | None = None
    """The PartitionMap of `__consumer_offsets`."""
    _coordinators: Coordinators = field(default_factory=lambda: Coordinators({}))
    _found: frozenset[str] = frozenset()
    """The ids of the groups that coordinators reported as existing."""
    _is_asking: bool = False
    """Whether there are groups to ask about."""

    def facts_requests(self, scene: Scene) -> dict[BrokerId, list[GroupsRequest]]:
        """Begin a pass: the requests to each coordinator."""
        self._group_owners = find_group_owners(scene)
        offsets = scene.find_topic(CONSUMER_OFFSETS)
        if offsets is not self._offsets:
            self._offsets, self._coordinators = offsets, Coordinators.of(offsets)
        self._is_asking = scene.exists and (bool(self._group_owners.owners) or scene.discovers)
        if not self._is_asking:
            return {}
        return self._coordinators.requests(self._group_owners.owners, all_groups=scene.discovers)

    def take_facts(
        self, scene: Scene, answers: Mapping[BrokerId, Sequence[GroupsAnswer]], now_ms: int
    ) -> None:
        """Record the coordinators' answers. A broker that did not answer every request is not in
        `answers`."""
        answers_of = {facts.group_id: facts for facts in _facts_of(answers)}
        answered_partitions = {
            partition.partition
            for broker_answers in answers.values()
            for answer in broker_answers
            for partition in answer.partitions
            if partition.refusal is None
        }
        self._found = frozenset(
            facts.group_id
            for facts in answers_of.values()
            if facts.refusal is None and facts.state is not GroupState.DEAD
        )
        before, self._known = self._known, {}
        for group_id in self._group_owners.owners:
            facts = answers_of.get(group_id)
            if facts is None and self._coordinators.partition_of(group_id) in answered_partitions:
                # The coordinator answered for all groups of the partition, without this one.
                facts = GroupFacts(
                    group_id=group_id,
                    state=GroupState.DEAD,
                    coordinator=self._coordinators.of_group(group_id),
                )
            known = before.get(group_id, Known())
            if facts is None or facts.refusal is not None:
                self._known[group_id] = known.not_answered(self._why(group_id, facts), now_ms)
            else:
                is_gone = facts.state is GroupState.DEAD
                self._known[group_id] = known.answered(facts, now_ms, is_gone=is_gone)

    def retention_requests(self) -> dict[BrokerId, RetentionRequest]:
        """The requests to coordinators to store the offsetRetention of the specs, if they have
        stored another one."""
        wanted: dict[BrokerId, list[GroupRetention]] = {}
        for group_id, group in self._group_owners.owners.items():
            facts, broker_id = self._facts(group_id), self._coordinators.of_group(group_id)
            if facts is None or broker_id is None:
                continue
            if self._group_owners.may_change(group) and is_retention_due(group, facts):
                retention = GroupRetention(group_id=group_id, retention_ms=retention_ms(group))
                wanted.setdefault(broker_id, []).append(retention)
        return {
            broker_id: RetentionRequest(groups=tuple(groups[:MAX_RETENTIONS]))
            for broker_id, groups in wanted.items()
        }

    def take_retention(self, asked: RetentionRequest, answer: RetentionAnswer) -> None:
        """Record which retentions a coordinator has stored, as its answer says, so that they are
        not sent again."""
        wanted = {retention.group_id: retention.retention_ms for retention in asked.groups}
        for stored in answer.groups:
            known = self._known.get(stored.group_id)
            if stored.refusal is None and known and known.facts and stored.group_id in wanted:
                facts = replace(known.facts, offset_retention_ms=wanted[stored.group_id])
                self._known[stored.group_id] = replace(known, facts=facts)

    def position_requests(self, scene: Scene) -> dict[BrokerId, list[PositionsRequest]]:
        """The requests to the partitions' leaders: for end offsets that the coordinator did not
        report, and for timestamps of the next records to consume that are not known yet."""
        ends, times = set(), set()
        for group_id in self._group_owners.owners:
            facts = self._facts(group_id)
            for at, committed, end in committed_of(facts) if facts else ():
                if end is None:
                    ends.add(at)
                has_lag = committed >= 0 and (end is None or lag_records(committed, end) > 0)
                if has_lag and self._times_ms.get(Moment(at, committed), -1) < 0:
                    times.add(Moment(at, committed))
        return position_requests(ends, times, scene.find_topic)

    def take_positions(self, answers: Iterable[Positions], now: datetime, now_ms: int) -> None:
        """Record the leaders' answers, for the groups whose coordinators answered in this pass."""
        ends = ends_of(answers)
        # The timestamp of a record does not change. It is kept as long as the record is the next
        # one to consume, so that it is requested only once.
        ends = Ends(offsets=ends.offsets, times_ms={**self._times_ms, **ends.times_ms})
        wall_ms = int(now.timestamp() * 1000)
        unreachable: set[At] = set()
        used_times_ms: dict[Moment, int] = {}
        for group_id in self._group_owners.owners:
            known, facts = self._known[group_id], self._facts(group_id)
            if facts is None:
                continue
            before = known.lags.partitions if known.lags else ()
            lags = find_lags(facts, ends, wall_ms, before)
            unreachable |= lags.unreachable
            for at, committed, _ in committed_of(facts):
                moment = Moment(at, committed)
                if moment in ends.times_ms:
                    used_times_ms[moment] = ends.times_ms[moment]
            self._known[group_id] = replace(known, lags=lags)
        self._times_ms = used_times_ms
        self._unreachable.update(unreachable, now_ms)

    def finish(self, scene: Scene, now: datetime, began_ms: int, now_ms: int) -> GroupPlan:
        """End the pass: the statuses to write, and when the next pass is due. `began_ms` is when
        the pass began."""
        groups = not_deleted(scene.groups)
        cost = cost_ms(len(groups))
        actions: list[Action] = []
        seen: dict[str, ConsumerGroupStatus] = {}
        for group in groups:
            status = self._status(scene, group, now, now_ms)
            if status is None:
                continue
            uid = group.metadata.uid
            before = self._seen.get(uid, group.status)
            seen[uid] = status
            if has_moved(before, status):
                self._moved_ms = now_ms
            allowance = self._allowances.get(uid) or new_allowance(now_ms, cost)
            if allowance.allows(urgency(group.status, status, before), now_ms, cost):
                allowance = allowance.spent(now_ms, cost)
                actions += _reports(group, status)
            self._allowances[uid] = allowance
        self._seen = seen
        self._allowances = {
            uid: allowance for uid, allowance in self._allowances.items() if uid in seen
        }
        actions += new_objects(scene, self._group_owners, self._found)
        actions += needless_objects(scene, self._group_owners, gone_ms(self._known, now_ms))
        moved_ms = self._moved_ms
        return GroupPlan(
            actions=tuple(actions),
            figures=tuple(self._figures()),
            requeue_after_ms=requeue_after_ms(
                asked=self._is_asking,
                still_ms=STILL_MS if moved_ms is None else now_ms - moved_ms,
                took_ms=now_ms - began_ms,
            ),
        )

    def observed(self) -> list[ObservedGroup]:
        """After `take_positions`: the ConsumerGroups that own their groups, with the findings of
        this pass."""
        return [
            ObservedGroup(
                group=group,
                coordinator=self._coordinators.of_group(group_id),
                facts=self._facts(group_id),
                lags=self._lags(group_id),
                may_change=self._group_owners.may_change(group),
            )
            for group_id, group in self._group_owners.owners.items()
        ]

    def _status(
        self, scene: Scene, group: ConsumerGroup, now: datetime, now_ms: int
    ) -> ConsumerGroupStatus | None:
        """The status of a ConsumerGroup; None if nothing is known about its group yet."""
        if not scene.exists:
            return status_without_figures(
                group, fails(ConditionType.READY, *_no_cluster(scene)), now
            )
        problems = self._group_owners.problems[group.metadata.uid]
        owner = self._group_owners.owners.get(group.group_id)
        if owner is None or owner.metadata.uid != group.metadata.uid:
            return status_without_figures(group, refused(problems), now)
        known = self._known.get(group.group_id, Known())
        silent = known.silent(now_ms)
        if known.facts is None and not silent and not problems:
            return None
        unreachable = known.lags.unreachable if known.lags else frozenset()
        observed = ObservedState(
            facts=known.facts,
            lags=known.lags,
            silent=silent,
            old_partitions=self._unreachable.for_long(unreachable, now_ms),
            may_change=self._group_owners.may_change(group),
        )
        uid = group.metadata.uid
        others = Others(reset=scene.resets.get(uid), scaled=scene.scaled.get(uid))
        return group_status(group, observed, problems, now, others)

    def _facts(self, group_id: str) -> GroupFacts | None:
        """The group's facts, if its coordinator answered in this pass."""
        known = self._known.get(group_id)
        return known.facts if known is not None and known.is_current else None

    def _lags(self, group_id: str) -> Lags | None:
        """The group's lags, if its coordinator answered in this pass."""
        known = self._known.get(group_id)
        return known.lags if known is not None and known.is_current else None

    def _why(self, group_id: str, facts: GroupFacts | None) -> str:
        """Why the group's coordinator has not answered. `facts` has its refusal, if it sent one."""
        partition = self._coordinators.partition_of(group_id)
        if partition is None:
            return "the cluster has no __consumer_offsets yet"
        broker_id = self._coordinators.of_group(group_id)
        if broker_id is None:
            return f"partition {partition} of __consumer_offsets has no leader"
        if facts is None or facts.refusal is None:
            return f"broker {broker_id}, which coordinates the group, does not answer"
        return (
            f"broker {broker_id}, which should coordinate the group, answers with the error "
            f"{facts.refusal.value}"
        )

    def _figures(self) -> Iterable[GroupFigures]:
        """The figures for metrics."""
        for group_id in sorted(self._group_owners.owners):
            facts, lags = self._facts(group_id), self._lags(group_id)
            if facts is not None and lags is not None:
                yield GroupFigures(group_id=group_id, members=facts.member_count, lags=lags)


def _facts_of(answers: Mapping[BrokerId, Sequence[GroupsAnswer]]) -> Iterable[GroupFacts]:
    """The facts about each group, from all answers."""
    for broker_answers in answers.values():
        for answer in broker_answers:
            yield from answer.groups


def _no_cluster(scene: Scene) -> tuple[str, str]:
    """Reason and message if the BrokerCluster does not exist."""
    message = (
        f"there is no BrokerCluster {scene.metadata.name} in namespace "
        f"{scene.metadata.namespace}: create it, or correct spec.clusterRef in a new "
        "ConsumerGroup. The operator does not see clusters in namespaces that it does not watch"
    )
    return "ClusterNotFound", message


def _reports(group: ConsumerGroup, status: ConsumerGroupStatus) -> Iterable[Action]:
    """The write of a status, and an Event when the lag objective is broken or met again."""
    yield Report(kind=api.CONSUMER_GROUP, metadata=group.metadata, status=status)
    before, after = _objective(group.status), _objective(status)
    if after is None:
        return
    was_broken = before is not None and before[0] is ConditionStatus.FALSE
    is_broken = after[0] is ConditionStatus.FALSE
    if is_broken is not was_broken:
        yield Announce(
            kind=api.CONSUMER_GROUP.kind,
            api_version=api.API_VERSION,
            metadata=group.metadata,
            type=EventType.WARNING if is_broken else EventType.NORMAL,
            reason=after[1],
            message=after[2] or "the lag is within spec.maxLag again",
        )


def _objective(status: ConsumerGroupStatus) -> tuple[ConditionStatus, str, str] | None:
    """Status, reason and message of the condition LagWithinObjective; None without it."""
    for condition in status.conditions:
        if condition.type == ConditionType.LAG_WITHIN_OBJECTIVE:
            return condition.status, condition.reason, condition.message
    return None
