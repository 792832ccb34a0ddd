"""Produce: append at once, answer when the records are as safe as `acks` requires.

acks=0 is never answered; a refused batch closes the connection instead, as in Kafka. acks=1 is
answered after the append, acks=all when the high watermark has passed the batch. A duplicate of an
idempotent batch waits like the original. A client that sent a batch to the wrong broker gets the
leader with the error (KIP-951), so that it need not ask for metadata, nor wait before its retry.

A client may hear of a new leader before that broker does. So a batch for a replica that follows is
held for a moment, until a newer map arrives: then it is appended or refused by that map. An answer
at once would cost the client a pause, which gets longer with each refusal.

Long work runs in slices: batches whose keys must be checked, and all batches after the first few
hundred. A batch that begins a transaction in its partition waits for the transaction's coordinator.
The connection handles no other request in the meantime.
"""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Final

from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.slices import LongWork, Slices
from chiplog_broker.handlers.verified_produce import VerifiedProduce
from chiplog_broker.partitions.errors import REFUSALS, PartitionError, Refusal, code_of
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.verification import Verification
from chiplog_broker.ports.clock import Clock
from chiplog_broker.server.call import Answer, Call, SlowRequest
from chiplog_broker.server.peer import Peer
from chiplog_broker.storage.errors import UnverifiedTransactionError
from chiplog_broker.transaction_coordinator.verifying import TransactionVerifier
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.messages import (
    NodeEndpoint,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)
from chiplog_wire.records.batch import read_header
from chiplog_wire.records.scan import TakesLong, check_keys

ACKS_ALL = -1
VALID_ACKS = (ACKS_ALL, 0, 1)
OK = int(ErrorCode.none)
NOT_LEADER = int(ErrorCode.not_leader_or_follower)
MAX_UNSLICED_BATCHES: Final = 256
"""Batches appended in one slice: some milliseconds. Larger requests take several slices."""
HOLD_S: Final = 0.2
"""How long a batch is held that may have arrived before the map that makes this broker its leader.
Requests behind it on the connection wait, too. Brokers hear of a map within some ten milliseconds
of each other, and clients pause for 0.1 s and more."""
HELD_IN_VAIN_S: Final = 5.0
"""For so long after a hold that no map ended, nothing of that connection is held: its client takes
followers for leaders, and may send a request for each of their partitions."""
LARGE_BYTES: Final = 16 * 1024
"""Records of at least this size are released from memory once they are appended."""


