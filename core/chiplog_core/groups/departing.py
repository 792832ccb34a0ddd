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
    """Remove one member, or an id that was given out and has not joined yet (pending). Returns its
    error code, NONE if it was removed."""
    if leaving.member_id in group.pending:
        group.remove(leaving.member_id)
        return Code.NONE
    member = _leaving_member(group, leaving)
    if isinstance(member, Code):
        return member
    group.remove(member.member_id)
    return Code.NONE


def _leaving_member(group: Group, leaving: Leaving) -> Member | Code:
    """The member that leaves, or an error code. Administrators give only the group.instance.id
    (KIP-345)."""
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
    """Remove all members and all ids that were given out; the next generation is empty. `why` is
    the reason, for logs.

    All members get UNKNOWN_MEMBER_ID, including static ones: after this code a client joins again,
    while FENCED_INSTANCE_ID would stop it.
    """
    had_members = bool(group.roster)
    for member_id in [*group.pending, *(member.member_id for member in group.roster)]:
        group.remove(member_id)
    if had_members:
        # End an initial delay: it would keep the empty group waiting for more members.
        group.initial_until_ms = None
        group.rebalance(GroupEvent.LEFT, why, now_ms)


def lose(group: Group, member_id: str, now_ms: int) -> None:
    """Remove a member, or an id that was given out and has not joined, whose session has ended."""
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
    # Also without late members: then a leader that is away has not sent its assignment in time.
    for member_id in late:
        group.remove(member_id)
    group.rebalance(GroupEvent.SYNC_MISSED, f"{len(late)} members did not sync in time", now_ms)
