"""The requests of members to their group's coordinator, independent of wire formats and versions.

They have no group id: the caller has used it to find the group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

UNKNOWN_MEMBER = ""
"""The member id of a client that has none yet."""

NO_GENERATION = -1
"""The generation of a client that is not a member, like a consumer that assigns its partitions
itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request."""

    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    """Only for a static member (KIP-345); None for a dynamic one."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """The session timeout for a request of version 0, which has no rebalance timeout."""
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """(Name, metadata) of each protocol, the preferred one first."""
    requires_known_member_id: bool = True
    """From version 4 (KIP-394): whether a client without an id must join again with the id that the
    coordinator gives out."""
    supports_skipping_assignment: bool = True
    """From version 9 (KIP-814): whether the answer can tell a leader not to assign."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request."""

    member_id: str
    group_instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    """Protocol type and name are sent from version 5 on (KIP-559); None is not checked."""
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """Member id -> the assignment of this member; only the leader sends them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The ids and generation in a Heartbeat or OffsetCommit, as the client sent them."""

    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One member of a LeaveGroup request."""

    member_id: str = UNKNOWN_MEMBER
    """Empty if an administrator removes the static member `group_instance_id`."""
    group_instance_id: str | None = None
    reason: str = ""
