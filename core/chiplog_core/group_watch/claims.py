"""Which ConsumerGroup object speaks for a group: the first one, but any user's before ours.

Two objects may name one group. Only one of them can say how long its offsets are kept, or reset
them; the others are told so, and nothing of the group.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from chiplog_core import labels
from chiplog_core.group_watch.scene import Scene
from chiplog_core.model.consumer_group import ConsumerGroup, ConsumerGroupSpec
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate.consumer_group import check_group, check_group_in_cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Who speaks, and why others do not."""

    speakers: dict[str, ConsumerGroup] = field(default_factory=dict)
    """Group id -> the object that speaks for it."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of an object -> what is wrong with it. It may speak all the same."""


def find_claims(scene: Scene) -> Claims:
    """Judge every ConsumerGroup of the cluster that is not being deleted."""
    found = Claims()
    for group in sorted(living(scene.groups), key=lambda one: _precedence(one, scene)):
        uid = group.metadata.uid
        refused = () if scene.cluster is None else check_group_in_cluster(group, scene.cluster)
        if not refused and group.group_id in found.speakers:
            refused = (_conflict(found.speakers[group.group_id]),)
        if not refused:
            found.speakers[group.group_id] = group
        found.problems[uid] = (*check_group(group), *refused)
    return found


def living(groups: Iterable[ConsumerGroup]) -> list[ConsumerGroup]:
    """Those that are not being deleted."""
    return [group for group in groups if group.metadata.deletion_timestamp is None]


def is_ours(group: ConsumerGroup, scene: Scene) -> bool:
    """Made by discovery, and nobody has written anything into it: it is safe to delete.

    A spec that says more than which group it is, is a user's wish. So may be what anybody else has
    written at all, be it the same words.
    """
    spec = ConsumerGroupSpec(cluster_ref=group.spec.cluster_ref, group_id=group.spec.group_id)
    return (
        group.metadata.labels.get(labels.DISCOVERED) == "true"
        and group.metadata.uid not in scene.touched
        and group.spec == spec
    )


def _conflict(other: ConsumerGroup) -> Problem:
    about = other.metadata
    return Problem(
        "spec.groupId",
        f"names the group of ConsumerGroup {about.namespace}/{about.name}",
        "delete one of the two",
        Reason.RESOURCE_CONFLICT,
    )


def _precedence(group: ConsumerGroup, scene: Scene) -> tuple[bool, datetime, str, str]:
    meta = group.metadata
    oldest = meta.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    return is_ours(group, scene), oldest, meta.namespace, meta.name
