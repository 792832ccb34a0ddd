"""DescribeTransactions and ListTransactions (KIP-664): what the coordinator here knows."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from chiplog_broker.handlers.slices import LongWork, Slices
from chiplog_broker.ports.clock import Clock
from chiplog_broker.server.call import Call
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator
from chiplog_broker.transaction_coordinator.errors import TransactionError
from chiplog_broker.transactions.id_pattern import IdPattern
from chiplog_core.groups.at import by_topic
from chiplog_core.transactions.producer import NO_PRODUCER
from chiplog_core.transactions.states import AT_REST, TransactionState
from chiplog_core.transactions.stored import StoredTransaction
from chiplog_wire.protocol.answers import NO_THROTTLE, answers
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.errors import ErrorCode

NEVER = datetime.fromtimestamp(0, UTC)
STATES = frozenset(state.value for state in TransactionState)
FILTERS_PER_STEP: Final = 1_000

T = TypeVar("T")


class TransactionAdminHandlers:
    """Answers from the shards of this broker."""

    def __init__(
        self, coordinator: TransactionCoordinator, clock: Clock, long_work: LongWork
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._long_work = long_work

    async def describe_transactions(self, call: Call[Any]) -> object:
        """The state of each transactional id; an id that is requested twice is answered once."""
        slices, found = self._long_work.slices(), []
        for transactional_id in dict.fromkeys(call.message.transactional_ids):
            found.append(self._described(transactional_id))
            await slices.pause()
        return answers(ApiKey.DESCRIBE_TRANSACTIONS).DescribeTransactionsResponse(
            throttle_time=NO_THROTTLE, transaction_states=tuple(found)
        )

    def _described(self, transactional_id: str) -> object:
        """The state of one transactional id, or an error."""
        if not transactional_id:
            return no_transaction(transactional_id, ErrorCode.invalid_request)
        try:
            stored = self._coordinator.shard(transactional_id).stored(transactional_id)
        except TransactionError as problem:
            return no_transaction(transactional_id, problem.code)
        if stored is None:
            return no_transaction(transactional_id, ErrorCode.transactional_id_not_found)
        return described(transactional_id, stored)

    async def list_transactions(self, call: Call[Any]) -> object:
        """The transactions that this broker coordinates and that pass all filters of the request,
        with the states of the filter that Kafka does not have."""
        types, request = answers(ApiKey.LIST_TRANSACTIONS), call.message
        slices, found = self._long_work.slices(), []
        code, pattern = ErrorCode.none, None
        if request.transactional_id_pattern:
            try:
                pattern = IdPattern(request.transactional_id_pattern)
            except ValueError:
                code = ErrorCode.invalid_regular_expression
        states = await distinct(request.state_filters, slices)
        producer_ids = await distinct(request.producer_id_filters, slices)
        for shard in self._coordinator:
            if shard.is_loading:
                code = ErrorCode.coordinator_load_in_progress
            if code is not ErrorCode.none or not shard.is_serving:
                continue
            for transactional_id, stored in shard:
                is_named = pattern is None or pattern.matches(transactional_id)
                is_wanted = (not states or stored.state.value in states) and (
                    not producer_ids or stored.producer_id in producer_ids
                )
                if is_named and is_wanted and self._is_open_for(stored, request.duration_filter):
                    found.append(
                        types.TransactionState(
                            transactional_id=transactional_id,
                            producer_id=stored.producer_id,
                            transaction_state=stored.state.value,
                        )
                    )
                await slices.pause()
        return types.ListTransactionsResponse(
            throttle_time=NO_THROTTLE,
            error_code=code,
            unknown_state_filters=tuple(name for name in states if name not in STATES),
            transaction_states=tuple(found) if code is ErrorCode.none else (),
        )

    def _is_open_for(self, stored: StoredTransaction, duration_ms: int) -> bool:
        """Whether a transaction is open for longer than this; -1 for any id."""
        if duration_ms < 0:
            return True
        open_ms = self._clock.now_ms() - stored.start_timestamp_ms
        return stored.state not in AT_REST and open_ms > duration_ms


async def distinct(values: Sequence[T], slices: Slices) -> Collection[T]:
    """The values without duplicates, in their order, for fast lookup: a request may have a
    million."""
    found: dict[T, None] = {}
    for start in range(0, len(values), FILTERS_PER_STEP):
        found |= dict.fromkeys(values[start : start + FILTERS_PER_STEP])
        await slices.pause()
    return found


def described(transactional_id: str, stored: StoredTransaction) -> object:
    """The result of a DescribeTransactions for one transactional id."""
    types = answers(ApiKey.DESCRIBE_TRANSACTIONS)
    start_ms = stored.start_timestamp_ms
    return types.TransactionState(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=stored.state.value,
        transaction_timeout=timedelta(milliseconds=stored.transaction_timeout_ms),
        transaction_start_time=NEVER + timedelta(milliseconds=start_ms),
        producer_id=stored.producer_id,
        producer_epoch=stored.producer_epoch,
        topics=tuple(
            types.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(stored.partitions)
        ),
    )


def no_transaction(transactional_id: str, code: ErrorCode) -> object:
    """The result of a DescribeTransactions for one transactional id, with an error."""
    return answers(ApiKey.DESCRIBE_TRANSACTIONS).TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout=timedelta(0),
        transaction_start_time=NEVER,
        producer_id=NO_PRODUCER.producer_id,
        producer_epoch=NO_PRODUCER.epoch,
        topics=(),
    )
