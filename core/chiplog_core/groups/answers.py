"""The answers of a group and the generations to store, independent of wire formats and versions."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from chiplog_core.groups.codes import Code
from chiplog_core.groups.requests import NO_GENERATION, UNKNOWN_MEMBER
from chiplog_core.groups.stored import StoredGroup

Token: TypeAlias = Hashable
"""Identifies a request until it is answered. The caller chooses it; it is unique and never None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member, as the JoinGroup answer to the group's leader lists it."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes
    """The member's metadata for the protocol that the group chose."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a JoinGroup."""

    code: Code = Code.NONE
    member_id: str = UNKNOWN_MEMBER
    """With MEMBER_ID_REQUIRED: the id with which the client must join again."""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = UNKNOWN_MEMBER
    """The member id of the leader. The member with this id assigns the partitions, unless
    `skip_assignment` is set."""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """All members of the group; empty in the answer to other members than the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a SyncGroup."""

    code: Code = Code.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """The result for one member of a LeaveGroup, with the ids of the request."""

    member_id: str
    group_instance_id: str | None
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The answer to a LeaveGroup. `code` is an error of the whole request."""

    code: Code = Code.NONE
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """An effect: send this answer to the request `token`."""

    token: Token
    answer: Joined | Synced | Left


@dataclass(frozen=True, slots=True)
class Store:
    """An effect: append this generation to `__consumer_offsets`. The answers that follow must not
    be sent before it is replicated."""

    group: StoredGroup


Effect: TypeAlias = Answer | Store
"""The caller carries out effects in their order."""
