"""OffsetDelete: deletes a group's offsets of topics that no member subscribes to (KIP-496).

Like every answer about groups, this one waits until its records are safe.
"""

from functools import partial
from typing import Any

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.holding import outcome
from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.server.call import Call
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.groups.description import Description
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.consumer_protocol import CONSUMER, subscribed_topics
from chiplog_wire.protocol.errors import ErrorCode


class OffsetDeletion:
    """Deletes offsets through the coordinator; the cluster view says which topics exist."""

    def __init__(self, coordinator: Coordinator, cluster: ClusterView) -> None:
        self._coordinator = coordinator
        self._cluster = cluster

    async def offset_delete(self, call: Call[Any]) -> object:
        """Delete offsets. Each partition has its own result; after an error of the whole group
        there are none."""
        types, request = answers(ApiKey.OFFSET_DELETE), call.message
        requested = {
            topic.name: tuple(partition.partition_index for partition in topic.partitions)
            for topic in request.topics
        }
        code = ErrorCode.none
        codes: dict[TopicPartition, ErrorCode] = {}
        try:
            codes = await self._delete(request.group_id, requested)
        except GroupError as refused:
            code, requested = refused.code, {}
        return types.OffsetDeleteResponse(
            error_code=code,
            throttle_time=NO_THROTTLE,
            topics=tuple(
                types.OffsetDeleteResponseTopic(
                    name=name,
                    partitions=tuple(
                        types.OffsetDeleteResponsePartition(
                            partition_index=index, error_code=codes[TopicPartition(name, index)]
                        )
                        for index in indexes
                    ),
                )
                for name, indexes in requested.items()
            ),
        )

    async def _delete(
        self, group_id: str, requested: dict[str, tuple[int, ...]]
    ) -> dict[TopicPartition, ErrorCode]:
        """Delete the offsets that may be deleted; returns the result of each partition.

        Raises `GroupError` for an error of the whole group.
        """
        if not group_id:
            raise GroupError(ErrorCode.invalid_group_id)
        shard = self._coordinator.shard(group_id)
        if not shard.exists(group_id):
            await shard.until_safe(group_id)
            raise GroupError(ErrorCode.group_id_not_found)
        in_use = topics_in_use(shard.describe(group_id))
        codes = {
            TopicPartition(name, index): self._code(name, index, in_use)
            for name, indexes in requested.items()
            for index in indexes
        }
        stored = shard.offsets(group_id)
        to_delete = [
            partition for partition, code in codes.items() if not code and partition in stored
        ]
        code = await outcome(partial(shard.forget_offsets, group_id, to_delete))
        if code is not ErrorCode.none:
            raise GroupError(code)
        return codes

    def _code(self, name: str, index: int, in_use: frozenset[str] | None) -> ErrorCode:
        """Why a partition's offset must not be deleted; `none` if it may be. `in_use` is the result
        of `topics_in_use`."""
        view = self._cluster.topic(name)
        if view is None or not 0 <= index < len(view.partitions):
            return ErrorCode.unknown_topic_or_partition
        if in_use is None or name in in_use:
            return ErrorCode.group_subscribed_to_topic
        return ErrorCode.none


def topics_in_use(group: Description) -> frozenset[str] | None:
    """The topics that members of a group subscribe to.

    None if a subscription is unknown, because the group rebalances: then any topic may be in use.
    Raises `GroupError` for a group whose members are not consumers.
    """
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER:
        raise GroupError(ErrorCode.non_empty_group)
    in_use: frozenset[str] = frozenset()
    for member in group.members:
        subscribed = subscribed_topics(member.metadata)
        if subscribed is None:
            return None
        in_use |= subscribed
    return in_use
