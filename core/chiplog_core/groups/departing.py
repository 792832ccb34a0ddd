"""LeaveGroup, members whose sessions end, and groups that are fenced."""

from collections.abc import Sequence

from chiplog_core.groups.answers import Left, LeftMember, Token
from chiplog_core.groups.codes import Code
from chiplog_core.groups.group import Group
from chiplog_core.groups.member import Member
from chiplog_core.groups.requests import UNKNOWN_MEMBER, Leaving
from chiplog_core.groups.states import GroupEvent
from chiplog_core.model.group_status import GroupState


def leave(group: Group, token: Token, leaving: Sequence[Leaving], now_ms: int) -> None:
    """Remove members and answer with a code for each. One rebalance follows for all of them."""
    before = len(group.roster)
    codes = tuple(
        LeftMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            code=_leave(group, member),
        )
        for member in leaving
    )
    if len(group.roster) < before:
        group.rebalance(GroupEvent.LEFT, _why(leaving), now_ms)
    else:
        group.complete_if_all_joined(now_ms)
    group.answer(token, Left(members=codes))


def _leave(group: Group, leaving: Leaving) -> Code:
    """Remove one member or pending id; its error code."""
    if leaving.member_id in group.pending:
        group.remove(leaving.member_id)
        return Code.NONE
    member = _who(group, leaving)
    if isinstance(member, Code):
        return member
    group.remove(member.member_id)
    return Code.NONE


def _who(group: Group, leaving: Leaving) -> Member | Code:
    """The member that leaves. Administrators name only the group.instance.id (KIP-345)."""
    if leaving.member_id == UNKNOWN_MEMBER:
        return group.roster.of_instance(leaving.group_instance_id) or Code.UNKNOWN_MEMBER_ID
    return group.roster.find(leaving.member_id, leaving.group_instance_id)


def _why(leaving: Sequence[Leaving]) -> str:
    """The reason of the rebalance, for logs: the members that leave."""
    names = ", ".join(
        (member.member_id or member.group_instance_id or "")
        + (f" ({member.reason})" if member.reason else "")
        for member in leaving[:5]
    )
    return f"{names} and {len(leaving) - 5} more leave" if len(leaving) > 5 else f"{names} left"


def fence(group: Group, why: str, now_ms: int) -> None:
    """Remove all members and pending ids: the next generation is empty.

    Members get UNKNOWN_MEMBER_ID, static ones too: after it a client joins again, while
    FENCED_INSTANCE_ID would stop it.
    """
    had_members = bool(group.roster)
    for member_id in [*group.pending, *(member.member_id for member in group.roster)]:
        group.remove(member_id)
    if had_members:
        group.initial_until_ms = None  # members that may still join have nobody to wait for
        group.rebalance(GroupEvent.LEFT, why, now_ms)


def lose(group: Group, member_id: str, now_ms: int) -> None:
    """Remove a member or pending id whose session has ended."""
    is_member = member_id in group.roster
    group.remove(member_id)
    if is_member:
        group.rebalance(GroupEvent.LEFT, f"{member_id} sent no heartbeat in time", now_ms)
    else:
        group.complete_if_all_joined(now_ms)


def remove_unsynced(group: Group, now_ms: int) -> None:
    """Remove the members that joined this generation and sent no SyncGroup in time."""
    group.sync_due_ms = None
    late = sorted(group.unsynced)
    if not late and group.state is GroupState.STABLE:
        return
    for member_id in late:
        group.remove(member_id)
    group.rebalance(GroupEvent.SYNC_MISSED, f"{len(late)} members did not sync in time", now_ms)
