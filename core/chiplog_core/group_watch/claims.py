"""Which ConsumerGroup object owns a group, if several name the same group.

Only the owner's spec sets how long the group's offsets are kept, or resets them, and only its
status shows the group. The others get a condition that names the owner. The oldest object is the
owner, but objects of users come before objects that discovery created. An object in another
namespace than the cluster's may read every group, and may change only the groups that its namespace
may change.
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
class GroupOwners:
    """The owners of the groups, and the problems of all ConsumerGroups."""

    owners: dict[str, ConsumerGroup] = field(default_factory=dict)
    """Group id -> the object that owns the group."""
    problems: dict[str, tuple[Problem, ...]] = field(default_factory=dict)
    """uid of each object -> the problems with its spec. An object with problems may be an owner."""
    read_only: set[str] = field(default_factory=set)
    """uids of objects that may read their group but not change it."""

    def may_change(self, group: ConsumerGroup) -> bool:
        """Whether the operator may carry out what the object's spec asks for its group."""
        return group.metadata.uid not in self.read_only


def find_group_owners(scene: Scene) -> GroupOwners:
    """Find the owner of every group, and the problems of every ConsumerGroup of the cluster that is
    not being deleted."""
    found = GroupOwners()
    groups = not_deleted(scene.groups)
    found.read_only.update(group.metadata.uid for group in groups if not _may_change(group, scene))
    for group in sorted(groups, key=lambda candidate: _precedence(candidate, scene, found)):
        uid = group.metadata.uid
        not_owner = () if scene.cluster is None else check_group_in_cluster(group, scene.cluster)
        if not not_owner and group.group_id in found.owners:
            not_owner = (_conflict(found.owners[group.group_id]),)
        if not not_owner:
            found.owners[group.group_id] = group
        forbidden = () if scene.cluster is None else check_group_permissions(group, scene.cluster)
        found.problems[uid] = (*check_group(group), *not_owner, *forbidden)
    return found


def not_deleted(groups: Iterable[ConsumerGroup]) -> list[ConsumerGroup]:
    """The ConsumerGroups that are not being deleted."""
    return [group for group in groups if group.metadata.deletion_timestamp is None]


def is_ours(group: ConsumerGroup, scene: Scene) -> bool:
    """Whether discovery created the object and nobody else has written to it, so that it may be
    deleted.

    If the spec has more than the cluster and the group id, or if anybody but the operator has
    written to the object, even without a change, then a user wants to keep it.
    """
    spec = ConsumerGroupSpec(cluster_ref=group.spec.cluster_ref, group_id=group.spec.group_id)
    return (
        group.metadata.labels.get(labels.DISCOVERED) == "true"
        and group.metadata.uid not in scene.edited_by_others
        and group.spec == spec
    )


def _conflict(other: ConsumerGroup) -> Problem:
    """The problem of an object whose group the object `other` already owns."""
    meta = other.metadata
    return Problem(
        "spec.groupId",
        f"names the same group as ConsumerGroup {meta.namespace}/{meta.name}, which manages it",
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
    group: ConsumerGroup, scene: Scene, group_owners: GroupOwners
) -> tuple[bool, bool, datetime, str, str]:
    """Sort key of objects that name the same group; the first one becomes its owner.

    Objects that may change the group come before those that may only read it. Then users' objects
    come before discovered ones, and older before newer ones.
    """
    meta = group.metadata
    oldest = meta.creation_timestamp or datetime.max.replace(tzinfo=UTC)
    is_read_only = not group_owners.may_change(group)
    return is_read_only, is_ours(group, scene), oldest, meta.namespace, meta.name
