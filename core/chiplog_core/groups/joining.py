"""JoinGroup: whether a client may become or stay a member, and whether all other members must join
again because of it."""

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
    """Answer a JoinGroup, or let it wait for the end of the join phase.

    `new_member_id` creates a unique member id from a client id or an instance id. Errors are
    checked in this order, as in Kafka: INVALID_SESSION_TIMEOUT, GROUP_MAX_SIZE_REACHED,
    INCONSISTENT_GROUP_PROTOCOL.
    """
    limits = group.limits
    shortest_ms, longest_ms = limits.min_session_timeout_ms, limits.max_session_timeout_ms
    if not shortest_ms <= request.session_timeout_ms <= longest_ms:
        _refuse(group, token, Code.INVALID_SESSION_TIMEOUT, request.member_id)
    elif not _may_have_member(group, request):
        group.remove(_member_id_of(group, request))
        _refuse(group, token, Code.GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER)
        # The removed member may have been the last one that the join phase waited for.
        group.complete_if_all_joined(now_ms)
    elif not _is_consistent(group, request):
        _refuse(group, token, Code.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
    elif request.member_id == UNKNOWN_MEMBER:
        new_id = new_member_id(request.group_instance_id or request.client_id)
        _join_unknown(group, token, request, new_id, now_ms)
    elif request.member_id in group.pending and request.group_instance_id is None:
        # The client joins with the id that it was given with MEMBER_ID_REQUIRED.
        group.pending.discard(request.member_id)
        _add(group, token, request, request.member_id, now_ms)
    else:
        _join_known(group, token, request, now_ms)


def _may_have_member(group: Group, request: Join) -> bool:
    """Whether group.max.size (KIP-389) and the limits for memory allow this member.

    Members that exist already are always counted. But in a join phase only those count that have
    joined again, so that a group that is too large shrinks to the members that join first. A static
    member that joins under a new id takes its own place. Unlike in Kafka, each id that was given
    out counts as a member, and there must be memory for the member.
    """
    member_id = _member_id_of(group, request)
    counted = group.joins if group.state is GroupState.PREPARING_REBALANCE else group.roster
    if not _fits_in_memory(group, request, member_id):
        return False
    if member_id in counted:
        return True
    reserved = 0  # for other ids that were given out
    if member_id not in group.roster:
        reserved = len(group.pending) - (member_id in group.pending)
    return len(counted) + reserved < group.limits.max_size


def _fits_in_memory(group: Group, request: Join, member_id: str) -> bool:
    """Whether the member's metadata, and that of all members together, are within the limits. Also
    limits how many ids are given out."""
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


def _member_id_of(group: Group, request: Join) -> str:
    """The id that the member has in the group. It is the one in the request; if that is empty, the
    id of the static member with the same instance id."""
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
    """A JoinGroup of an existing member: repeat the last answer if nothing changes, else begin a
    rebalance."""
    member = group.roster.find(request.member_id, request.group_instance_id)
    if isinstance(member, Code):
        _refuse(group, token, member, request.member_id)
    elif _is_repeated(group, member, request):
        # The client missed the last answer: it gets the present generation again.
        group.roster.offer(member, request.protocols)
        group.answer(token, group.joined(member))
        group.renew(member, now_ms)
    else:
        _update(group, member, request)
        group.wait_to_join(member, token)
        group.rebalance(GroupEvent.REJOINED, _why("joins again", member.member_id, request), now_ms)


def _is_repeated(group: Group, member: Member, request: Join) -> bool:
    """Whether the request changes nothing for other members, so that no rebalance is needed. In a
    stable group, the leader joins again to make a new assignment, which needs one."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        return member.offers(request.protocols)
    if group.state is GroupState.STABLE:
        return member.member_id != group.leader and member.offers(request.protocols)
    return False


def _update(group: Group, member: Member, request: Join) -> None:
    """Replace the member's protocols and timeouts by those of the request."""
    group.roster.offer(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms


def _replace(
    group: Group, token: Token, request: Join, old: Member, new: Member, now_ms: int
) -> None:
    """Replace a static member that joins under a new id; the old id is fenced (KIP-345).

    In a stable group the new id takes over the assignment without a rebalance, if the group would
    still choose the same protocol. The member's metadata may differ; that is normal, because it may
    contain the partitions that the member owns. In a sync phase all members must join again,
    because the leader may already be making an assignment for the old id.
    """
    was_leader = old.member_id == group.leader
    _fence_replaced(group, old)
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


def _fence_replaced(group: Group, old: Member) -> None:
    """Remove the replaced member. Its waiting requests get FENCED_INSTANCE_ID."""
    group.sessions.clear(old.member_id)
    group.roster.remove(old.member_id)
    group.release(old.member_id, Code.FENCED_INSTANCE_ID, answer_id=old.member_id)


def _taken_over(group: Group, request: Join, old: Member, new: Member) -> Joined:
    """The answer to a static member that took over the assignment of its old id. It must not make a
    new assignment, even if it is the leader, because the generation has one already.

    With `skip_assignment` a leader knows that and still watches its topics (KIP-814). A client that
    does not support the flag gets the old id as the leader's, so it does not consider itself the
    leader.
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


def _why(verb: str, member_id: str, request: Join) -> str:
    """The reason of a rebalance, for logs: what the member does, and its own reason for it."""
    reason = f": {request.reason}" if request.reason else ""
    return f"{member_id} of {request.client_host} {verb}{reason}"
