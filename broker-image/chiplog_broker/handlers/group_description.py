"""Describes a group's members and offsets for the operator."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.slices import Slices
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.description import Description, MemberDescription
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.limits import MAX_EXCHANGED_ITEMS, MAX_GROUP_STATUS_MEMBERS, MAX_GROUP_TOPICS
from chiplog_core.model.group_exchange import PartitionOffset, TopicOffsets
from chiplog_core.model.group_status import NO_COMMIT, AssignedTopic, Member
from chiplog_wire.protocol.consumer_protocol import CONSUMER, parse_assignment

MAX_NAME_LENGTH: Final = 512
"""Characters of a member id or client id: a status has no space for more."""
MAX_HOST_LENGTH: Final = 253

Assigned: TypeAlias = dict[TopicPartition, None]
"""The partitions that are assigned to members, as an ordered set."""


class GroupDescriber:
    """Describes groups by the cluster view and the logs that this broker leads."""

    def __init__(self, cluster: ClusterView, leaders: Leaders) -> None:
        self._cluster = cluster
        self._leaders = leaders

    async def members(
        self, group: Description, slices: Slices
    ) -> tuple[tuple[Member, ...], Assigned]:
        """As many members as a status shows, and all partitions assigned to members."""
        described: list[Member] = []
        assigned: Assigned = {}
        for member in sorted(group.members, key=lambda member: member.member_id):
            assignment = assignment_of(group, member)
            assigned |= dict.fromkeys(assignment)
            if len(described) < MAX_GROUP_STATUS_MEMBERS:
                described.append(member_status(member, assignment))
            await slices.pause()
        return tuple(described), assigned

    async def topics(
        self,
        commits: Mapping[TopicPartition, CommittedOffset],
        assigned: Assigned,
        slices: Slices,
    ) -> tuple[tuple[TopicOffsets, ...], bool]:
        """Each partition that has a committed offset or is assigned to a member.

        Also returns whether these are all such partitions: their number is limited.
        """
        by_topic: dict[str, list[PartitionOffset]] = {}
        partitions = sorted(commits.keys() | assigned.keys())
        for at in partitions[:MAX_EXCHANGED_ITEMS]:
            found = self._offset(at, commits.get(at), is_assigned=at in assigned)
            if found is not None:
                by_topic.setdefault(at.topic, []).append(found)
            await slices.pause()
        topics = tuple(
            TopicOffsets(topic=topic, partitions=tuple(found)) for topic, found in by_topic.items()
        )
        return topics, len(partitions) <= MAX_EXCHANGED_ITEMS

    def _offset(
        self, at: TopicPartition, commit: CommittedOffset | None, *, is_assigned: bool
    ) -> PartitionOffset | None:
        """The offsets of one partition. None if the partition does not exist, or if it has neither
        a committed offset nor a member."""
        view = self._cluster.topic(at.topic)
        if view is None or not 0 <= at.partition < len(view.partitions):
            return None
        if commit is not None and not commit.is_for(view.topic_id):
            commit = None  # it was for a deleted topic of the same name
        if commit is None and not is_assigned:
            return None
        end_offset = log_start_offset = None
        try:
            partition = self._leaders.with_current_high_watermark(at.topic, at.partition)
            end_offset = Offset(partition.high_watermark)
            log_start_offset = Offset(partition.log.log_start_offset)
        except PartitionError:
            pass  # this broker does not lead the partition: the operator asks its leader
        return PartitionOffset(
            partition=PartitionIndex(at.partition),
            committed_offset=NO_COMMIT if commit is None else commit.offset,
            commit_time_ms=None if commit is None else commit.commit_timestamp_ms,
            end_offset=end_offset,
            log_start_offset=log_start_offset,
        )


def assignment_of(group: Description, member: MemberDescription) -> tuple[TopicPartition, ...]:
    """The partitions assigned to a member; empty if they cannot be parsed."""
    if group.protocol_type != CONSUMER:
        return ()
    assigned = parse_assignment(member.assignment) or ()
    return tuple(TopicPartition(topic, partition) for topic, partition in assigned)


def member_status(member: MemberDescription, assignment: Iterable[TopicPartition]) -> Member:
    """A member as the group's status shows it, with lengths and topics limited."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(set(assignment)):
        by_topic.setdefault(topic, []).append(partition)
    instance = member.group_instance_id
    return Member(
        member_id=member.member_id[:MAX_NAME_LENGTH],
        client_id=member.client_id[:MAX_NAME_LENGTH],
        host=member.client_host[:MAX_HOST_LENGTH],
        group_instance_id=None if instance is None else instance[:MAX_NAME_LENGTH],
        assignment=tuple(
            AssignedTopic(topic=topic, partitions=tuple(map(PartitionIndex, partitions)))
            for topic, partitions in list(by_topic.items())[:MAX_GROUP_TOPICS]
        ),
    )
