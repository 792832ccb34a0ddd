"""A group as DescribeGroups and ListGroups show it."""

from dataclasses import dataclass

from chiplog_core.groups.group import Group
from chiplog_core.model.group_status import GroupState


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """A member. It has metadata only in a stable group, for the protocol that the group chose."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A group at one moment."""

    state: GroupState
    generation: int
    protocol_type: str
    """Empty if the group never had a member."""
    protocol: str
    """Empty unless the group is stable, as in Kafka."""
    members: tuple[MemberDescription, ...]


def describe(group: Group) -> Description:
    """The group as DescribeGroups shows it."""
    is_stable = group.state is GroupState.STABLE
    protocol = group.protocol or "" if is_stable else ""
    return Description(
        state=group.state,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=protocol,
        members=tuple(
            MemberDescription(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.protocols[protocol] if is_stable else b"",
                assignment=member.assignment,
            )
            for member in group.roster
        ),
    )
