"""OffsetCommit, TxnOffsetCommit and OffsetFetch.

A committed offset belongs to a topic id: if a topic was deleted and created again, the offset does
not exist for it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.coordinator.errors import GroupError
from chiplog_broker.coordinator.shard import Shard
from chiplog_broker.groups.offset_value import CommittedOffset
from chiplog_broker.handlers.slices import LongWork, Slices
from chiplog_broker.metadata.view import ClusterView, TopicView
from chiplog_broker.partitions.verification import Verification
from chiplog_broker.server.call import Answer, Call, SlowRequest
from chiplog_broker.settings import setting
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.transaction_coordinator.verified_codes import (
    OFFSETS_ADD_FROM_VERSION,
    offsets_code,
)
from chiplog_broker.transaction_coordinator.verifying import Question, TransactionVerifier
from chiplog_core.config import broker_keys as keys
from chiplog_core.groups.at import At
from chiplog_core.groups.requests import Identity
from chiplog_core.transactions.producer import Producer as CoreProducer
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
    TxnOffsetCommitRequest,
    WantedGroup,
    WantedTopic,
)
from chiplog_wire.records.writer import NOT_IDEMPOTENT, Producer
from chiplog_wire.steps import Steps, run_steps

NO_OFFSET = -1
GROUP_ERRORS_FROM_VERSION = 2
UNSTABLE: Final = ErrorCode.unstable_offset_commit

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
Pending: TypeAlias = dict[TopicPartition, list[CommittedOffset]]
"""The offsets that open transactions would commit."""


class _Form(NamedTuple):
    """What a client asks for in an OffsetFetch, beside the groups."""

    by_id: bool
    """The answer has topic ids instead of names."""
    require_stable: bool
    """Offsets that open transactions may replace are not wanted."""


class _Sender(NamedTuple):
    """The sender of offsets to commit."""

    producer: Producer
    """The one of whose transaction they are part; `NOT_IDEMPOTENT` without a transaction."""
    verification: Verification | None
    """Lets them be the first ones of the transaction in their group's partition."""


