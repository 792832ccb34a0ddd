"""Which Topic object speaks for a topic name.

The first owner of a name keeps it, by the uid in the PartitionMap: no timestamp is compared once
that is written. A map without an owner, or whose owner does not exist any more, is taken over by
an equal Topic with all its records. Two names that Kafka's metrics cannot distinguish never exist
side by side, whoever would own them.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from chiplog_core.model.topic import Topic
from chiplog_core.naming import labels
from chiplog_core.observed.settings import Settings, paused, unmanaged
from chiplog_core.observed.world import World
from chiplog_core.planner.policies import PolicyJudge
from chiplog_core.policies.judge import NOTHING_AGAINST_IT
from chiplog_core.problems import Problem
from chiplog_core.topic_name import collision_key
from chiplog_core.validate.topic import (
    check_topic,
    check_topic_in_cluster,
    check_topic_name_is_free,
)

NOBODY = ""
"""The owner's uid of a topic that has none: it keeps its name all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """Who owns what, and why some Topics own nothing."""

    owners: dict[str, Topic] = field(default_factory=dict)
    """Topic name -> the Topic that speaks for it, or now begins to."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of a Topic -> what is wrong with it."""
    tolerated: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of a Topic -> the policies it breaks since before they were made."""


def find_owners(world: World, settings: Settings) -> Ownership:
    """Find the Topic that owns each name, and the problems of the other Topics."""
    found = Ownership()
    claims = _claims(world)
    objects = {topic.metadata.uid: _object_key(topic) for topic in world.topics}
    judgements = _policy_judge(settings)
    for topic in sorted(world.topics, key=_age):
        uid, name = topic.metadata.uid, topic.topic_name
        partition_map = world.maps.get(name)
        judgement = judgements.judge(topic, partition_map) if judgements else NOTHING_AGAINST_IT
        problems = () if settings.cluster is None else _problems(topic, settings)
        problems = (*problems, *judgement.refused)
        if partition_map is not None and partition_map.spec.owner_uid == uid:
            found.owners[name] = topic
        else:
            problems = problems or check_topic_name_is_free(topic, _rivals(name, claims), objects)
            if not problems and _may_claim(topic, world, settings):
                found.owners[name] = topic
                claims.setdefault(collision_key(name), {})[name] = uid
        found.problems[uid] = problems
        found.tolerated[uid] = judgement.tolerated
    return found


def _policy_judge(settings: Settings) -> PolicyJudge | None:
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
    assert settings.cluster is not None, "asked only where there is a cluster"
    return (*check_topic(topic), *check_topic_in_cluster(topic, settings.cluster))


def _claims(world: World) -> dict[str, dict[str, str]]:
    """Collision key -> the names in use with their owners' uids."""
    alive = {topic.metadata.uid for topic in world.topics}
    alive.update(unreadable.metadata.uid for unreadable in world.unreadable)
    claims: dict[str, dict[str, str]] = {}
    for name, partition_map in world.maps.items():
        spec = partition_map.spec
        owner = spec.owner_uid
        if owner is not None and (owner in alive or not world.is_complete):
            claims.setdefault(collision_key(name), {})[name] = owner
        elif spec.current is not None:
            claims.setdefault(collision_key(name), {})[name] = NOBODY
    return claims


def _rivals(name: str, claims: dict[str, dict[str, str]]) -> dict[str, str]:
    """The names that keep a Topic from its name. A topic of the same name without an owner does
    not."""
    taken = claims.get(collision_key(name), {})
    return {other: owner for other, owner in taken.items() if other != name or owner != NOBODY}


def _may_claim(topic: Topic, world: World, settings: Settings) -> bool:
    """Whether the Topic may become the owner of its name."""
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
