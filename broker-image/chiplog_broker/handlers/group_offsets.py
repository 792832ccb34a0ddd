"""OffsetCommit and OffsetFetch.

A committed offset belongs to a topic id: if a topic was deleted and created again, the offset does
not exist for it.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.handlers.slices import LongWork, Slices
from chiplog_broker.metadata.view import ClusterView, TopicView
from chiplog_broker.server.call import Answer, Call
from chiplog_broker.settings import setting
from chiplog_broker.storage.names import TopicPartition
from chiplog_core.config import broker_keys as keys
from chiplog_core.groups.requests import Identity
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.offset_messages import (
    IDS_FROM_VERSION,
    NO_LEADER_EPOCH,
    RETENTION_OF_BROKER,
    CommittedTopic,
    FoundGroup,
    FoundPartition,
    FoundTopic,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    TopicRef,
    WantedGroup,
    WantedTopic,
)
from chiplog_wire.steps import Steps, run_steps

NO_OFFSET = -1
GROUP_ERRORS_FROM_VERSION = 2

_RETRIED_CODES: Final = {
    ErrorCode.coordinator_not_available: ErrorCode.coordinator_load_in_progress
}
"""librdkafka does not retry after the first code, and Java before 3.9 fails (decision 32)."""

MAX_UNSLICED_PARTITIONS: Final = 2_000
"""Partitions of one commit that are handled in one slice; larger commits take several."""
PARTITIONS_PER_STEP: Final = 100

Refused: TypeAlias = dict[tuple[int, int], ErrorCode]
"""Error codes by the positions of topic and partition in the request."""
Checked: TypeAlias = tuple[Refused, dict[TopicPartition, CommittedOffset]]
"""The errors of invalid offsets, and the valid offsets, which can be committed."""


class GroupOffsetHandlers:
    """Commits and reads offsets through the coordinator; the cluster view says which topics
    exist."""

    def __init__(
        self,
        coordinator: Coordinator,
        cluster: ClusterView,
        config: Mapping[str, str],
        long_work: LongWork,
    ) -> None:
        self._coordinator = coordinator
        self._cluster = cluster
        self._config = config
        self._long_work = long_work

    def offset_commit(
        self, call: Call[OffsetCommitRequest]
    ) -> asyncio.Future[Answer] | Coroutine[Any, Any, object] | object:
        """Commit all valid offsets together; each partition has its own result."""
        request = call.message
        if sum(len(topic.partitions) for topic in request.topics) > MAX_UNSLICED_PARTITIONS:
            return self._commit_in_slices(call)
        try:
            shard = self._coordinator.shard(request.group_id)
        except GroupError as problem:
            return commit_response(request, {}, problem.code)
        return self._commit(call, shard, run_steps(self._check_commits(request)))

    async def _commit_in_slices(
        self, call: Call[OffsetCommitRequest]
    ) -> asyncio.Future[Answer] | object:
        """Commit all valid offsets of a request with many partitions. They are checked in slices,
        between which other requests run. Returns a future of the answer, or the answer itself if
        this broker does not coordinate the group."""
        checked = await self._long_work.run(
            self._check_commits(call.message), self._long_work.slices()
        )
        try:
            shard = self._coordinator.shard(call.message.group_id)
        except GroupError as problem:
            return commit_response(call.message, {}, problem.code)
        return self._commit(call, shard, checked)

    def _commit(
        self, call: Call[OffsetCommitRequest], shard: Shard, checked: Checked
    ) -> asyncio.Future[Answer]:
        """Commit the valid offsets of `checked`. The future gets the encoded answer once they are
        below the high watermark, or with an error."""
        request, (refused, commits) = call.message, checked
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        who = Identity(
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            generation=request.generation,
        )
        shard.commit(
            request.group_id,
            who,
            commits,
            lambda code: call.answer(waiting, lambda: commit_response(request, refused, code)),
        )
        return waiting

    def _check_commits(self, request: OffsetCommitRequest) -> Steps[Checked]:
        """Check the offsets of a request, in steps between which other requests may run. Returns
        the errors of invalid offsets, and the valid offsets to commit. If the request names a
        partition twice, the last offset counts."""
        refused: Refused = {}
        commits: dict[TopicPartition, CommittedOffset] = {}
        longest_bytes = setting(self._config, keys.OFFSET_METADATA_MAX_BYTES)
        now_ms = self._coordinator.now_ms()
        expires = request.retention_ms != RETENTION_OF_BROKER
        for place, topic in enumerate(request.topics):
            view, unknown = self._for_commits(topic.topic)
            for index, partition in enumerate(topic.partitions):
                metadata = partition.metadata or ""
                if view is None:
                    refused[place, index] = unknown
                elif not 0 <= partition.number < len(view.partitions):
                    refused[place, index] = ErrorCode.unknown_topic_or_partition
                elif len(metadata.encode()) > longest_bytes:
                    refused[place, index] = ErrorCode.offset_metadata_too_large
                else:
                    commits[TopicPartition(view.name, partition.number)] = CommittedOffset(
                        offset=partition.offset,
                        leader_epoch=partition.leader_epoch,
                        metadata=metadata,
                        commit_timestamp_ms=now_ms,
                        expire_timestamp_ms=now_ms + request.retention_ms if expires else None,
                        topic_id=view.topic_id,
                    )
                if not index % PARTITIONS_PER_STEP:
                    yield None
        return refused, commits

    def _for_commits(self, topic: TopicRef) -> tuple[TopicView | None, ErrorCode]:
        """The topic, or None; then the second value is the error for its partitions.

        An announced topic exists, but is not in this broker's cluster view yet. The view may still
        have an older topic with the same name, for which the offset must not be committed.
        """
        view, unknown = self._find_topic(topic)
        if topic.name is not None and self._cluster.announced_topic_id(topic.name) is not None:
            return None, ErrorCode.coordinator_load_in_progress
        if topic.topic_id is not None and self._cluster.is_announced(topic.topic_id):
            return None, ErrorCode.coordinator_load_in_progress
        return view, unknown

    async def offset_fetch(self, call: Call[OffsetFetchRequest]) -> object:
        """The committed offsets of the requested groups."""
        by_id = call.header.version >= IDS_FROM_VERSION
        slices = self._long_work.slices()
        # Each group once: its id takes a few bytes, its offsets up to some millions.
        groups = {(group.group_id, group.topics): group for group in call.message.groups}.values()
        found = await bounded_gather(self._fetch(group, slices, by_id=by_id) for group in groups)
        if call.header.version < GROUP_ERRORS_FROM_VERSION:
            found = [errors_by_partition(*pair) for pair in zip(groups, found, strict=True)]
        return OffsetFetchResponse(tuple(found))

    async def _fetch(self, wanted: WantedGroup, slices: Slices, *, by_id: bool) -> FoundGroup:
        """The offsets of one group. `by_id`: the answer has topic ids instead of names."""
        try:
            shard = self._coordinator.shard(wanted.group_id)
            # A copy, so that all offsets are of one instant: the answer may take several slices.
            offsets = dict(shard.offsets(wanted.group_id))
            if self._needs_announced_topic(offsets, wanted):
                raise GroupError(ErrorCode.coordinator_load_in_progress)
            topics = (
                self._all_offsets(offsets, by_id=by_id) if wanted.topics is None else wanted.topics
            )
            found = tuple([await self._read_offsets(offsets, topic, slices) for topic in topics])
            # Another broker may coordinate the group already, and have newer commits.
            await shard.until_current(wanted.group_id)
        except GroupError as refused:
            return FoundGroup(wanted.group_id, (), _RETRIED_CODES.get(refused.code, refused.code))
        return FoundGroup(wanted.group_id, found, ErrorCode.none)

    def _needs_announced_topic(
        self, offsets: Mapping[TopicPartition, CommittedOffset], wanted: WantedGroup
    ) -> bool:
        """Whether the answer depends on an announced topic: one that exists, but is not in this
        broker's cluster view yet.

        "No committed offset" would make members reset their position by `auto.offset.reset`. So the
        whole group gets the one error that makes every client retry (decision 32).
        """
        if wanted.topics is None:
            return any(self._is_for_announced(*item) for item in offsets.items())
        return any(
            self._cluster.is_announced(ref.topic_id)
            if ref.topic_id is not None
            else any(
                self._is_for_announced(partition, offsets[partition])
                for partition in (TopicPartition(ref.name or "", index) for index in partitions)
                if partition in offsets
            )
            for ref, partitions in wanted.topics
        )

    def _is_for_announced(self, partition: TopicPartition, commit: CommittedOffset) -> bool:
        """Whether the offset was committed for an announced topic: one that exists, but is not in
        this broker's cluster view yet."""
        announced_topic_id = self._cluster.announced_topic_id(partition.topic)
        return announced_topic_id is not None and commit.is_for(announced_topic_id)

    def _all_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], *, by_id: bool
    ) -> list[WantedTopic]:
        """The topics and partitions of all offsets, without those of topics that do not exist."""
        indexes: dict[str, list[int]] = {}
        for partition, commit in offsets.items():
            view = self._cluster.topic(partition.topic)
            if view is not None and commit.is_for(view.topic_id):
                indexes.setdefault(partition.topic, []).append(partition.partition)
        return [
            WantedTopic(self._topic_ref(name, by_id=by_id), tuple(sorted(of_topic)))
            for name, of_topic in sorted(indexes.items())
        ]

    def _topic_ref(self, name: str, *, by_id: bool) -> TopicRef:
        """How the answer names a topic: by id if `by_id` is true and the topic exists, else by
        name."""
        view = self._cluster.topic(name)
        return TopicRef(None, view.topic_id) if by_id and view is not None else TopicRef(name)

    async def _read_offsets(
        self, offsets: Mapping[TopicPartition, CommittedOffset], wanted: WantedTopic, slices: Slices
    ) -> FoundTopic:
        """The committed offsets of one topic; -1 where there is none."""
        view, unknown = self._find_topic(wanted.topic)
        # An unknown name has no committed offsets; an unknown id is an error.
        code = unknown if view is None and wanted.topic.name is None else ErrorCode.none
        found = []
        for index in wanted.partitions:
            await slices.pause()
            commit = None if view is None else offsets.get(TopicPartition(view.name, index))
            if commit is None or view is None or not commit.is_for(view.topic_id):
                found.append(FoundPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", code))
            else:
                committed = commit.offset, commit.leader_epoch, commit.metadata
                found.append(FoundPartition(index, *committed, ErrorCode.none))
        return FoundTopic(wanted.topic, tuple(found))

    def _find_topic(self, topic: TopicRef) -> tuple[TopicView | None, ErrorCode]:
        """The topic, or None; then the second value is the error for it."""
        if topic.name is not None:
            return self._cluster.topic(topic.name), ErrorCode.unknown_topic_or_partition
        topic_id: UUID | None = topic.topic_id
        view = None if topic_id is None else self._cluster.topic_with_id(topic_id)
        return view, ErrorCode.unknown_topic_id


def commit_response(
    request: OffsetCommitRequest, refused: Refused, code: ErrorCode
) -> OffsetCommitResponse:
    """The answer; `code` is for all partitions that have no error of their own."""
    return OffsetCommitResponse(
        tuple(
            CommittedTopic(
                topic.topic,
                tuple(
                    (partition.number, refused.get((place, index), code))
                    for index, partition in enumerate(topic.partitions)
                ),
            )
            for place, topic in enumerate(request.topics)
        )
    )


def errors_by_partition(wanted: WantedGroup, found: FoundGroup) -> FoundGroup:
    """Copy an error of the group to each of its partitions: older versions have no error for a
    group."""
    if found.error_code is ErrorCode.none:
        return found
    topics = tuple(
        FoundTopic(
            topic.topic,
            tuple(
                FoundPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", found.error_code)
                for index in topic.partitions
            ),
        )
        for topic in wanted.topics or ()
    )
    return found._replace(topics=topics)
