"""What members ask of their group's coordinator, free of wire formats and versions.

The group id is not here: the caller has used it to find the group.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

UNKNOWN_MEMBER = ""
"""The member id of somebody who has none yet."""

NO_GENERATION = -1
"""The generation of somebody who is in none: a consumer that assigns its partitions itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup request."""

    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    """Of a static member (KIP-345); None for a dynamic one."""
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """Version 0 has none; the session timeout stands for it."""
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Names and metadata, the one that is liked most first."""
    requires_known_member_id: bool = True
    """From version 4 (KIP-394): join again with the id that the coordinator made."""
    supports_skipping_assignment: bool = True
    """From version 9 (KIP-814): the answer may ask a leader not to assign."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup request."""

    member_id: str
    group_instance_id: str | None = None
    generation: int
    protocol_type: str | None = None
    """From version 5 (KIP-559), and the name too; None is not checked."""
    protocol_name: str | None = None
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    """By member id; from the leader only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who sends a Heartbeat or an OffsetCommit, as it says itself."""

    member_id: str = UNKNOWN_MEMBER
    group_instance_id: str | None = None
    generation: int = NO_GENERATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One member of a LeaveGroup request."""

    member_id: str = UNKNOWN_MEMBER
    """Without one an administrator removes the static member `group_instance_id`."""
    group_instance_id: str | None = None
    reason: str = ""
