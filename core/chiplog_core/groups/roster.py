"""The members of a group, by member id and by instance id, and the protocols that they share."""

from collections import Counter
from collections.abc import Iterable, Iterator

from chiplog_core.groups.codes import Code
from chiplog_core.groups.member import Member


class Roster:
    """The members. There is always a protocol that all of them support, unless there are none."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        self._member_ids: dict[str, str] = {}
        """Instance id -> member id, for static members."""
        self._supporters: Counter[str] = Counter()
        """Protocol -> the number of members that support it."""
        self.size_bytes = 0
        """Approximate memory of all members."""

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def __getitem__(self, member_id: str) -> Member:
        return self._members[member_id]

    def of_instance(self, group_instance_id: str | None) -> Member | None:
        """The static member with this instance id; None if there is none."""
        if group_instance_id is None or group_instance_id not in self._member_ids:
            return None
        return self._members[self._member_ids[group_instance_id]]

    def find(self, member_id: str, group_instance_id: str | None) -> Member | Code:
        """The member with these ids; UNKNOWN_MEMBER_ID if there is none, or FENCED_INSTANCE_ID if
        its instance id now belongs to a member with another id."""
        if group_instance_id is not None:
            owner = self.of_instance(group_instance_id)
            if owner is None:
                return Code.UNKNOWN_MEMBER_ID
            if owner.member_id != member_id:
                return Code.FENCED_INSTANCE_ID
        return self._members.get(member_id, Code.UNKNOWN_MEMBER_ID)

    def add(self, member: Member) -> None:
        """Add a member with a new id. It must support a protocol that all others support."""
        assert member.member_id not in self._members, f"{member.member_id} is a member already"
        self._members[member.member_id] = member
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._member_ids, "its instance is a member"
            self._member_ids[member.group_instance_id] = member.member_id
        self._supporters.update(member.protocols.keys())
        self.size_bytes += member.size_bytes

    def remove(self, member_id: str) -> Member:
        """Remove a member."""
        member = self._members.pop(member_id)
        if member.group_instance_id is not None:
            del self._member_ids[member.group_instance_id]
        self._forget(member.protocols.keys())
        self.size_bytes -= member.size_bytes
        return member

    def offer(self, member: Member, protocols: Iterable[tuple[str, bytes]]) -> None:
        """Replace the protocols that a member supports."""
        self._forget(member.protocols.keys())
        self.size_bytes -= member.size_bytes
        member.protocols = dict(protocols)
        member.is_loaded = False
        self.size_bytes += member.size_bytes
        self._supporters.update(member.protocols.keys())

    def supports(self, protocols: Iterable[tuple[str, bytes]]) -> bool:
        """Whether all members support one of these protocols."""
        return any(self._supporters[name] == len(self._members) for name, _ in protocols)

    def choose_protocol(self) -> str:
        """The protocol with most votes. There must be members.

        Each member votes for the first of its protocols that all members support. If several have
        the same number of votes, the one that was voted for first wins.
        """
        votes = Counter(
            next(name for name in member.protocols if self._supporters[name] == len(self._members))
            for member in self
        )
        return votes.most_common(1)[0][0]

    def _forget(self, protocols: Iterable[str]) -> None:
        """Uncount one member's support of these protocols."""
        self._supporters.subtract(protocols)
        for name in protocols:
            if not self._supporters[name]:
                del self._supporters[name]

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of a member.

        It is at least 1, so that no deadline is over before a member could meet it.
        """
        return max(1, max((member.rebalance_timeout_ms for member in self), default=0))
