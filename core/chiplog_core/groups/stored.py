"""What `__consumer_offsets` holds of a group, in the fields of Kafka's GroupMetadataValue."""

from dataclasses import dataclass

NO_TIMESTAMP_MS = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member in its generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """Its metadata for the protocol that was chosen."""
    assignment: bytes
    """Empty until the leader has assigned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    """A generation of a group.

    Where no member has an assignment, the leader of this generation has yet to bring them.
    """

    protocol_type: str | None
    """None as long as nobody ever was a member."""
    generation: int
    protocol: str | None
    """None without members, as is `leader`."""
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
