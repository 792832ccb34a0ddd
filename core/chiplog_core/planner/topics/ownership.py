"""Which Topic object owns a topic name.

The first owner of a name keeps it: its uid is in the PartitionMap, and once that is written no
timestamps are compared. A map without an owner, or whose owner does not exist any more, is taken
over by a Topic with the same topic name, together with all records. Two names that Kafka's metrics
cannot distinguish (`a.b` and `a_b`) never exist at the same time, whatever Topics own them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from chiplog_core.model.topic import Topic
from chiplog_core.naming import labels
from chiplog_core.observed.settings import Settings, paused, unmanaged
from chiplog_core.observed.world import World
from chiplog_core.planner.topics.policies import PolicyJudge
from chiplog_core.policies.judge import NOTHING_AGAINST_IT
from chiplog_core.problems import Problem
from chiplog_core.topic_name import collision_key
from chiplog_core.validate.topic import (
    check_topic,
    check_topic_in_cluster,
    check_topic_name_is_free,
)

NOBODY = ""
"""Stands for the owner's uid of a topic without an owner: its name is in use all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The owner of each topic name, and why some Topics own none."""

    owners: dict[str, Topic] = field(default_factory=dict)
    """Topic name -> the Topic that owns it, or gets it with this plan."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of a Topic -> the problems because of which its spec is not applied."""
    tolerated: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of a Topic -> policies that it already broke before they were made: only a warning."""


def find_owners(world: World, settings: Settings) -> Ownership:
    """Find the Topic that owns each name, and the problems of all Topics.

    Older Topics come first, so that the oldest gets a name that is free.
    """
    found = Ownership()
    claims = _claims(world)
    object_keys = {topic.metadata.uid: _object_key(topic) for topic in world.topics}
    policies = _policy_judge(settings)
    for topic in sorted(world.topics, key=_age):
        uid, name = topic.metadata.uid, topic.topic_name
        partition_map = world.maps.get(name)
        judgement = policies.judge(topic, partition_map) if policies else NOTHING_AGAINST_IT
        problems = () if settings.cluster is None else _problems(topic, settings)
        problems = (*problems, *judgement.refused)
        if partition_map is not None and partition_map.spec.owner_uid == uid:
            found.owners[name] = topic
        else:
            problems = problems or check_topic_name_is_free(
                topic, _rivals(name, claims), object_keys
            )
            if not problems and _may_claim(topic, world, settings):
                found.owners[name] = topic
                claims.setdefault(collision_key(name), {})[name] = uid
        found.problems[uid] = problems
        found.tolerated[uid] = judgement.tolerated
    return found


def _policy_judge(settings: Settings) -> PolicyJudge | None:
    """The judge of Topics by the cluster's policies; None if the cluster is paused
    or its spec cannot be parsed."""
    if settings.cluster is None:
        return None
    return PolicyJudge(
        cluster=settings.cluster,
        partitions=settings.partitions,
        replicas=settings.replicas,
        inherited=settings.inherited or {},
    )


def _object_key(topic: Topic) -> str:
    """`namespace/name` of the Topic."""
    return f"{topic.metadata.namespace}/{topic.metadata.name}"


def _problems(topic: Topic, settings: Settings) -> tuple[Problem, ...]:
    """Problems of the Topic's spec, alone and within the cluster."""
    assert settings.cluster is not None, "the caller checks that there is a cluster"
    return (*check_topic(topic), *check_topic_in_cluster(topic, settings.cluster))


def _claims(world: World) -> dict[str, dict[str, str]]:
    """Collision key -> topic name -> uid of its owner, for all topics that exist.

    Names that Kafka's metrics cannot distinguish have the same collision key.
    """
    existing_uids = {topic.metadata.uid for topic in world.topics}
    existing_uids.update(unreadable.metadata.uid for unreadable in world.unreadable)
    claims: dict[str, dict[str, str]] = {}
    for name, partition_map in world.maps.items():
        spec = partition_map.spec
        owner = spec.owner_uid
        # Until all objects are listed, an owner that was not seen may exist.
        if owner is not None and (owner in existing_uids or not world.is_complete):
            claims.setdefault(collision_key(name), {})[name] = owner
        elif spec.current is not None:
            claims.setdefault(collision_key(name), {})[name] = NOBODY
    return claims


def _rivals(name: str, claims: dict[str, dict[str, str]]) -> dict[str, str]:
    """Topic name -> owner's uid, for the topics because of which a Topic cannot get this name.

    A topic with the same name but without an owner is not a rival: the Topic takes it over.
    """
    taken = claims.get(collision_key(name), {})
    return {other: owner for other, owner in taken.items() if other != name or owner != NOBODY}


def _may_claim(topic: Topic, world: World, settings: Settings) -> bool:
    """Whether the Topic may become the owner of its name now. It must have the finalizer first, so
    that it cannot disappear before the operator has handled its deletion."""
    meta = topic.metadata
    return (
        world.is_complete
        and settings.cluster is not None
        and meta.deletion_timestamp is None
        and labels.TOPIC_FINALIZER in meta.finalizers
        and not paused(meta)
        and not unmanaged(meta)
    )


def _age(topic: Topic) -> tuple[datetime, str, str, str]:
    """Sort key: the oldest Topic first."""
    meta = topic.metadata
    oldest = meta.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    return oldest, meta.namespace, meta.name, meta.uid
