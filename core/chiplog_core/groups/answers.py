"""What a group answers and stores, free of wire formats and versions."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TypeAlias

from chiplog_core.groups.codes import Code
from chiplog_core.groups.requests import NO_GENERATION, UNKNOWN_MEMBER
from chiplog_core.groups.stored import StoredGroup

Token: TypeAlias = Hashable
"""Names a request until it is answered. It is the caller's: never None, and no two are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedMember:
    """A member in the answer to the leader."""

    member_id: str
    group_instance_id: str | None
    metadata: bytes
    """For the protocol that was chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a Join."""

    code: Code = Code.NONE
    member_id: str = UNKNOWN_MEMBER
    """With MEMBER_ID_REQUIRED the one to join with."""
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = UNKNOWN_MEMBER
    """Whoever reads its own id here assigns, unless it is to skip that."""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()
    """Of the whole group, for the leader only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """The answer to a Sync."""

    code: Code = Code.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftMember:
    """What became of one that was to leave, named as it was in the request."""

    member_id: str
    group_instance_id: str | None
    code: Code


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The answer to a LeaveGroup; `code` is for requests as a whole."""

    code: Code = Code.NONE
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A waiting request is answered."""

    token: Token
    answer: Joined | Synced | Left


@dataclass(frozen=True, slots=True)
class Store:
    """This is to be appended. Nothing that follows may be answered before it is safe."""

    group: StoredGroup


Effect: TypeAlias = Answer | Store
"""What the caller carries out, in order."""
