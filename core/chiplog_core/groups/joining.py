"""JoinGroup: who may become or stay a member, and whether all others must join again for it."""

from collections.abc import Callable
from dataclasses import replace

from chiplog_core.groups.answers import Joined, Token
from chiplog_core.groups.codes import Code
from chiplog_core.groups.group import Group
from chiplog_core.groups.member import Member, size_of_protocols
from chiplog_core.groups.requests import UNKNOWN_MEMBER, Join
from chiplog_core.groups.states import GroupEvent
from chiplog_core.model.group_status import GroupState


def join(
    group: Group, token: Token, request: Join, new_member_id: Callable[[str], str], now_ms: int
) -> None:
    """Answer a JoinGroup, or let it wait. `new_member_id` is as `Membership` is given it.

    Errors are checked in this order: INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL.
    """
    limits = group.limits
    shortest_ms, longest_ms = limits.min_session_timeout_ms, limits.max_session_timeout_ms
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        _refuse(group, token, Code.INVALID_SESSION_TIMEOUT, request.member_id)
    elif not _has_room(group, request):
        group.remove(_known_as(group, request))
        _refuse(group, token, Code.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER)
        group.complete_if_all_joined(now_ms)
    elif not _is_consistent(group, request):
        _refuse(group, token, Code.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id == UNKNOWN_MEMBER:
        new_id = new_member_id(request.group_instance_id or request.client_id)
        _join_unknown(group, token, request, new_id, now_ms)
    elif request.member_id in group.pending and request.group_instance_id is None:
        group.pending.discard(request.member_id)
        _add(group, token, request, request.member_id, now_ms)
    else:
        _join_known(group, token, request, now_ms)


def _has_room(group: Group, request: Join) -> bool:
    """Whether group.max.size (KIP-389) allows this member.

    Existing members stay. But while a rebalance is prepared, the members that join first are kept,
    so that a group which is too large shrinks. A place is kept for each id that was given out,
    which Kafka does not do. A static member takes its own place. Unlike in Kafka, there must also
    be memory for the member.
    """
    member_id = _known_as(group, request)
    placed = group.joins if group.state is GroupState.PREPARING_REBALANCE else group.roster
    if not _fits(group, request, member_id):
        return False
    if member_id in placed:
        return True
    promised = 0
    if member_id not in group.roster:
        promised = len(group.pending) - (member_id in group.pending)
    return len(placed) + promised < group.limits.max_size


def _fits(group: Group, request: Join, member_id: str) -> bool:
    """Whether there is memory for the member's metadata, together with that of all others."""
    limits, roster = group.limits, group.roster
    size_bytes = len(request.client_id) + len(request.group_instance_id or "")
    size_bytes += size_of_protocols(request.protocols)
    others_bytes = roster.size_bytes
    if member_id in roster:
        others_bytes -= roster[member_id].size_bytes
    if member_id == UNKNOWN_MEMBER and len(group.pending) >= limits.max_pending:
        return False
    return (
        size_bytes <= limits.max_member_bytes
        and others_bytes + size_bytes <= limits.max_group_bytes
    )


def _known_as(group: Group, request: Join) -> str:
    """The member's id in the group: that of its instance for a static member, else the one in
    the request."""
    replaced = group.roster.of_instance(request.group_instance_id)
    return replaced.member_id if replaced and not request.member_id else request.member_id


def _is_consistent(group: Group, request: Join) -> bool:
    """Whether the member shares a protocol type and a protocol with all other members."""
    if group.state is GroupState.EMPTY:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == group.protocol_type and group.roster.supports(request.protocols)


def _join_unknown(group: Group, token: Token, request: Join, new_id: str, now_ms: int) -> None:
    """A JoinGroup without a member id: replace a static member, give out an id, or add a member."""
    replaced = group.roster.of_instance(request.group_instance_id)
    if replaced is not None:
        _replace(group, token, request, replaced, Member.joining(new_id, request), now_ms)
    elif request.group_instance_id is None and request.requires_known_member_id:
        group.pending.add(new_id)
        group.sessions.set(new_id, now_ms + request.session_timeout_ms)
        _refuse(group, token, Code.MEMBER_ID_REQUIRED, new_id)
    else:
        _add(group, token, request, new_id, now_ms)


def _add(group: Group, token: Token, request: Join, member_id: str, now_ms: int) -> None:
    """Add a new member, and rebalance."""
    member = Member.joining(member_id, request)
    member.is_new = True
    if not group.roster:
        group.protocol_type = request.protocol_type
    group.roster.add(member)
    group.wait_to_join(member, token)
    group.sessions.set(member_id, now_ms + group.limits.new_member_join_timeout_ms)
    group.has_newcomers = True
    group.rebalance(GroupEvent.JOINED, _why("joins", member_id, request), now_ms)


def _join_known(group: Group, token: Token, request: Join, now_ms: int) -> None:
    """A JoinGroup with a member id: repeat the answer, or rebalance."""
    member = group.roster.find(request.member_id, request.group_instance_id)
    if isinstance(member, Code):
        _refuse(group, token, member, request.member_id)
    elif _is_repeated(group, member, request):
        # It missed the answer, or wants to sync again: it gets the present generation.
        group.roster.offer(member, request.protocols)
        group.answer(token, group.joined(member))
        group.renew(member, now_ms)
    else:
        _update(group, member, request)
        group.wait_to_join(member, token)
        group.rebalance(GroupEvent.REJOINED, _why("joins again", member.member_id, request), now_ms)


def _is_repeated(group: Group, member: Member, request: Join) -> bool:
    """Whether the request changes nothing for other members. The leader joins again when it
    wants to assign again."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        return member.offers(request.protocols)
    if group.state is GroupState.STABLE:
        return member.member_id != group.leader and member.offers(request.protocols)
    return False


def _update(group: Group, member: Member, request: Join) -> None:
    """Take over protocols and timeouts of a request."""
    group.roster.offer(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms


def _replace(
    group: Group, token: Token, request: Join, old: Member, new: Member, now_ms: int
) -> None:
    """Replace a static member that joins under a new id; the old id is fenced (KIP-345).

    In a stable group the new id takes over the assignment, as long as the group would choose the
    same protocol. Its metadata may differ, which is usual, as it may hold the partitions owned now.
    While others sync, everybody joins again: the leader may already be assigning to the old id.
    """
    was_leader = old.member_id == group.leader
    _fence(group, old)
    new.assignment = old.assignment
    group.roster.add(new)
    if was_leader:
        group.leader = new.member_id
    why = _why("comes back", new.member_id, request)
    if group.state is not GroupState.STABLE:
        group.wait_to_join(new, token)
        group.rebalance(GroupEvent.REPLACED, why, now_ms)
    elif group.roster.choose_protocol() != group.protocol:
        group.wait_to_join(new, token)
        group.rebalance(GroupEvent.REJOINED, why, now_ms)
    else:
        group.change(GroupEvent.REPLACED, why, now_ms)
        group.store()
        group.answer(token, _taken_over(group, request, old, new))
        group.renew(new, now_ms)


def _fence(group: Group, old: Member) -> None:
    """Remove the replaced member. Its waiting requests get FENCED_INSTANCE_ID."""
    group.sessions.clear(old.member_id)
    group.roster.remove(old.member_id)
    group.release(old.member_id, Code.FENCED_INSTANCE_ID, answer_id=old.member_id)


def _taken_over(group: Group, request: Join, old: Member, new: Member) -> Joined:
    """The answer to a static member that took over the assignment: it must not assign, even if it
    leads.

    The generation has its assignment already. A leader with `skip_assignment` still watches its
    topics (KIP-814). A client that does not support the flag gets its predecessor's id as the
    leader's.
    """
    joined = group.joined(new)
    if new.member_id != group.leader:
        return joined
    if request.supports_skipping_assignment:
        return replace(joined, skip_assignment=True)
    return replace(joined, leader=old.member_id, members=())


def _refuse(group: Group, token: Token, code: Code, member_id: str) -> None:
    """Answer a JoinGroup with an error."""
    group.answer(token, Joined(code=code, member_id=member_id))


def _why(what: str, member_id: str, request: Join) -> str:
    """The reason of a rebalance, for logs."""
    reason = f": {request.reason}" if request.reason else ""
    return f"{member_id} of {request.client_host} {what}{reason}"
