"""Forwards admin operations to the operator, and waits for their effect.

A request is in this broker's status until its client is answered. Success means that this broker
has seen the effect: the topic of that owner, with leaders, or its deletion. After its deadline a
request is dropped, and the client gets an error that says that the result is unknown; the same
happens while the API server is unavailable.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from chiplog_broker.metadata.operations import Outcome, PlannedTopic
from chiplog_broker.metadata.view import NO_LEADER, ClusterView, TopicView
from chiplog_broker.ports.clock import Clock
from chiplog_core.admin.answers import Verdict, from_answer
from chiplog_core.admin.bodies import to_body
from chiplog_core.admin.codes import Code, Refused
from chiplog_core.admin.config_change import Change
from chiplog_core.admin.operations import (
    DEFAULT_TIMEOUT_MS,
    ConfigureBroker,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    GrowTopic,
    OfUser,
    Operation,
    OperatorRequest,
    ReassignPartitions,
)
from chiplog_core.config.effective import TopicConfig, topic_defaults
from chiplog_core.config.given import given_topic_config
from chiplog_core.limits import (
    MAX_ADMIN_REQUESTS,
    MAX_ADMIN_REQUESTS_BYTES,
    MAX_REQUESTER_LENGTH,
)
from chiplog_core.manifest.writing import write
from chiplog_core.model.admin import AdminAnswer, AdminRequest
from chiplog_wire.protocol.errors import ErrorCode

Watched: TypeAlias = Operation | ElectLeaders | ReassignPartitions
"""The operations whose effect this broker's view of a topic shows."""

# A request with a timeout of 0 is carried out, too; one with a very long timeout is dropped after
# this time.
SHORTEST_TIMEOUT_MS = 1_000
LONGEST_TIMEOUT_MS = 300_000
SEEN_WITHIN_S = 2.0
TOO_MANY = Outcome(
    ErrorCode.throttling_quota_exceeded,
    f"{MAX_ADMIN_REQUESTS} requests of this broker's clients are already waiting: try again later",
)
TOO_LARGE = Outcome(
    ErrorCode.throttling_quota_exceeded,
    "the request is too large while other requests of this broker's clients are waiting: try "
    "again later, or split the request",
)
TIMED_OUT = Outcome(
    ErrorCode.request_timed_out,
    "the operator has not carried out the request in time; it may still do so",
)


@dataclass(slots=True)
class _Pending:
    """A request that is not answered yet."""

    request: AdminRequest
    size_bytes: int
    answer: "asyncio.Future[AdminAnswer]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    timeout: asyncio.Timeout | None = None
    """The client's timeout; None until the request waits."""


