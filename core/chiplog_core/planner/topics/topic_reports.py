"""Statuses and Events of Topics."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from chiplog_core.admin.ownership import set_by_clients_only
from chiplog_core.ids import BrokerId
from chiplog_core.model.actions import Announce, Report
from chiplog_core.model.annotations import field_of, shown, unknown_keys
from chiplog_core.model.conditions import ConditionType, Verdict, merge
from chiplog_core.model.partition_map import (
    PartitionMap,
    PartitionMapSpec,
    PartitionState,
    fewest_replicas,
)
from chiplog_core.model.topic import ReplicasChange, ReplicasChangeState, Topic, TopicStatus
from chiplog_core.model.verdicts import (
    fails,
    holds,
    paused_verdict,
    problems_text,
    refused,
    unmanaged_verdict,
)
from chiplog_core.naming import api, labels
from chiplog_core.observed.settings import paused, unmanaged
from chiplog_core.planner.counts import TopicCounts
from chiplog_core.planner.leadership.regression import unread_losses
from chiplog_core.planner.placement.assignments import Placements, in_force
from chiplog_core.planner.topics.damage_reports import (
    DamagedReplica,
    damage_by_topic,
    damage_events,
    damage_verdict,
)
from chiplog_core.planner.topics.disturbances import disturbance
from chiplog_core.planner.topics.maps_plan import MapsPlan, Situation, Wait
from chiplog_core.planner.topics.remapped_keys import remapped_share
from chiplog_core.problems import Problem
from chiplog_core.validate.topic import warn_about_topic

KEYS_REMAPPED = "KeysRemapped"


def topic_reports(
    situation: Situation, plan: MapsPlan, counts: dict[str, TopicCounts]
) -> Iterator[Report | Announce]:
    """The status of every Topic for which it changed, and Events."""
    reporter = _Reporter(situation, plan, counts)
    for topic in situation.world.topics:
        status = reporter.status(topic)
        if status is not None and status != topic.status:
            yield Report(kind=api.TOPIC, metadata=topic.metadata, status=status)
            yield from damage_events(topic, status, reporter.damage_of(topic))


class _Reporter:
    """Determines the status of each Topic."""

    def __init__(
        self, situation: Situation, plan: MapsPlan, counts: dict[str, TopicCounts]
    ) -> None:
        self._situation = situation
        self._plan = plan
        self._counts = counts
        self._damage = damage_by_topic(situation.world)

    def damage_of(self, topic: Topic) -> Sequence[DamagedReplica]:
        """The damaged replicas of the topic that the Topic owns; empty if it owns none."""
        partition_map = self._owned_map(topic) if self._damage else None
        current = None if partition_map is None else partition_map.spec.current
        return () if current is None else self._damage.get(current, ())

    def status(self, topic: Topic) -> TopicStatus | None:
        """The status to publish; None if the Topic is being deleted or this plan changes its map:
        the next plan, which sees the change, reports it."""
        if topic.metadata.deletion_timestamp is not None:
            return None
        uid, name = topic.metadata.uid, topic.topic_name
        partition_map = self._owned_map(topic)
        problems = (
            *self._situation.ownership.problems.get(uid, ()),
            *self._plan.problems.get(uid, ()),
        )
        ready = refused(problems) if problems else self._ready(topic, partition_map)
        if ready is None or (not problems and name in self._plan.changing):
            return None
        status = replace(
            topic.status,
            observed_generation=topic.metadata.generation,
            topic_name=name,
            replicas_change=None,
        )
        if partition_map is not None:
            status = _described(status, partition_map.spec)
            wanted = None if problems else topic.spec.asked_replicas
            change = _replicas_change(
                partition_map.spec.current_partitions,
                wanted,
                in_force(topic.spec, self._situation.world.brokers),
                self._plan.moves_waiting.get(name),
            )
            status = replace(status, replicas_change=change)
        verdicts = (ready, *self._others(topic, partition_map))
        return replace(
            status,
            conditions=merge(
                topic.status.conditions,
                verdicts,
                observed_generation=topic.metadata.generation,
                now=self._situation.now,
            ),
        )

    def _owned_map(self, topic: Topic) -> PartitionMap | None:
        """The PartitionMap that the Topic owns; None if it owns none."""
        found = self._situation.world.maps.get(topic.topic_name)
        is_owner = found is not None and found.spec.owner_uid == topic.metadata.uid
        return found if is_owner else None

    def _ready(self, topic: Topic, partition_map: PartitionMap | None) -> Verdict | None:
        """The condition Ready, for a Topic without problems in its spec. None if its finalizer or
        its map is only being written."""
        wait = self._plan.waits.get(topic.metadata.uid)
        if partition_map is None:
            return self._ready_without_map(topic, wait)
        counts = self._counts.get(topic.topic_name)
        disturbed = disturbance(self._situation, partition_map.spec, counts)
        if disturbed is not None:
            return fails(ConditionType.READY, *disturbed)
        if wait is not None:
            return _waiting(wait)
        return holds(ConditionType.READY, "Ready")

    def _ready_without_map(self, topic: Topic, wait: Wait | None) -> Verdict | None:
        """The condition Ready of a Topic without a map; None if one is about to be created."""
        if wait is not None:
            return _waiting(wait)
        if paused(topic.metadata) or unmanaged(topic.metadata):
            message = (
                "an annotation pauses this Topic or makes it unmanaged, so the topic is not "
                "created: remove the annotation"
            )
            return fails(ConditionType.READY, "Unmanaged", message)
        if self._situation.settings.is_paused:
            message = "the BrokerCluster is paused: the topic is created when it is resumed"
            return fails(ConditionType.READY, "Paused", message)
        if self._situation.settings.cluster is None:
            message = "the spec of the BrokerCluster cannot be parsed: correct it"
            return fails(ConditionType.READY, "WaitingForCluster", message)
        return None  # its finalizer or its map is being written

    def _others(self, topic: Topic, partition_map: PartitionMap | None) -> Iterator[Verdict]:
        """All conditions except Ready."""
        if unmanaged(topic.metadata):
            yield unmanaged_verdict(topic.metadata)
        if paused(topic.metadata):
            yield paused_verdict(topic.metadata)
        counts = self._counts.get(topic.topic_name)
        # If reports are wanted although there is a leader, the map is older than what brokers know.
        led = [state for state in counts.awaiting_reports if state.leader] if counts else []
        if led:
            message = (
                "brokers have applied newer metadata of the topic than the API server has, as "
                "after etcd was restored from a backup; the operator elects no leaders until all "
                "replicas have reported, and the condition Ready shows which have not"
            )
            yield holds(ConditionType.METADATA_REGRESSED, "BrokersKnowMore", message)
        if damaged := self.damage_of(topic):
            yield damage_verdict(damaged)
        yield from self._changed_by_clients(topic)
        tolerated = self._situation.ownership.tolerated.get(topic.metadata.uid, ())
        warning = _warning(topic, partition_map, tolerated)
        if warning is not None:
            yield warning

    def _changed_by_clients(self, topic: Topic) -> Iterator[Verdict]:
        """The condition ChangedByClients, if Kafka clients set fields that no manifest contains."""
        managed_fields = self._situation.world.managed_fields.get(topic.metadata.uid)
        if fields := set_by_clients_only(managed_fields, topic.metadata.annotations):
            message = (
                f"Kafka clients have set {', '.join(fields)}, which no manifest contains, so "
                "`kubectl diff` does not show it. Add it to the manifest to keep it, or revert it "
                "with a Kafka client or kubectl edit"
            )
            yield holds(ConditionType.CHANGED_BY_CLIENTS, "FieldsSet", message)


def _warning(
    topic: Topic, partition_map: PartitionMap | None, tolerated: Sequence[Problem]
) -> Verdict | None:
    """The condition Warning; None if there is nothing to warn about.

    `tolerated` are policies that the topic broke before they were made.
    """
    problems = (*warn_about_topic(topic), *tolerated, *_annotation_problems(topic))
    message = _growth_message(topic, partition_map)
    texts = [text for text in (message, problems_text(problems)) if text]
    if not texts:
        return None
    reason = KEYS_REMAPPED if message else problems[0].reason.value
    return holds(ConditionType.WARNING, reason, "; ".join(texts))


def _annotation_problems(topic: Topic) -> Iterator[Problem]:
    """Problems with unknown annotation keys, and with a value of the unclean-election annotation
    that cannot be parsed. Annotations that pause or unmanage the Topic have their own conditions.
    """
    yield from unknown_keys(topic.metadata)
    consent = topic.metadata.annotations.get(labels.UNCLEAN_ELECTION, "")
    if unread := unread_losses(consent):
        yield Problem(
            field_of(labels.UNCLEAN_ELECTION),
            f"has {shown(unread[0])}, which is not a valid value",
            "copy the value that the Ready condition shows, like 3@17 or 3@17/2+5",
        )


def _growth_message(topic: Topic, partition_map: PartitionMap | None) -> str:
    """The warning that keys moved to other partitions; empty if the topic did not grow.

    It is published when the map has more partitions than the status, and is then copied from the
    published condition until the Topic's spec changes again.
    """
    before = topic.status.partitions
    if partition_map is not None and before is not None:
        now = _partitions(partition_map.spec)
        if now > before:
            return (
                f"the topic grew from {before} to {now} partitions by Append: about "
                f"{float(remapped_share(before, now)):.0%} of all keys now map to other "
                "partitions, so a key's records keep their order before the change and after it, "
                "but not across it"
            )
    for condition in topic.status.conditions:
        is_growth = condition.type == ConditionType.WARNING and condition.reason == KEYS_REMAPPED
        if is_growth and condition.observed_generation == topic.metadata.generation:
            return condition.message.partition("; ")[0]
    return ""


def _waiting(wait: Wait) -> Verdict:
    """The condition Ready of a Topic that waits, with why it waits."""
    return fails(ConditionType.READY, wait.reason, wait.message)


def _described(status: TopicStatus, spec: PartitionMapSpec) -> TopicStatus:
    """The status with the topic id and the numbers of partitions and replicas of the map."""
    current = spec.current_partitions
    return replace(
        status,
        topic_id=spec.current,
        partitions=len(current),
        replicas=fewest_replicas(current) if current else 0,
    )


def _replicas_change(
    partitions: Sequence[PartitionState],
    wanted: int | None,
    assigned: Placements,
    why_waiting: str | None,
) -> ReplicasChange | None:
    """The progress of a change of the number of replicas, or of `assigned`, the partitions that the
    Topic places; None if there is none. `why_waiting` is why a partition cannot begin to move; None
    if all can, or only wait for others to be copied."""
    if wanted is None:
        return None

    def is_right(state: PartitionState, replicas: Sequence[BrokerId]) -> bool:
        target = assigned.get(state.partition)
        if target is None:
            return len(replicas) == wanted
        return sorted(replicas) == sorted(target)

    waiting = sum(not is_right(state, state.target) for state in partitions)
    done = sum(not state.is_moving and is_right(state, state.replicas) for state in partitions)
    moving = len(partitions) - waiting - done
    if not waiting and all(is_right(state, state.assigned) for state in partitions):
        return None
    has_begun = done or moving
    how = f"have {wanted} replicas"
    if assigned:
        how = f"{how}, on the brokers of spec.assignments if it names them"
    return ReplicasChange(
        target_replicas=wanted,
        state=ReplicasChangeState.ONGOING if has_begun else ReplicasChangeState.PENDING,
        message=f"{done} of {len(partitions)} partitions {how}, {moving} are "
        f"being changed, {waiting} wait" + (f" ({why_waiting})" if why_waiting else ""),
    )


def _partitions(spec: PartitionMapSpec) -> int:
    """The number of partitions of the current generation; 0 while the topic is deleted."""
    return sum(
        len(generation.partitions)
        for generation in spec.generations
        if generation.topic_id == spec.current
    )
