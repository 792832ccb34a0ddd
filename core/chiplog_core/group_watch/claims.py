"""Which ConsumerGroup object speaks for a group: the first one, but any user's before ours.

One of another namespace may read every group, and change those that its namespace may change.

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
    check_group_permissions,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Who speaks, and why others do not."""

    owners: dict[str, ConsumerGroup] = field(default_factory=dict)
    """Group id -> the object that speaks for it."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of an object -> what is wrong with it. It may speak all the same."""
    read_only: set[str] = field(default_factory=set)
    """uids of objects that may read their group but not change it."""

    def may_change(self, group: ConsumerGroup) -> bool:
        """Whether the operator may carry out what the object's spec asks for its group."""
        return group.metadata.uid not in self.read_only


def find_claims(scene: Scene) -> Claims:
    """Judge every ConsumerGroup of the cluster that is not being deleted."""
    found = Claims()
    groups = not_deleted(scene.groups)
    found.read_only.update(group.metadata.uid for group in groups if not _may_change(group, scene))
    for group in sorted(groups, key=lambda candidate: _precedence(candidate, scene, found)):
        uid = group.metadata.uid
        refused = () if scene.cluster is None else check_group_in_cluster(group, scene.cluster)
        if not refused and group.group_id in found.owners:
            refused = (_conflict(found.owners[group.group_id]),)
        if not refused:
            found.owners[group.group_id] = group
        rights = () if scene.cluster is None else check_group_permissions(group, scene.cluster)
        found.problems[uid] = (*check_group(group), *refused, *rights)
    return found


def not_deleted(groups: Iterable[ConsumerGroup]) -> list[ConsumerGroup]:
    """The ConsumerGroups that are not being deleted."""
    return [group for group in groups if group.metadata.deletion_timestamp is None]


def is_ours(group: ConsumerGroup, scene: Scene) -> bool:
    """Whether discovery created the object and nobody else has written to it: then it is safe to
    delete.

    A spec with more than the cluster and the group id is what a user wants. If anybody else has
    written to the object at all, even the same values, a user may want it too.
    """
    spec = ConsumerGroupSpec(cluster_ref=group.spec.cluster_ref, group_id=group.spec.group_id)
    return (
        group.metadata.labels.get(labels.DISCOVERED) == "true"
        and group.metadata.uid not in scene.touched
        and group.spec == spec
    )


def _conflict(other: ConsumerGroup) -> Problem:
    """The problem of an object whose group another object already has."""
    meta = other.metadata
    return Problem(
        "spec.groupId",
        f"names the group of ConsumerGroup {meta.namespace}/{meta.name}",
        "delete one of the two",
        Reason.RESOURCE_CONFLICT,
    )


def _may_change(group: ConsumerGroup, scene: Scene) -> bool:
    """Whether the object's namespace may change this group. If the BrokerCluster cannot be parsed,
    only its own namespace may."""
    namespace, cluster = group.metadata.namespace, scene.cluster
    if cluster is None:
        return namespace == scene.metadata.namespace
    return group.group_id.startswith(cluster.group_prefix(namespace))


def _precedence(
    group: ConsumerGroup, scene: Scene, claims: Claims
) -> tuple[bool, bool, datetime, str, str]:
    """Sort key of objects that name the same group; the first one wins.

    Objects that may only read the group come last, so that they keep nobody from it. Then users'
    objects come before discovered ones, and older before newer ones.
    """
    meta = group.metadata
    oldest = meta.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    is_read_only = not claims.may_change(group)
    return is_read_only, is_ours(group, scene), oldest, meta.namespace, meta.name
