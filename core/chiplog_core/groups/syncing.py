"""SyncGroup: the leader sends the assignment, and every member gets its part of it."""

from chiplog_core.groups.answers import Synced, Token
from chiplog_core.groups.codes import Code
from chiplog_core.groups.group import Group
from chiplog_core.groups.member import Member
from chiplog_core.groups.requests import Sync
from chiplog_core.groups.states import GroupEvent
from chiplog_core.model.group_status import GroupState


def sync(group: Group, token: Token, request: Sync, now_ms: int) -> None:
    """Answer a SyncGroup, or let it wait for the SyncGroup of the leader, which has the
    assignment."""
    member = group.roster.find(request.member_id, request.group_instance_id)
    if isinstance(member, Code):
        group.answer(token, Synced(code=member))
        return
    code = _why_not(group, request)
    if code is not Code.NONE:
        group.answer(token, Synced(code=code))
        return
    group.unsynced.discard(member.member_id)
    if group.state is GroupState.STABLE:
        group.answer(token, _assigned(group, member))
        group.renew(member, now_ms)
    else:
        group.wait_to_sync(member, token)
        if member.member_id == group.leader:
            _assign(group, request, now_ms)
    if group.state is GroupState.STABLE and not group.unsynced:
        group.sync_due_ms = None  # all members have synced


def _why_not(group: Group, request: Sync) -> Code:
    """The error code for a SyncGroup that does not fit the present generation; else NONE."""
    if request.generation != group.generation:
        return Code.ILLEGAL_GENERATION
    if request.protocol_type not in {None, group.protocol_type}:
        return Code.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in {None, group.protocol}:
        return Code.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return Code.REBALANCE_IN_PROGRESS
    return Code.NONE


def _assign(group: Group, request: Sync, now_ms: int) -> None:
    """Store the leader's assignment, and answer all waiting SyncGroups. Members that are not in the
    assignment get an empty one; unknown member ids in it are ignored."""
    for member in group.roster:
        member.assignment = request.assignments.get(member.member_id, b"")
    group.change(GroupEvent.ASSIGNED, f"leader {group.leader} has assigned", now_ms)
    group.store()
    syncs, group.syncs = group.syncs, {}
    for member_id, token in syncs.items():
        member = group.roster[member_id]
        group.answer(token, _assigned(group, member))
        group.renew(member, now_ms)


def _assigned(group: Group, member: Member) -> Synced:
    """The answer with the member's assignment."""
    return Synced(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )
