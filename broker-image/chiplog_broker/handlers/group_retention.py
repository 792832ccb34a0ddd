"""Sets the offset retention of single groups, as the operator requests."""

from functools import partial

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.handlers.group_facts import refusal_of
from chiplog_core.model.group_exchange import (
    GroupRetention,
    RetentionAnswer,
    RetentionRequest,
    RetentionStored,
)
from chiplog_wire.protocol.errors import ErrorCode


class GroupRetentionHandler:
    """Sets the offset retention of groups through the coordinator."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def answer(self, request: RetentionRequest) -> RetentionAnswer:
        """One result for each group. The operator sends refused ones again, to this broker or to
        another one."""
        return RetentionAnswer(
            groups=tuple(await bounded_gather(self._set(group) for group in request.groups))
        )

    async def _set(self, wanted: GroupRetention) -> RetentionStored:
        """Set the offset retention of one group, and wait until it is stored."""
        group_id, retention_ms = wanted.group_id, wanted.retention_ms
        try:
            shard = self._coordinator.shard(group_id)
        except GroupError as refused:
            code = refused.code
        else:
            code = await outcome(partial(shard.set_retention, group_id, retention_ms))
        refusal = None if code is ErrorCode.none else refusal_of(code)
        return RetentionStored(group_id=group_id, refusal=refusal)
