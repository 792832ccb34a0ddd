"""Reports to the owners of Topics about damaged replicas.

A Topic has the condition ReplicasDamaged as long as one of its replicas is damaged. There is an
Event when damage is found and when the last damaged replica was replaced. Which damage was reported
before is read from the published condition, so that a restarted operator does not report it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from chiplog_core.ids import BrokerId, TopicId
from chiplog_core.model.actions import Announce, EventType
from chiplog_core.model.broker_status import DamagedPartition
from chiplog_core.model.conditions import ConditionType, Verdict
from chiplog_core.model.topic import Topic, TopicStatus
from chiplog_core.model.verdicts import holds
from chiplog_core.naming import api
from chiplog_core.observed.world import World

QUARANTINED = "Quarantined"
REFETCHING = "Refetching"
MOST = 10
"""Damaged replicas that one message lists; the others are only counted."""


class DamagedReplica(NamedTuple):
    """A damaged replica, and the id of the broker that holds it."""

    broker_id: BrokerId
    damage: DamagedPartition

    @property
    def name(self) -> str:
        """The replica as messages name it, like "partition 3 on broker 2"."""
        return f"partition {self.damage.partition} on broker {self.broker_id}"

    def __str__(self) -> str:
        """The damage in one sentence, for messages."""
        damage = self.damage
        offset = "" if damage.offset is None else f" from offset {damage.offset} on"
        text = f"{self.name} is damaged in {damage.file}{offset}"
        return f"{text}; it is being fetched again from the leader" if damage.refetching else text


DamageByTopic = Mapping[TopicId, Sequence[DamagedReplica]]


def damage_by_topic(world: World) -> DamageByTopic:
    """The damaged replicas that brokers report, sorted by partition and broker."""
    found: dict[TopicId, list[DamagedReplica]] = {}
    for broker_id, broker in sorted(world.brokers.items()):
        if broker.spec.retired:
            continue
        for directory in broker.status.directories:
            for damage in directory.damaged:
                found.setdefault(damage.topic_id, []).append(DamagedReplica(broker_id, damage))
    for of_topic in found.values():
        of_topic.sort(key=lambda damaged: (damaged.damage.partition, damaged.broker_id))
    return found


def damage_verdict(found: Sequence[DamagedReplica]) -> Verdict:
    """The condition ReplicasDamaged, which lists the damaged replicas. `found` is not empty."""
    are_all_refetched = all(damaged.damage.refetching for damaged in found)
    lines = [str(damaged) for damaged in found[:MOST]]
    if len(found) > MOST:
        lines.append(f"and {len(found) - MOST} more")
    reason = REFETCHING if are_all_refetched else QUARANTINED
    return holds(ConditionType.REPLICAS_DAMAGED, reason, ". ".join(lines))


def damage_events(
    topic: Topic, status: TopicStatus, found: Sequence[DamagedReplica]
) -> Iterator[Announce]:
    """Events for damage that the new status reports and the published one does not, and one Event
    when no replica is damaged any more."""
    before, after = _damage_message(topic.status), _damage_message(status)
    for damaged in found[:MOST]:
        # "is" ends the name: without it, "broker 1" would also be found in "broker 12".
        if f"{damaged.name} is" in after and f"{damaged.name} is" not in before:
            why = damaged.damage.message or "its bytes are not what was written"
            yield _event(topic, EventType.WARNING, "ReplicaDamaged", f"{damaged}: {why}")
    if before and not after:
        message = "every damaged replica has been restored"
        yield _event(topic, EventType.NORMAL, "ReplicasRebuilt", message)


def _damage_message(status: TopicStatus) -> str:
    """The message of the condition ReplicasDamaged; empty if the status has no such condition."""
    for condition in status.conditions:
        if condition.type == ConditionType.REPLICAS_DAMAGED:
            return condition.message
    return ""


def _event(topic: Topic, kind: EventType, reason: str, message: str) -> Announce:
    """An Event about the Topic."""
    return Announce(
        kind=topic.KIND.kind,
        api_version=api.API_VERSION,
        metadata=topic.metadata,
        type=kind,
        reason=reason,
        message=message,
    )
