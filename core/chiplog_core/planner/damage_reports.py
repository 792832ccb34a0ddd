"""Reports to the owners of Topics about replicas whose data is wrong.

A condition as long as there is one, and an Event when one is found and when it is whole again.
Which were known before is read from the condition that is published, so that an operator that
starts again does not report everything again.
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
"""How many are listed one by one."""


class Found(NamedTuple):
    """A damaged replica and whose it is."""

    broker_id: BrokerId
    damage: DamagedPartition

    @property
    def name(self) -> str:
        return f"partition {self.damage.partition} on broker {self.broker_id}"

    def __str__(self) -> str:
        """The damage in one sentence, for messages."""
        damage = self.damage
        offset = "" if damage.offset is None else f" from offset {damage.offset} on"
        text = f"{self.name} is damaged in {damage.file}{offset}"
        return f"{text}; it is being fetched again from the leader" if damage.refetching else text


DamageByTopic = Mapping[TopicId, Sequence[Found]]


def damage_by_topic(world: World) -> DamageByTopic:
    """The damaged replicas that brokers report, sorted by partition and broker."""
    found: dict[TopicId, list[Found]] = {}
    for broker_id, broker in sorted(world.brokers.items()):
        if broker.spec.retired:
            continue
        for directory in broker.status.directories:
            for damage in directory.damaged:
                found.setdefault(damage.topic_id, []).append(Found(broker_id, damage))
    for of_topic in found.values():
        of_topic.sort(key=lambda damaged: (damaged.damage.partition, damaged.broker_id))
    return found


def damage_verdict(found: Sequence[Found]) -> Verdict:
    """The verdict for ReplicasDamaged. `found` is not empty."""
    is_all_on_the_way = all(damaged.damage.refetching for damaged in found)
    lines = [str(damaged) for damaged in found[:MOST]]
    if len(found) > MOST:
        lines.append(f"and {len(found) - MOST} more")
    reason = REFETCHING if is_all_on_the_way else QUARANTINED
    return holds(ConditionType.REPLICAS_DAMAGED, reason, ". ".join(lines))


def damage_events(topic: Topic, status: TopicStatus, found: Sequence[Found]) -> Iterator[Announce]:
    """Events for damage that the new status reports and the one before did not."""
    before, after = _damage_message(topic.status), _damage_message(status)
    for damaged in found[:MOST]:
        if f"{damaged.name} is" in after and f"{damaged.name} is" not in before:
            why = damaged.damage.message or "its bytes are not what was written"
            yield _event(topic, EventType.WARNING, "ReplicaDamaged", f"{damaged}: {why}")
    if before and not after:
        message = "every damaged replica has been restored"
        yield _event(topic, EventType.NORMAL, "ReplicasRebuilt", message)


def _damage_message(status: TopicStatus) -> str:
    """The message of the condition ReplicasDamaged."""
    for condition in status.conditions:
        if condition.type == ConditionType.REPLICAS_DAMAGED:
            return condition.message
    return ""


def _event(topic: Topic, kind: EventType, reason: str, message: str) -> Announce:
    return Announce(
        kind=topic.KIND.kind,
        api_version=api.API_VERSION,
        metadata=topic.metadata,
        type=kind,
        reason=reason,
        message=message,
    )
