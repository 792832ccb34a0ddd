"""A group as it is stored in `__consumer_offsets`, with the fields of Kafka's
GroupMetadataValue."""

from dataclasses import dataclass

NO_TIMESTAMP_MS = -1
"""An unknown time in a stored group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member of a stored generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the protocol that the group chose."""
    assignment: bytes
    """Empty until the leader has assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A generation of a group.

    If no member has an assignment, the leader of this generation has not sent it yet.
    """

    protocol_type: str | None
    """None if the group never had a member."""
    generation: int
    protocol: str | None
    """None without members, like `leader`."""
    leader: str | None
    current_state_timestamp_ms: int
    """Since when the group is in its state, in milliseconds since 1970; -1 is unknown. The time
    for which an empty group keeps its offsets begins here (KIP-211)."""
    members: tuple[StoredMember, ...]

    @property
    def is_assigned(self) -> bool:
        """Whether the leader has sent the assignment."""
        return any(member.assignment for member in self.members)


def empty_group(since_ms: int) -> StoredGroup:
    """An empty group that never had a member."""
    return StoredGroup(
        protocol_type=None,
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=since_ms,
        members=(),
    )
