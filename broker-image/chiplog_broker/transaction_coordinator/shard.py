"""One partition of `__transaction_state`, while this broker leads it in one leader epoch."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final, NamedTuple

from chiplog_broker.coordinator.led_shard import LedShard
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.marker import Marker
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_broker.transaction_coordinator.markers import UnwrittenMarkers
from chiplog_broker.transaction_coordinator.transaction_log import TransactionLog
from chiplog_broker.transaction_coordinator.transaction_memory import TransactionMemory
from chiplog_broker.transactions.figures import TransactionCounters
from chiplog_core.groups.at import At
from chiplog_core.limits import MAX_GROUP_ID_LENGTH
from chiplog_core.transactions import adding, ending, initializing
from chiplog_core.transactions.answers import LASTING, Answer, Decision, Present, refused
from chiplog_core.transactions.codes import Code
from chiplog_core.transactions.producer import NewProducerId, Producer
from chiplog_core.transactions.requests import Add, End, Init
from chiplog_core.transactions.states import PREPARED, TransactionState
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.steps import Steps

logger = logging.getLogger(__name__)

COMPLETE_RETRY_S: Final = 0.2
"""After this time the last record of a transaction is appended again, if it was refused."""

HELD_S: Final = 0.1
"""How long a request that finds the last transaction incomplete waits for its markers, before the
client has to ask again."""
STUCK_MS: Final = 500
"""A transaction that was decided so long ago is not waited for: some partition has no leader, and
may not have one for long."""
MAX_HELD: Final = 100
"""Requests about one transactional id that wait at the same time."""

Respond = Callable[[Answer], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionContext:
    """The services and values that all shards of a broker share."""

    now_ms: Callable[[], int]
    """The wall clock, for stored timestamps, which other brokers read. It may jump."""
    ticks_ms: Callable[[], int]
    """Monotonic milliseconds."""
    new_producer_id: NewProducerId
    max_timeout_ms: Callable[[], int]
    """`transaction.max.timeout.ms`"""
    send_markers: Callable[[UnwrittenMarkers], None]
    counters: TransactionCounters
    memory: TransactionMemory
    """Limits the number of transactional ids, and of partitions in transactions."""


class _SeenOpen(NamedTuple):
    """An open transaction."""

    start_timestamp_ms: int
    """The stored time of its begin."""
    since_ms: int
    """The monotonic time when it was seen first."""


class _Held:
    """A request that waits until its transactional id is not busy, but not for long."""

    __slots__ = ("decide", "is_over", "respond", "timer")

    def __init__(self, decide: Callable[[Present], Decision], respond: Respond) -> None:
        self.decide = decide
        self.respond = respond
        self.is_over = False
        self.timer = asyncio.get_running_loop().call_later(HELD_S, self.give_up)

    def give_up(self) -> None:
        """Answer that the client has to ask again."""
        if not self.is_over:
            self.end()
            self.respond(Answer(Code.CONCURRENT_TRANSACTIONS))

    def end(self) -> None:
        """It waits no longer."""
        self.is_over = True
        self.timer.cancel()


class TransactionShard(LedShard):
    """The transactions of one partition of `__transaction_state`, coordinated in one leader epoch.
    Runs on the event loop's thread only.

    A `respond` callback gets an answer once the records behind it are safe: below the high
    watermark, so that every later coordinator has them. Errors may be given earlier.
    """

    def __init__(self, partition: Partition, context: TransactionContext) -> None:
        super().__init__(partition)
        self._context = context
        self._log = TransactionLog(partition, context.now_ms, context.ticks_ms, self._stored)
        self._unwritten: dict[str, UnwrittenMarkers] = {}
        """Transactional id -> the markers of its transaction, while they are being written."""
        self._held: dict[str, list[_Held]] = {}
        """Transactional id -> the requests that wait until it is not busy, in their order."""
        self._seen_open: dict[str, _SeenOpen] = {}
        """Transactional id -> its open transaction, when `abort_timed_out` was called last."""

    # -- start and end

    async def load(self) -> None:
        """Read the partition, and continue what was decided: write the markers of transactions that
        are prepared. Afterwards the shard answers, with errors if there is a `failure`."""
        name, began_ms = str(self.partition.name), self._context.ticks_ms()
        try:
            await self._log.load()
        except PartitionError:
            return  # another broker leads the partition now, or the disk failed
        except Exception as failed:
            # After any error: transactions that are not completely loaded must not be coordinated.
            self.failure = str(failed)
            logger.exception("transactions_not_loaded", extra={"partition": name})
            return
        self.is_loaded = True
        for transactional_id, stored in self._log.state:
            self._stored(transactional_id, stored)
        if count := len(self._log.state):
            took_ms = self._context.ticks_ms() - began_ms
            extra = {"partition": name, "transactional_ids": count, "took_ms": took_ms}
            logger.info("transactions_loaded", extra=extra)

    def give_up(self) -> None:
        """Stop coordinating. Requests that wait for the partition get its error."""
        self._is_over = True
        for unwritten in self._unwritten.values():
            unwritten.give_up()
        self._unwritten.clear()
        held, self._held = self._held, {}
        for one in chain(*held.values()):
            one.give_up()
        self._log.give_up()

    def check(self) -> None:
        """Raises `TransactionError` unless this broker coordinates these transactions now."""
        code, reason = self.refusal()
        if code is not ErrorCode.none:
            raise TransactionError(code, reason)

    # -- requests

    def init(self, transactional_id: str, request: Init, respond: Respond) -> None:
        """InitProducerId with a transactional id."""
        context = self._context
        is_new = self._log.present(transactional_id).stored is None
        if is_new and len(transactional_id) > MAX_GROUP_ID_LENGTH:
            respond(Answer(Code.INVALID_REQUEST))
            return
        if is_new and not context.memory.has_memory_for_ids():
            respond(Answer(Code.COORDINATOR_NOT_AVAILABLE))
            return

        def decide(present: Present) -> Decision:
            now_ms, timeout_ms = context.now_ms(), context.max_timeout_ms()
            return initializing.init(present, request, timeout_ms, context.new_producer_id, now_ms)

        self._carry_out(transactional_id, decide, respond, may_wait=True)

    def add(self, transactional_id: str, request: Add, respond: Respond) -> None:
        """AddPartitionsToTxn and AddOffsetsToTxn."""
        if not self._context.memory.has_memory_for_partitions(len(request.partitions)):
            respond(Answer(Code.COORDINATOR_NOT_AVAILABLE))
            return
        self._carry_out(
            transactional_id,
            lambda present: adding.add(present, request, self._context.now_ms()),
            respond,
            may_wait=True,
        )

    def verify(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: frozenset[At],
        respond: Callable[[Mapping[At, Code]], None],
    ) -> None:
        """For each partition, whether it is part of the producer's open transaction.

        `respond` is called at once if it is: every transaction of the first generation waits for
        this answer.
        """
        codes = adding.verify(self._log.present(transactional_id), producer, partitions)
        if LASTING.isdisjoint(codes.values()):
            respond(codes)
            return

        def on_current(failed: ErrorCode) -> None:
            is_current = failed is ErrorCode.none
            respond(codes if is_current else dict.fromkeys(partitions, Code(int(failed))))

        self._log.when_current(on_current, transactional_id)

    def end(self, transactional_id: str, request: End, respond: Respond) -> None:
        """EndTxn. The answer is due when it is decided; the markers follow."""

        def decide(present: Present) -> Decision:
            context = self._context
            return ending.end(present, request, context.new_producer_id, context.now_ms())

        self._carry_out(transactional_id, decide, respond)

    def stored(self, transactional_id: str) -> StoredTransaction | None:
        """The state of a transactional id, as of the high watermark; None without one."""
        return self._log.present(transactional_id).stored

    def __iter__(self) -> Iterator[tuple[str, StoredTransaction]]:
        """All transactional ids with their states, as of the high watermark."""
        return iter(self._log.state)

    def unfinished(self) -> list[tuple[str, StoredTransaction]]:
        """The transactional ids with a transaction that is not complete, as of the high
        watermark."""
        return self._log.state.unfinished()

    @property
    def unwritten_markers(self) -> int:
        """The partitions that still have to get the marker of a decided transaction."""
        return sum(len(markers.partitions) for markers in self._unwritten.values())

    @property
    def id_count(self) -> int:
        """The approximate number of transactional ids."""
        return self._log.id_count

    @property
    def partition_count(self) -> int:
        """The partitions of all open transactions together."""
        return self._log.state.partition_count

    # -- time

    def abort_timed_out(self, now_ms: int) -> Steps[None]:
        """Abort the transactions that are open for longer than their timeout at `now_ms`."""
        ticks_ms = self._context.ticks_ms()
        before, self._seen_open = self._seen_open, {}
        for transactional_id, _ in self._log.state.unfinished():
            yield None
            if not self.is_serving:
                return
            # In the meantime the transaction may have ended, and another one begun.
            present = self._log.present(transactional_id)
            stored = present.stored
            if stored is None or stored.state is not TransactionState.ONGOING:
                continue
            seen = before.get(transactional_id)
            if seen is None or seen.start_timestamp_ms != stored.start_timestamp_ms:
                seen = _SeenOpen(stored.start_timestamp_ms, ticks_ms)
            self._seen_open[transactional_id] = seen
            record = ending.time_out(
                present, self._context.new_producer_id, now_ms, ticks_ms - seen.since_ms
            )
            if record is not None and self._log.append(transactional_id, record) is Code.NONE:
                self._context.counters.timed_out += 1
                extra = {"transactional_id": transactional_id, "producer_id": stored.producer_id}
                logger.info("transaction_timed_out", extra=extra)

    def expire(self, now_ms: int, expiration_ms: int) -> Steps[None]:
        """Forget the transactional ids that were not used for this long at `now_ms`."""
        for transactional_id, _ in self._log.state:
            yield None
            if not self.is_serving:
                return
            present = self._log.present(transactional_id)
            if not ending.is_expired(present, expiration_ms, now_ms):
                continue
            if self._log.append(transactional_id, None) is Code.NONE:
                extra = {"transactional_id": transactional_id}
                logger.info("transactional_id_expired", extra=extra)

    # -- carrying out decisions

    def _carry_out(
        self,
        transactional_id: str,
        decide: Callable[[Present], Decision],
        respond: Respond,
        *,
        may_wait: bool = False,
    ) -> None:
        """Decide about a request, append the record if there is one, and answer when it is safe.

        With `may_wait`, a request that finds the id busy is decided once it is not: a producer that
        begins its next transaction need not ask again while the markers of the last one are being
        written. An EndTxn must not wait: it might end the transaction after the one it is for.
        """
        present = self._log.present(transactional_id)
        decision = decide(present)
        is_refused = decision.answer.code is Code.CONCURRENT_TRANSACTIONS
        if may_wait and is_refused and present.is_busy and not self._is_stuck(present):
            held = [one for one in self._held.get(transactional_id, ()) if not one.is_over]
            self._held[transactional_id] = held
            if len(held) < MAX_HELD:
                held.append(_Held(decide, respond))
                return

        def on_safe(failed: ErrorCode) -> None:
            is_safe = failed is ErrorCode.none
            respond(decision.answer if is_safe else Answer(Code(int(failed))))

        if decision.record is None:
            # It was decided by what is below the high watermark.
            if decision.needs_proof:
                self._log.when_current(on_safe, transactional_id)
            else:
                respond(decision.answer)
            return
        code = self._log.append(transactional_id, decision.record)
        if code is not Code.NONE:
            respond(refused(code).answer)
            return
        self._log.safety.call_when_safe(transactional_id, on_safe)

    def _is_stuck(self, present: Present) -> bool:
        """Whether the markers of a decided transaction take so long that it is not waited for."""
        stored = present.stored
        if stored is None or stored.state not in PREPARED:
            return False
        return self._context.now_ms() - stored.last_update_timestamp_ms > STUCK_MS

    def _stored(self, transactional_id: str, record: StoredTransaction | None) -> None:
        """A record is below the high watermark. If it decides a transaction, its markers are
        written next, otherwise held requests are decided: after the answers that wait for this
        record."""
        loop = asyncio.get_running_loop()
        if record is not None and record.state in PREPARED:
            loop.call_soon(self._write_markers, transactional_id, record)
        elif transactional_id in self._held:
            loop.call_soon(self._decide_held, transactional_id)

    def _decide_held(self, transactional_id: str) -> None:
        """Decide about requests that waited until this id is not busy."""
        for held in self._held.pop(transactional_id, ()):
            if not held.is_over:
                held.end()
                self._carry_out(transactional_id, held.decide, held.respond, may_wait=True)

    def _write_markers(self, transactional_id: str, prepared: StoredTransaction) -> None:
        """Have the markers of a decided transaction written."""
        if self._is_over:
            return
        markers = ending.markers(prepared)
        unwritten = UnwrittenMarkers(
            Marker(
                producer_id=markers.producer.producer_id,
                producer_epoch=markers.producer.epoch,
                is_commit=markers.is_commit,
                coordinator_epoch=self.leader_epoch,
                transaction_version=markers.transaction_version,
            ),
            markers.partitions,
            partial(self._complete, transactional_id, prepared),
        )
        self._unwritten[transactional_id] = unwritten
        self._context.send_markers(unwritten)

    def _complete(self, transactional_id: str, prepared: StoredTransaction) -> None:
        """All markers of a transaction are written: append its last record. If that is refused, it
        is tried again: only a complete transaction lets the producer continue."""
        self._unwritten.pop(transactional_id, None)
        if self._is_over or not self.is_current:
            return
        record = ending.completed(prepared, self._context.now_ms())
        if self._log.append(transactional_id, record) is not Code.NONE:
            loop = asyncio.get_running_loop()
            loop.call_later(COMPLETE_RETRY_S, self._complete, transactional_id, prepared)
            return
        self._context.counters.completed(prepared)