class GroupOffsetHandlers:
    """Commits and reads offsets through the coordinator; the cluster view says which topics
    exist."""

    def __init__(
        self,
        coordinator: Coordinator,
        cluster: ClusterView,
        config: Mapping[str, str],
        long_work: LongWork,
        verifier: TransactionVerifier,
    ) -> None:
        self._coordinator = coordinator
        self._verifier = verifier
        self._cluster = cluster
        self._config = config
        self._long_work = long_work

    def offset_commit(
        self, call: Call[OffsetCommitRequest]
    ) -> asyncio.Future[Answer] | Coroutine[Any, Any, object] | object:
        """Commit all valid offsets together; each partition has its own result."""
        return self._commit(call, call.message, NOT_IDEMPOTENT)

    def txn_offset_commit(
        self, call: Call[TxnOffsetCommitRequest]
    ) -> asyncio.Future[Answer] | Coroutine[Any, Any, object] | object:
        """Store all valid offsets as part of a producer's transaction; each partition has its own
        result. If they are the first ones of the transaction here, its coordinator is asked first,
        and the connection handles no other request in the meantime."""
        request = call.message
        code = transaction_refusal(request)
        if code is not ErrorCode.none:
            return commit_response(request.commit, {}, code)
        try:
            shard = self._coordinator.shard(request.commit.group_id)
        except GroupError as problem:
            return commit_response(request.commit, {}, problem.code)
        log = shard.partition.log
        if not log.has_open_transaction(request.producer_id, request.producer_epoch):
            return SlowRequest(self._commit_verified(call, shard))
        producer = Producer(producer_id=request.producer_id, epoch=request.producer_epoch)
        return self._commit(call, request.commit, producer)

    async def _commit_verified(self, call: Call[TxnOffsetCommitRequest], shard: Shard) -> object:
        """Store the first offsets of a transaction in this shard, if its coordinator knows that it
        has the partition; in the second generation this adds the partition."""
        request, version = call.message, call.header.version
        partition = shard.partition
        at = At(*partition.name)
        verification = partition.verifications.begin(request.producer_id)
        try:
            question = Question(
                request.transactional_id,
                CoreProducer(request.producer_id, request.producer_epoch),
                frozenset({at}),
                adds=version >= OFFSETS_ADD_FROM_VERSION,
            )
            code = (await self._verifier.ask(question))[at]
            if code is not ErrorCode.none:
                # As in Kafka, partitions that do not exist get that error also then.
                checking = self._check_commits(request.commit)
                refused, _ = await self._long_work.run(checking, self._long_work.slices())
                return commit_response(request.commit, refused, offsets_code(code, version))
            producer = Producer(producer_id=request.producer_id, epoch=request.producer_epoch)
            outcome = self._commit(call, request.commit, producer, verification)
            # Offsets in many partitions are checked in slices before they are appended.
            return await outcome if asyncio.iscoroutine(outcome) else outcome
        finally:
            partition.verifications.end(verification)

    def _commit(
        self,
        call: Call[Any],
        request: OffsetCommitRequest,
        producer: Producer,
        verification: Verification | None = None,
    ) -> asyncio.Future[Answer] | Coroutine[Any, Any, object] | object:
        """Commit all valid offsets, in the transaction of the `producer` if there is one; with a
        `verification` they may be its first ones."""
        sender = _Sender(producer, verification)
        if sum(len(topic.partitions) for topic in request.topics) > MAX_UNSLICED_PARTITIONS:
            return self._commit_in_slices(call, request, sender)
        return self._commit_checked(
            call, request, sender, lambda: run_steps(self._check_commits(request))
        )

    async def _commit_in_slices(
        self, call: Call[Any], request: OffsetCommitRequest, sender: _Sender
    ) -> asyncio.Future[Answer] | object:
        """Commit all valid offsets of a request with many partitions. They are checked in slices,
        between which other requests run."""
        checked = await self._long_work.run(self._check_commits(request), self._long_work.slices())
        return self._commit_checked(call, request, sender, lambda: checked)

    def _commit_checked(
        self,
        call: Call[Any],
        request: OffsetCommitRequest,
        sender: _Sender,
        check: Callable[[], Checked],
    ) -> asyncio.Future[Answer] | object:
        """Commit the valid offsets that `check` returns. Returns the answer itself if this broker
        does not coordinate the group, else a future. The future gets the encoded answer once the
        offsets are below the high watermark, or with an error."""
        try:
            shard = self._coordinator.shard(request.group_id)
        except GroupError as problem:
            return commit_response(request, {}, problem.code)
        refused, commits = check()
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
            sender.producer,
            sender.verification,
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
        form = _Form(by_id, call.message.require_stable)
        found = await bounded_gather(self._fetch(group, slices, form) for group in groups)
        if call.header.version < GROUP_ERRORS_FROM_VERSION:
            found = [errors_by_partition(*pair) for pair in zip(groups, found, strict=True)]
        return OffsetFetchResponse(tuple(found))

    async def _fetch(self, wanted: WantedGroup, slices: Slices, form: _Form) -> FoundGroup:
        """The offsets of one group."""
        try:
            shard = self._coordinator.shard(wanted.group_id)
            # A copy, so that all offsets are of one instant: the answer may take several slices.
            offsets = dict(shard.offsets(wanted.group_id))
            pending: Pending = {}
            for partition, commit in (
                shard.pending_offsets(wanted.group_id) if form.require_stable else ()
            ):
                pending.setdefault(partition, []).append(commit)
            if self._needs_announced_topic(offsets, wanted):
                raise GroupError(ErrorCode.coordinator_load_in_progress)
            topics = (
                self._all_offsets(offsets, by_id=form.by_id)
                if wanted.topics is None
                else wanted.topics
            )
            found = tuple(
                [await self._read_offsets(offsets, pending, topic, slices) for topic in topics]
            )
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
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        pending: Pending,
        wanted: WantedTopic,
        slices: Slices,
    ) -> FoundTopic:
        """The committed offsets of one topic; -1 where there is none.

        A partition in `pending` gets UNSTABLE_OFFSET_COMMIT: an open transaction may commit another
        offset, and a reader that began at the present one would read its input twice (KIP-447).
        """
        view, unknown = self._find_topic(wanted.topic)
        # An unknown name has no committed offsets; an unknown id is an error.
        code = unknown if view is None and wanted.topic.name is None else ErrorCode.none
        found = []
        for index in wanted.partitions:
            await slices.pause()
            partition = None if view is None else TopicPartition(view.name, index)
            commit = None if partition is None else offsets.get(partition)
            if (
                view is not None
                and partition in pending
                and any(one.is_for(view.topic_id) for one in pending[partition])
            ):
                found.append(FoundPartition(index, NO_OFFSET, NO_LEADER_EPOCH, "", UNSTABLE))
            elif commit is None or view is None or not commit.is_for(view.topic_id):
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


def transaction_refusal(request: TxnOffsetCommitRequest) -> ErrorCode:
    """Why a TxnOffsetCommit cannot be part of any transaction; `none` if it may be."""
    if not request.transactional_id:
        return ErrorCode.invalid_request
    if not request.commit.group_id:
        return ErrorCode.invalid_group_id
    if request.producer_id < 0 or request.producer_epoch < 0:
        return ErrorCode.invalid_producer_id_mapping
    return ErrorCode.none


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
