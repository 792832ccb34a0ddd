"""DescribeGroups, ListGroups and DeleteGroups."""

from functools import partial
from typing import Any

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.handlers.slices import LongWork
from chiplog_broker.server.call import Call
from chiplog_core.groups.description import Description, MemberDescription
from chiplog_core.model.group_status import GroupState
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

CLASSIC = "classic"
NOT_FOUND_FROM_VERSION = 6


class GroupAdminHandlers:
    """Describes, lists and deletes the groups that this broker coordinates."""

    def __init__(self, coordinator: Coordinator, long_work: LongWork) -> None:
        self._coordinator = coordinator
        self._long_work = long_work

    async def describe_groups(self, call: Call[Any]) -> object:
        """The state and the members of each requested group."""
        types, version = answers(ApiKey.DESCRIBE_GROUPS), call.header.version

        async def described(group_id: str) -> object:
            try:
                shard = self._coordinator.shard(group_id)
                group = shard.describe(group_id) if shard.exists(group_id) else None
                await shard.until_safe(group_id)
            except GroupError as refused:
                return not_described(types, group_id, refused.code, "")
            if group is not None:
                return described_group(types, group_id, group)
            # A group that does not exist is dead; later versions also have an error for it
            # (KIP-1043).
            is_error = version >= NOT_FOUND_FROM_VERSION
            code = ErrorCode.group_id_not_found if is_error else ErrorCode.none
            return not_described(types, group_id, code, GroupState.DEAD)

        # Each group once: its id takes a few bytes, its members up to some millions.
        groups = await bounded_gather(
            described(group_id) for group_id in dict.fromkeys(call.message.groups)
        )
        return types.DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))

    async def consumer_group_describe(self, call: Call[Any]) -> object:
        """Groups of the next-generation protocol (KIP-848): there are none.

        GROUP_ID_NOT_FOUND makes tools ask for a classic group of that id, as in Kafka.
        """
        types = answers(ApiKey.CONSUMER_GROUP_DESCRIBE)

        async def described(group_id: str) -> object:
            code, why = ErrorCode.group_id_not_found, f"Group {group_id} is not a consumer group."
            try:
                shard = self._coordinator.shard(group_id)
                if not shard.exists(group_id):
                    why = f"Group {group_id} not found."
                await shard.until_safe(group_id)
            except GroupError as refused:
                code, why = refused.code, str(refused)
            return types.DescribedGroup(
                error_code=code,
                error_message=why,
                group_id=group_id,
                group_state=GroupState.DEAD,
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=(),
            )

        # Each group once: its id takes a few bytes, its answer a hundred.
        groups = await bounded_gather(
            described(group_id) for group_id in dict.fromkeys(call.message.group_ids)
        )
        return types.ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))

    async def list_groups(self, call: Call[Any]) -> object:
        """The groups that this broker coordinates; a tool asks all brokers and combines the
        answers."""
        types, request = answers(ApiKey.LIST_GROUPS), call.message
        states = {state.lower() for state in request.states_filter}
        kinds = {kind.lower() for kind in request.types_filter}
        code, listed = ErrorCode.none, []
        try:
            listed = await self._list()
        except GroupError as refused:
            code = refused.code
        return types.ListGroupsResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            groups=tuple(
                types.ListedGroup(
                    group_id=group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state.value,
                    group_type=CLASSIC,
                )
                for group_id, group in listed
                if not states or group.state.value.lower() in states
                if not kinds or CLASSIC in kinds
            ),
        )

    async def _list(self) -> list[tuple[str, Description]]:
        """All groups of this broker's shards, which coordinate the groups of one partition each.

        Raises `GroupError` if the list would be incomplete.
        """
        if any(shard.is_loading for shard in self._coordinator):
            raise GroupError(ErrorCode.coordinator_load_in_progress)
        serving = [shard for shard in self._coordinator if shard.is_serving]
        listed, slices = [], self._long_work.slices()
        for shard in serving:
            for group_id in shard:
                await slices.pause()
                if shard.exists(group_id):  # it may have been deleted in the meantime
                    listed.append((group_id, shard.describe(group_id)))
        await bounded_gather(shard.until_all_safe() for shard in serving)
        return listed

    async def delete_groups(self, call: Call[Any]) -> object:
        """Delete groups without members; one result for each requested group id."""
        types = answers(ApiKey.DELETE_GROUPS)

        async def deleted(group_id: str) -> object:
            return types.DeletableGroupResult(
                group_id=group_id, error_code=await self._delete(group_id)
            )

        # A group that is named twice is deleted once, and answered twice.
        results = await bounded_gather(deleted(group_id) for group_id in call.message.groups_names)
        return types.DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=tuple(results))

    async def _delete(self, group_id: str) -> ErrorCode:
        """Delete one group, and return the error code for the client."""
        try:
            shard = self._coordinator.shard(group_id)
        except GroupError as refused:
            return refused.code
        return await outcome(partial(shard.delete, group_id))


def not_described(types: Any, group_id: str, code: ErrorCode, state: str) -> object:
    """The answer for a group that does not exist or is refused: an error code and no members."""
    is_missing = code is ErrorCode.group_id_not_found
    return types.DescribedGroup(
        error_code=code,
        error_message=f"Group {group_id} not found." if is_missing else None,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        members=(),
    )


def described_group(types: Any, group_id: str, group: Description) -> object:
    return types.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=tuple(described_member(types, member) for member in group.members),
    )


def described_member(types: Any, member: MemberDescription) -> object:
    return types.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
