"""One member of a group, as its coordinator knows it."""

from collections.abc import Iterable
from dataclasses import dataclass

from chiplog_core.groups.requests import Join
from chiplog_core.groups.stored import StoredMember


@dataclass(slots=True, kw_only=True)
class Member:
    """A member. The group, not the member, knows whether one of its requests waits."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: dict[str, bytes]
    """Metadata by protocol name, the preferred protocol first."""
    assignment: bytes = b""
    is_new: bool = False
    """Whether the member's first JoinGroup waits, so that it belongs to no generation yet."""
    is_loaded: bool = False
    """Whether the member was loaded from a stored generation. Only the chosen protocol is stored,
    so its other protocols are unknown."""

    @classmethod
    def joining(cls, member_id: str, request: Join) -> "Member":
        """A new member with this id, from its JoinGroup."""
        return cls(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocols=dict(request.protocols),
        )

    @classmethod
    def loaded(cls, stored: StoredMember, protocol: str) -> "Member":
        """A member of a stored generation; `protocol` is the one that the generation chose."""
        return cls(
            member_id=stored.member_id,
            group_instance_id=stored.group_instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout_ms,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            protocols={protocol: stored.subscription},
            assignment=stored.assignment,
            is_loaded=True,
        )

    def stored(self, protocol: str) -> StoredMember:
        """The member as it is stored; `protocol` is the one that its generation chose."""
        return StoredMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            session_timeout_ms=self.session_timeout_ms,
            subscription=self.protocols[protocol],
            assignment=self.assignment,
        )

    @property
    def size_bytes(self) -> int:
        """The approximate memory of the member's ids and metadata; a character counts as a byte."""
        names = len(self.member_id) + len(self.group_instance_id or "") + len(self.client_id)
        return names + size_of_protocols(self.protocols.items())

    @property
    def is_static(self) -> bool:
        """Whether the member keeps its place while it is away, until its session ends (KIP-345)."""
        return self.group_instance_id is not None

    def offers(self, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """Whether the member already has exactly these protocols, as far as they are known.

        A member that was loaded has only the metadata of the chosen protocol, so only this one is
        compared. Kafka compares all protocols nevertheless, so there a member that joins again
        after its coordinator has moved causes a rebalance.
        """
        offered = dict(protocols)
        if self.is_loaded:
            return self.protocols.items() <= offered.items()
        return list(self.protocols.items()) == list(offered.items())


def size_of_protocols(protocols: Iterable[tuple[str, bytes]]) -> int:
    """The approximate size of names and metadata, in bytes."""
    return sum(len(name) + len(metadata) for name, metadata in protocols)