class ProduceHandler:
    """Appends batches to the partitions that this broker leads."""

    def __init__(
        self, leaders: Leaders, clock: Clock, long_work: LongWork, verifier: TransactionVerifier
    ) -> None:
        self._leaders = leaders
        self._verifier = verifier
        self._clock = clock
        self._long_work = long_work

    def __call__(
        self, call: Call[ProduceRequest]
    ) -> ProduceResponse | asyncio.Future[Answer] | SlowRequest | None:
        """Append the batches of a Produce request.

        Returns the answer, or a future of the encoded answer if batches wait for replicas. Returns
        a `SlowRequest`, which appends the remaining batches in slices, if there are many batches,
        the check of one takes long, or a transaction must be verified. Returns None for acks=0,
        which gets no answer.
        """
        pending = PendingProduce(call, self._leaders)
        now_ms = self._clock.now_ms()
        for topic in call.message.topics:
            for place, partition in enumerate(topic.partitions):
                if len(pending.answers) >= MAX_UNSLICED_BATCHES:
                    return SlowRequest(self._append_in_slices(pending))
                try:
                    answer = self._append(topic.name, partition, pending, now_ms)
                except (TakesLong, UnverifiedTransactionError):
                    return SlowRequest(self._append_in_slices(pending))
                if answer.error_code == NOT_LEADER and self._may_hold(call.peer):
                    replica = self._leaders.soon(topic.name, partition.partition)
                    if replica is not None:
                        return SlowRequest(self._append_when_known(replica, pending))
                pending.answers.append(answer)
                if partition.records is not None and len(partition.records) >= LARGE_BYTES:
                    # They are in the log, so their buffer can be released while the request waits.
                    topic.partitions[place] = partition._replace(records=None)
        return pending.outcome()

    def _may_hold(self, peer: Peer) -> bool:
        """Whether a batch of this client may be held: the map came that the last one waited for, or
        that is a while ago."""
        return self._clock.monotonic_s() >= peer.holds_from_s

    async def _append_when_known(
        self, replica: Partition, pending: "PendingProduce"
    ) -> ProduceResponse | asyncio.Future[Answer] | None:
        """Append the batches that have no answer yet when a newer map says whether this replica
        leads, or after `HOLD_S`. Returns what `_append_in_slices` returns."""
        if not await replica.wait_for_role(HOLD_S):
            pending.call.peer.holds_from_s = self._clock.monotonic_s() + HELD_IN_VAIN_S
        return await self._append_in_slices(pending)

    async def _append_in_slices(
        self, pending: "PendingProduce"
    ) -> ProduceResponse | asyncio.Future[Answer] | None:
        """Append the batches that have no answer yet, in slices between which other requests run.
        Returns the answer, a future of the encoded answer, or None for acks=0."""
        call, slices = pending.call, self._long_work.slices()
        batches = [
            (topic.name, partition)
            for topic in call.message.topics
            for partition in topic.partitions
        ]
        verified = VerifiedProduce(
            self._leaders, self._verifier, call.message.transactional_id, call.header.version
        )
        try:
            # Each appended batch has an answer already, so these are skipped.
            for place in range(len(pending.answers), len(batches)):
                await slices.pause()
                answer = await self._append_when_checked(batches, place, pending, slices, verified)
                pending.answers.append(answer)
        finally:
            verified.end()
        return pending.outcome()

    async def _append_when_checked(
        self,
        batches: Sequence[tuple[str, ProducePartition]],
        place: int,
        pending: "PendingProduce",
        slices: Slices,
        verified: VerifiedProduce,
    ) -> ProducePartitionResponse:
        """Append the batch at this place, after what takes long: the check of its keys, and the
        verification of its transaction."""
        topic, partition = batches[place]
        records = partition.records or memoryview(b"")
        keys_are_checked, verification = False, None
        while True:
            now_ms = self._clock.now_ms()
            try:
                return self._append(
                    topic,
                    partition,
                    pending,
                    now_ms,
                    keys_are_checked=keys_are_checked,
                    verification=verification,
                )
            except TakesLong:
                try:
                    await self._long_work.run(check_keys(records, read_header(records)), slices)
                except REFUSALS as refused:
                    return self._refused(topic, partition.partition, refused)
                keys_are_checked = True
            except UnverifiedTransactionError:
                later = islice(batches, place + 1, None)
                try:
                    verification = await verified.verify(topic, partition, later)
                except PartitionError as refused:
                    self._leaders.not_verified(topic, partition.partition, refused.code, records)
                    return self._refused(topic, partition.partition, refused)

    def _append(
        self,
        topic: str,
        partition: ProducePartition,
        pending: "PendingProduce",
        now_ms: int,
        *,
        keys_are_checked: bool = False,
        verification: Verification | None = None,
    ) -> ProducePartitionResponse:
        """Append the records for one partition, and return its part of the answer. If the answer
        must wait until the in-sync replicas have these records, the position of this part is added
        to `pending.unsafe`.

        Raises `TakesLong` if the keys of the records must be checked first, and that takes long;
        `UnverifiedTransactionError` if they begin a transaction and need a `verification`.
        """
        index = partition.partition
        acks = pending.call.message.acks
        if acks not in VALID_ACKS:
            return ProducePartitionResponse(index, ErrorCode.invalid_required_acks)
        try:
            replica = self._leaders.changeable(topic, index)
            appended = replica.append(
                partition.records or memoryview(b""),
                now_ms,
                acks_all=acks == ACKS_ALL,
                keys_are_checked=keys_are_checked,
                verification=verification,
            )
        except UnverifiedTransactionError:
            raise
        except (PartitionError, *REFUSALS) as refused:
            return self._refused(topic, index, refused)
        if acks == ACKS_ALL and replica.high_watermark <= appended.last_offset:
            position = len(pending.answers)
            replica.call_when_safe(appended.last_offset + 1, partial(pending.settle, position))
            pending.unsafe.add(position)
        # Of an older duplicate only the sequence numbers are known, not the offset.
        has_offset = appended.base_offset >= 0
        return ProducePartitionResponse(
            index,
            OK if has_offset else ErrorCode.duplicate_sequence_number,
            appended.base_offset,
            appended.log_append_time_ms,
            appended.log_start_offset,
        )

    def _refused(
        self, topic: str, index: int, why: PartitionError | Refusal
    ) -> ProducePartitionResponse:
        """Count a refused batch, and return the error for it."""
        code = code_of(why)
        self._leaders.produce_failed(topic, index, code)
        return ProducePartitionResponse(index, code, error_message=str(why))