class AdminRequests:
    """The requests of this broker's clients."""

    def __init__(
        self,
        cluster: ClusterView,
        clock: Clock,
        prefix: str,
        changed: Callable[[], None],
        config: Mapping[str, str],
    ) -> None:
        """`prefix` makes the ids of this process unique; `changed` is called when `outstanding`
        changes; `config` is the broker's present configuration."""
        self._cluster = cluster
        self._config = config
        self._clock = clock
        self._prefix = prefix
        self._changed = changed
        self._request_count = 0
        self._is_closed = False
        self._pending: dict[str, _Pending] = {}
        self._watching: dict[str, set[asyncio.Event]] = {}
        """Topic -> the events of the requests that wait until this broker's view shows their
        effect."""

    def outstanding(self) -> tuple[AdminRequest, ...]:
        """The open requests to the operator."""
        return tuple(pending.request for pending in self._pending.values())

    def answered(self, answers: Iterable[AdminAnswer]) -> None:
        """Give the operator's present answers to the requests that wait for them."""
        for answer in answers:
            pending = self._pending.get(answer.id)
            if pending is not None and not pending.answer.done():
                pending.answer.set_result(answer)

    def close(self) -> None:
        """The broker stops: end all waiting requests now, as if their timeouts had passed."""
        self._is_closed = True
        for pending in self._pending.values():
            if pending.timeout is not None and not pending.timeout.expired():
                pending.timeout.reschedule(asyncio.get_running_loop().time())

    def topic_changed(self, name: str) -> None:
        """This broker's view of a topic may have changed: check the requests that wait for it."""
        for event in self._watching.get(name, ()):
            event.set()

    def new_id(self) -> str:
        """An id for another request."""
        self._request_count += 1
        return f"{self._prefix}-{self._request_count}"

    async def submit(
        self,
        operation: OperatorRequest,
        principal: str,
        request_id: str = "",
        seen: Callable[[], Awaitable[None]] | None = None,
    ) -> Outcome:
        """Forward an operation of this principal to the operator, and wait for its effect, at most
        as long as the client waits. `request_id` is from `new_id`; `seen` waits for the effect of
        an operation on a user."""
        if len(self._pending) >= MAX_ADMIN_REQUESTS:
            return TOO_MANY
        if self._is_closed:
            return TIMED_OUT
        timeout_ms = getattr(operation, "timeout_ms", DEFAULT_TIMEOUT_MS)
        timeout_ms = min(max(timeout_ms, SHORTEST_TIMEOUT_MS), LONGEST_TIMEOUT_MS)
        try:
            op, body = to_body(operation)
        except Refused as refused:
            return Outcome.refused(refused)
        request = AdminRequest(
            id=request_id or self.new_id(),
            # The API server refuses a status with a longer one, and all that is in it.
            principal=principal[:MAX_REQUESTER_LENGTH],
            op=op,
            body=body,
            deadline=datetime.fromtimestamp((self._clock.now_ms() + timeout_ms) / 1000, UTC),
        )
        size_bytes = stored_bytes(request)
        waiting_bytes = sum(other.size_bytes for other in self._pending.values())
        if waiting_bytes + size_bytes > MAX_ADMIN_REQUESTS_BYTES:
            return TOO_LARGE
        with self._pending_request(request, size_bytes) as pending:
            try:
                async with asyncio.timeout(timeout_ms / 1000) as pending.timeout:
                    outcome = await self._outcome(operation, await pending.answer)
                    if seen is not None and outcome.code is ErrorCode.none:
                        await seen()
                    return outcome
            except TimeoutError:
                return TIMED_OUT

    @contextmanager
    def _pending_request(self, request: AdminRequest, size_bytes: int) -> Iterator[_Pending]:
        """A context in which the request is in this broker's status, where the operator reads
        it."""
        pending = self._pending[request.id] = _Pending(request, size_bytes)
        self._changed()
        try:
            yield pending
        finally:
            del self._pending[request.id]
            self._changed()

    async def _outcome(self, operation: OperatorRequest, answer: AdminAnswer) -> Outcome:
        """The result for the client: the operator's error, or success once its effect is seen."""
        try:
            verdict = from_answer(answer)
        except ValueError:
            # A newer operator has sent a code that this broker does not know. Its message is kept.
            return Outcome(ErrorCode.unknown_server_error, answer.error_message)
        if verdict.code is not Code.NONE:
            return Outcome(ErrorCode(verdict.code), verdict.message)
        if isinstance(operation, ConfigureBroker):
            return Outcome()  # this broker has the configuration: it comes before the answer
        if isinstance(operation, OfUser):
            return Outcome()  # the caller waits for the effect
        return await self._wait_until_seen(operation, verdict)

    async def _wait_until_seen(self, operation: Watched, verdict: Verdict) -> Outcome:
        """Wait until this broker's view shows the effect of an operation that the operator has
        carried out, and return the result."""
        if isinstance(operation, ElectLeaders):
            await self._wait_for_effect(operation, verdict)
            return partition_outcomes(verdict)
        if isinstance(operation, ReassignPartitions):
            with suppress(TimeoutError):
                # Another client may cancel or replace it at once, and then it is never seen here.
                async with asyncio.timeout(SEEN_WITHIN_S):
                    await self._wait_for_effect(operation, verdict)
            return partition_outcomes(verdict)
        if not isinstance(operation, DeleteTopic) and operation.validate_only:
            return self._validation_result(operation, verdict)
        if isinstance(operation, ConfigureTopic):
            try:
                # Another client may change the key again at once; then this broker never sees the
                # state that this request has set.
                async with asyncio.timeout(SEEN_WITHIN_S):
                    return await self._wait_for_effect(operation, verdict)
            except TimeoutError:
                return Outcome()
        return await self._wait_for_effect(operation, verdict)

    def _validation_result(self, operation: OperatorRequest, verdict: Verdict) -> Outcome:
        """The answer to a request that is only validated: for CreateTopic the topic that would be
        created (KIP-525), otherwise just success."""
        counts = verdict.would_have
        if not isinstance(operation, CreateTopic) or counts is None:
            return Outcome()
        own = given_topic_config(operation.config).values
        config = TopicConfig(own, topic_defaults(self._config))
        return Outcome(planned=PlannedTopic(counts.partitions, counts.replicas, config))

    async def _wait_for_effect(self, operation: Watched, verdict: Verdict) -> Outcome:
        """Wait without a timeout until this broker's view shows the operation's effect (`is_done`);
        returns the view of the topic."""
        event = asyncio.Event()
        watching = self._watching.setdefault(operation.name, set())
        watching.add(event)
        try:
            while True:
                event.clear()
                view = self._cluster.topic(operation.name)
                if is_done(operation, verdict, view):
                    return Outcome(topic=view)
                await event.wait()
        finally:
            watching.discard(event)
            if not watching:
                self._watching.pop(operation.name, None)


