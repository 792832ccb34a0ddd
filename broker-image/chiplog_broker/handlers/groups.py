"""Members of consumer groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeAlias, TypeVar

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError, group_code
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.server.call import Answer, Call
from chiplog_core.groups.answers import Joined, Left, Synced
from chiplog_core.groups.codes import Code
from chiplog_core.groups.requests import Identity, Join, Leaving, Sync
from chiplog_wire.protocol.answers import NO_THROTTLE, answers, milliseconds
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

A = TypeVar("A")
Respond: TypeAlias = Callable[[A], None]
Waiting: TypeAlias = asyncio.Future[Answer]
"""Gets the encoded answer once the coordinator has one."""

KNOWN_MEMBERS_FROM_VERSION = 4
"""From here on a new member first gets its id, and joins in a second request (KIP-394)."""
PROTOCOL_FROM_VERSION = 5
"""A Sync says which protocol it is for (KIP-559)."""
SKIPS_ASSIGNMENT_FROM_VERSION = 9
"""The answer may ask a leader to skip the assignment (KIP-814)."""
REASON_LENGTH = 255
"""Longer ones are cut, as clients do it (KIP-800)."""


class GroupHandlers:
    """Passes requests to the coordinator. Its answer may come later: a JoinGroup waits for the
    other members."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def join_group(self, call: Call[Any]) -> Waiting | object:
        """Pass a JoinGroup to the coordinator, which answers when the rebalance is complete."""
        request = call.message
        member_request = Join(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            client_id=call.header.client_id or "",
            client_host=f"/{call.peer.host}",
            session_timeout_ms=milliseconds(request.session_timeout),
            # Version 0 has no rebalance timeout; it is decoded as -1.
            rebalance_timeout_ms=milliseconds(
                request.session_timeout
                if request.rebalance_timeout < timedelta(0)
                else request.rebalance_timeout
            ),
            protocol_type=request.protocol_type,
            protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
            requires_known_member_id=call.header.version >= KNOWN_MEMBERS_FROM_VERSION,
            supports_skipping_assignment=call.header.version >= SKIPS_ASSIGNMENT_FROM_VERSION,
            reason=(request.reason or "")[:REASON_LENGTH],
        )
        group_id = request.group_id

        def refused(code: ErrorCode) -> object:
            return join_response(Joined(code=group_code(code), member_id=member_request.member_id))

        def submit(shard: Shard, respond: Respond[Joined]) -> None:
            shard.join(group_id, member_request, respond)

        return self._submit(call, group_id, submit, join_response, refused)

    def sync_group(self, call: Call[Any]) -> Waiting | object:
        """Pass a SyncGroup to the coordinator, which answers when the leader has sent
        assignments."""
        request = call.message
        protocol = request.protocol_type, request.protocol_name
        if call.header.version >= PROTOCOL_FROM_VERSION and None in protocol:
            return sync_response(Synced(code=Code.INCONSISTENT_GROUP_PROTOCOL))
        member_request = Sync(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignments={
                assignment.member_id: assignment.assignment for assignment in request.assignments
            },
        )

        def submit(shard: Shard, respond: Respond[Synced]) -> None:
            shard.sync(request.group_id, member_request, respond)

        def refused(code: ErrorCode) -> object:
            return sync_response(Synced(code=group_code(code)))

        return self._submit(call, request.group_id, submit, sync_response, refused)

    def heartbeat(self, call: Call[Any]) -> Waiting | object:
        request = call.message
        member_request = Identity(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation_id,
        )

        def submit(shard: Shard, respond: Respond[ErrorCode]) -> None:
            shard.heartbeat(request.group_id, member_request, respond)

        return self._submit(
            call, request.group_id, submit, heartbeat_response, heartbeat_response_while_loading
        )

    def leave_group(self, call: Call[Any]) -> Waiting | object:
        request = call.message
        leaving = [
            Leaving(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                reason=(member.reason or "")[:REASON_LENGTH],
            )
            for member in request.members
        ]

        def submit(shard: Shard, respond: Respond[Left]) -> None:
            shard.leave(request.group_id, leaving, respond)

        def refused(code: ErrorCode) -> object:
            return leave_response(Left(code=group_code(code)))

        return self._submit(call, request.group_id, submit, leave_response, refused)

    def _submit(
        self,
        call: Call[Any],
        group_id: str,
        submit: Callable[[Shard, Respond[A]], None],
        to_response: Callable[[A], object],
        refused: Callable[[ErrorCode], object],
    ) -> Waiting | object:
        """Submit a request to the shard, which coordinates the groups of one partition.

        Returns a future of the encoded answer, or at once the response with an error if this
        broker does not coordinate the group. `to_response` makes the response from the shard's
        answer, `refused` from an error code.
        """
        if not group_id:
            return refused(ErrorCode.invalid_group_id)
        try:
            shard = self._coordinator.shard(group_id)
        except GroupError as problem:
            return refused(problem.code)
        waiting: Waiting = asyncio.get_running_loop().create_future()
        submit(shard, lambda answer: call.answer(waiting, lambda: to_response(answer)))
        return waiting


def join_response(answer: Joined) -> object:
    types = answers(ApiKey.JOIN_GROUP)
    return types.JoinGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(answer.code),
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            types.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ),
    )


def sync_response(answer: Synced) -> object:
    return answers(ApiKey.SYNC_GROUP).SyncGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(answer.code),
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )


def heartbeat_response(code: ErrorCode) -> object:
    return answers(ApiKey.HEARTBEAT).HeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code)


def heartbeat_response_while_loading(code: ErrorCode) -> object:
    """The answer to a heartbeat that was refused with `code`.

    While the coordinator loads, it answers without an error, as Kafka does: the group may know the
    member once it is loaded, and clients do not expect that error code here.
    """
    is_loading = code is ErrorCode.coordinator_load_in_progress
    return heartbeat_response(ErrorCode.none if is_loading else code)


def leave_response(answer: Left) -> object:
    types = answers(ApiKey.LEAVE_GROUP)
    return types.LeaveGroupResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode(answer.code),
        members=tuple(
            types.MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=ErrorCode(member.code),
            )
            for member in answer.members
        ),
    )
