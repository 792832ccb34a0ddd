"""Which ConsumerGroup object speaks for a group: the first one, but any user's before ours.

One of another namespace may look at every group, and change those that its namespace may change.

Two objects may name one group. Only one of them can say how long its offsets are kept, or reset
them; the others are told so, and nothing of the group.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from chiplog_core.group_watch.scene import Scene
from chiplog_core.model.consumer_group import ConsumerGroup, ConsumerGroupSpec
from chiplog_core.naming import labels
from chiplog_core.problems import Problem, Reason
from chiplog_core.validate.consumer_group import (
    check_group,
    check_group_in_cluster,
    check_group_rights,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Who speaks, and why others do not."""

    owners: dict[str, ConsumerGroup] = field(default_factory=dict)
    """Group id -> the object that speaks for it."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of an object -> what is wrong with it. It may speak all the same."""
    read_only: set[str] = field(default_factory=set)
    """uids of objects that may look at their group and not change it."""

    def may_change(self, group: ConsumerGroup) -> bool:
        """Whether what the object says about its group is done."""
        return group.metadata.uid not in self.read_only


def find_claims(scene: Scene) -> Claims:
    """Judge every ConsumerGroup of the cluster that is not being deleted."""
    found = Claims()
    groups = living(scene.groups)
    found.read_only.update(group.metadata.uid for group in groups if not _may_change(group, scene))
    for group in sorted(groups, key=lambda candidate: _precedence(candidate, scene, found)):
        uid = group.metadata.uid
        refused = () if scene.cluster is None else check_group_in_cluster(group, scene.cluster)
        if not refused and group.group_id in found.owners:
            refused = (_conflict(found.owners[group.group_id]),)
        if not refused:
            found.owners[group.group_id] = group
        rights = () if scene.cluster is None else check_group_rights(group, scene.cluster)
        found.problems[uid] = (*check_group(group), *refused, *rights)
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


def _may_change(group: ConsumerGroup, scene: Scene) -> bool:
    """A cluster that does not read says of other namespaces nothing: they wait."""
    namespace, cluster = group.metadata.namespace, scene.cluster
    if cluster is None:
        return namespace == scene.metadata.namespace
    return group.group_id.startswith(cluster.group_prefix(namespace))


def _precedence(
    group: ConsumerGroup, scene: Scene, claims: Claims
) -> tuple[bool, bool, datetime, str, str]:
    """Nobody keeps another from a group by an object that may only look at it."""
    meta = group.metadata
    oldest = meta.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    may_only_look = not claims.may_change(group)
    return may_only_look, is_ours(group, scene), oldest, meta.namespace, meta.name