def stored_bytes(request: AdminRequest) -> int:
    """Bytes of a request in the Broker object, which etcd limits to 1.5 MiB; its body is escaped
    JSON."""
    return len(json.dumps(write(request)).encode())


def partition_outcomes(verdict: Verdict) -> Outcome:
    """The result of each partition of an election or a reassignment."""
    return Outcome(
        partitions={
            partition.partition: Outcome(ErrorCode(partition.code), partition.message or None)
            for partition in verdict.partitions
        }
    )


def is_done(operation: Watched, verdict: Verdict, view: TopicView | None) -> bool:
    """Whether `view`, this broker's view of the topic, shows the operation's effect. `view` is None
    if this broker knows no such topic; `verdict` is the operator's answer."""
    if isinstance(operation, DeleteTopic):
        wanted = operation.topic_id
        return view is None or (wanted is not None and view.topic_id.bytes != wanted.value)
    if isinstance(operation, ElectLeaders | ReassignPartitions):
        return shows_partitions(operation, verdict, view)
    if view is None or (verdict.topic_uid and view.owner_uid != verdict.topic_uid):
        return False  # the view is still that of an earlier topic of this name
    match operation:
        case CreateTopic():
            return all(partition.leader_id != NO_LEADER for partition in view.partitions)
        case GrowTopic():
            new = view.partitions[: operation.partitions]
            return len(new) == operation.partitions and all(
                partition.leader_id != NO_LEADER for partition in new
            )
        case ConfigureTopic():
            return shows_config(operation, view)


def shows_partitions(
    operation: ElectLeaders | ReassignPartitions, verdict: Verdict, view: TopicView | None
) -> bool:
    """Whether the new leader epochs or reassignments of the partitions are known here, or the topic
    is gone."""
    wanted = operation.topic_id
    if view is None or (wanted is not None and view.topic_id.bytes != wanted.value):
        return True
    # The operation has the epochs of each partition at the time of the client's request.
    for partition in verdict.partitions:
        index, now = partition.partition, view.partitions[partition.partition]
        if partition.code is not Code.NONE:
            continue
        if isinstance(operation, ElectLeaders):
            is_shown = now.leader_epoch > operation.partitions[index]
        else:
            target = operation.targets[index]
            is_cancelled = target.replicas is None and now.partition_epoch > target.partition_epoch
            is_shown = is_cancelled or now.target == target.replicas
        if not is_shown:
            return False
    return True


def shows_config(operation: ConfigureTopic, view: TopicView) -> bool:
    """Whether the topic has the values that the request sets, and lacks the keys that it
    deletes."""
    wanted = {
        change.name: change.value for change in operation.changes if change.change is Change.SET
    }
    unset = {change.name for change in operation.changes if change.change is Change.DELETE}
    own = view.config.own
    values = given_topic_config(wanted, by_client=True).values
    if operation.replace:
        return dict(own) == dict(values)
    return unset.isdisjoint(own) and all(own.get(key) == value for key, value in values.items())
