"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455).

The operator moves replicas; this broker forwards requests to it, and lists the moves that its own
view of the cluster shows.
"""

from collections.abc import Mapping
from typing import Any, Final

from chiplog_broker.metadata.operations import Outcome
from chiplog_broker.metadata.port import MetadataStore
from chiplog_broker.metadata.view import ClusterView, PartitionView, TopicView
from chiplog_broker.server.call import Call
from chiplog_core.admin.operations import PartitionTarget, ReassignPartitions
from chiplog_core.ids import TopicId
from chiplog_wire.protocol.answers import NO_THROTTLE, answers, milliseconds
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

MAX_FORWARDED: Final = 500
"""Partitions in one request to the operator, whose length is limited."""

Outcomes = dict[int, Outcome]
"""Results by partition."""


class ReassignmentHandlers:
    """Forwards reassignments to the metadata store, and lists those in progress."""

    def __init__(self, cluster: ClusterView, store: MetadataStore) -> None:
        self._cluster = cluster
        self._store = store

    async def alter_partition_reassignments(self, call: Call[Any]) -> object:
        """Begin, replace or cancel reassignments; one result for each partition."""
        wanted: dict[str, dict[int, tuple[int, ...] | None]] = {}
        for topic in call.message.topics:
            of_topic = wanted.setdefault(topic.name, {})
            for partition in topic.partitions:
                replicas = partition.replicas
                of_topic[partition.partition_index] = None if replicas is None else tuple(replicas)

        # One topic after the other: the requests of a broker share `MAX_ADMIN_REQUESTS_BYTES`.
        found = {name: await self._alter(name, targets, call) for name, targets in wanted.items()}
        return _altered(call, found)

    async def _alter(
        self, name: str, targets: Mapping[int, tuple[int, ...] | None], call: Call[Any]
    ) -> Outcomes:
        """Begin or cancel reassignments of one topic."""
        view = self._cluster.topic(name)
        outcomes = {index: _unknown(name, index) for index in targets}
        if view is None:
            return outcomes
        known = [index for index in targets if 0 <= index < len(view.partitions)]
        for start in range(0, len(known), MAX_FORWARDED):
            part = known[start : start + MAX_FORWARDED]
            outcomes |= await self._submit(view, {index: targets[index] for index in part}, call)
        return outcomes

    async def _submit(
        self, view: TopicView, targets: Mapping[int, tuple[int, ...] | None], call: Call[Any]
    ) -> Outcomes:
        """Submit reassignments; the partition epochs tell the operator what this broker knew."""
        outcome = await self._store.submit(
            ReassignPartitions(
                name=view.name,
                topic_id=TopicId(view.topic_id.bytes),
                targets={
                    index: PartitionTarget(
                        replicas=replicas, partition_epoch=view.partitions[index].partition_epoch
                    )
                    for index, replicas in targets.items()
                },
                allows_another_count=getattr(call.message, "allow_replication_factor_change", True),
                timeout_ms=milliseconds(call.message.timeout),
            ),
            call.peer.principal,
        )
        return {index: outcome.partitions.get(index, outcome) for index in targets}

    def list_partition_reassignments(self, call: Call[Any]) -> object:
        """The reassignments in progress, of all topics or of the requested partitions."""
        types = answers(ApiKey.LIST_PARTITION_REASSIGNMENTS)
        requested = call.message.topics
        found: list[tuple[str, list[PartitionView]]] = []
        if requested is None:
            found += [(topic.name, list(topic.partitions)) for topic in self._cluster]
        for one in requested or ():
            view = self._cluster.topic(one.name)
            wanted = set(one.partition_indexes)
            partitions = () if view is None else view.partitions
            found.append((one.name, [part for part in partitions if part.index in wanted]))
        return types.ListPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE,
            error_code=ErrorCode.none,
            error_message=None,
            topics=tuple(
                types.OngoingTopicReassignment(name=name, partitions=ongoing)
                for name, partitions in found
                if (
                    ongoing := tuple(
                        _ongoing(types, one) for one in partitions if one.is_reassigning
                    )
                )
            ),
        )


def _ongoing(types: Any, partition: PartitionView) -> object:
    """The reassignment of a partition, for the answer."""
    return types.OngoingPartitionReassignment(
        partition_index=partition.index,
        replicas=partition.replicas,
        adding_replicas=partition.adding,
        removing_replicas=partition.removing,
    )


def _unknown(name: str, index: int) -> Outcome:
    """The result for a partition that this broker does not know."""
    return Outcome(
        ErrorCode.unknown_topic_or_partition, f"there is no partition {index} of '{name}'"
    )


def _altered(call: Call[Any], found: Mapping[str, Outcomes]) -> object:
    """The answer to AlterPartitionReassignments."""
    types = answers(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    return types.AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=getattr(
            call.message, "allow_replication_factor_change", True
        ),
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            types.ReassignableTopicResponse(
                name=name,
                partitions=tuple(
                    types.ReassignablePartitionResponse(
                        partition_index=index,
                        error_code=outcome.code,
                        error_message=outcome.message,
                    )
                    for index, outcome in outcomes.items()
                ),
            )
            for name, outcomes in found.items()
        ),
    )