class PendingProduce:
    """A Produce request in progress; with acks=all it waits until all its batches are safe.

    A batch is safe when the high watermark has passed it.
    """

    def __init__(self, call: Call[ProduceRequest], leaders: Leaders) -> None:
        self.call = call
        self._leaders = leaders
        # One answer a batch, in the order of the request.
        self.answers: list[ProducePartitionResponse] = []
        # Positions in `answers` of batches that the high watermark has not passed yet.
        self.unsafe: set[int] = set()
        self._future: asyncio.Future[Answer] | None = None

    def outcome(self) -> ProduceResponse | asyncio.Future[Answer] | None:
        """To be called when all batches are appended: the answer, or a future of the encoded answer
        if the high watermark has not passed all batches yet.

        None for acks=0, which gets no answer. Raises `ProtocolViolation` if such a batch was
        refused, because only a closed connection shows this to its client.
        """
        if self.call.message.acks == 0:
            if any(answer.error_code != OK for answer in self.answers):
                raise ProtocolViolation(
                    "a batch sent with acks=0 was refused: use acks=1 to get its error"
                )
            return None
        return self.start() if self.unsafe else self.response()

    def start(self) -> asyncio.Future[Answer]:
        """Wait until the high watermark has passed all batches, at most as long as the request's
        timeout. Returns a future of the encoded answer."""
        loop = asyncio.get_running_loop()
        self._future = future = loop.create_future()
        timeout_s = max(self.call.message.timeout_ms, 0) / 1000
        timeout = loop.call_later(timeout_s, self._time_out)
        future.add_done_callback(lambda _: timeout.cancel())
        return future

    def settle(self, position: int, code: ErrorCode) -> None:
        """Note that the batch at this position of `answers` is safe (error `none`), or has failed.

        Safe means that the high watermark has passed it. This may be called before `start`.
        """
        self.unsafe.discard(position)
        if code is not ErrorCode.none:
            self._fail([position], code)
        if not self.unsafe and self._future is not None:
            self.call.answer(self._future, self.response)

    def response(self) -> ProduceResponse:
        """The answer with the results so far."""
        topics, position = [], 0
        nodes: dict[int, NodeEndpoint] = {}
        for topic in self.call.message.topics:
            end = position + len(topic.partitions)
            answers = self.answers[position:end]
            if any(answer.error_code == NOT_LEADER for answer in answers):
                answers = [self._with_leader(topic.name, answer, nodes) for answer in answers]
            topics.append(ProduceTopicResponse(topic.name, answers))
            position = end
        return ProduceResponse(topics, node_endpoints=list(nodes.values()))

    def _with_leader(
        self, topic: str, answer: ProducePartitionResponse, nodes: dict[int, NodeEndpoint]
    ) -> ProducePartitionResponse:
        """The answer with the leader, whose address is added to `nodes` (broker id -> address), if
        the batch belongs to another broker that is known."""
        if answer.error_code != NOT_LEADER:
            return answer
        found = self._leaders.elsewhere(topic, answer.partition, self.call.peer.listener.name)
        if found is None:
            return answer
        leader, nodes[leader.leader_id] = found
        return answer._replace(current_leader=leader)

    def _time_out(self) -> None:
        """The request's timeout has passed: answer with an error for each batch that the high
        watermark has not passed yet. Its records stay in the log and may still be replicated."""
        assert self._future is not None, "`start` sets it together with the timer"
        self._fail(self.unsafe, ErrorCode.request_timed_out)
        self.call.answer(self._future, self.response)

    def _fail(self, positions: Iterable[int], code: ErrorCode) -> None:
        """Replace the answers at these positions by this error."""
        for position in positions:
            self.answers[position] = ProducePartitionResponse(
                self.answers[position].partition, code
            )
