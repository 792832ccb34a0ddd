"""A transactional id at a coordinator whose records are safe at once."""

from chiplog_core.groups.at import At
from chiplog_core.transactions.adding import add
from chiplog_core.transactions.answers import Answer, Decision, Present
from chiplog_core.transactions.ending import completed, end, markers, time_out
from chiplog_core.transactions.initializing import init
from chiplog_core.transactions.producer import Producer
from chiplog_core.transactions.requests import Add, End, Init
from chiplog_core.transactions.states import TransactionState
from chiplog_core.transactions.stored import SECOND_GENERATION, StoredTransaction

MAX_TIMEOUT_MS = 900_000
TIMEOUT_MS = 60_000
ORDERS, BILLS = At("orders", 0), At("bills", 3)
FIRST_ID = 1_000
"""The first producer id that is drawn; each one after it is larger by 1."""


class Coordinator:
    """Times are milliseconds since 1970. They pass only by hand."""

    def __init__(self, stored: StoredTransaction | None = None) -> None:
        self.present = Present(stored=stored)
        self.log: list[StoredTransaction] = []
        self.now_ms = 1_700_000_000_000
        self.can_draw = True
        self._next_id = FIRST_ID

    def new_producer_id(self) -> int | None:
        if not self.can_draw:
            return None
        self._next_id += 1
        return self._next_id - 1

    @property
    def stored(self) -> StoredTransaction:
        assert self.present.stored is not None
        return self.present.stored

    @property
    def state(self) -> TransactionState:
        return self.stored.state

    def store(self, record: StoredTransaction) -> None:
        self.log.append(record)
        self.present = Present(stored=record)

    def _carry_out(self, decision: Decision) -> Answer:
        if decision.record is not None:
            self.store(decision.record)
        return decision.answer

    def init(self, producer: Producer | None = None, timeout_ms: int = TIMEOUT_MS) -> Answer:
        request = Init(transaction_timeout_ms=timeout_ms, producer=producer)
        return self._carry_out(
            init(self.present, request, MAX_TIMEOUT_MS, self.new_producer_id, self.now_ms)
        )

    def add(self, producer: Producer, *partitions: At, version: int = SECOND_GENERATION) -> Answer:
        request = Add(
            producer=producer, partitions=frozenset(partitions), transaction_version=version
        )
        return self._carry_out(add(self.present, request, self.now_ms))

    def commit(self, producer: Producer, version: int = SECOND_GENERATION) -> Answer:
        return self._end(producer, version, is_commit=True)

    def abort(self, producer: Producer, version: int = SECOND_GENERATION) -> Answer:
        return self._end(producer, version, is_commit=False)

    def _end(self, producer: Producer, version: int, *, is_commit: bool) -> Answer:
        request = End(producer=producer, is_commit=is_commit, transaction_version=version)
        return self._carry_out(end(self.present, request, self.new_producer_id, self.now_ms))

    def time_out(self) -> bool:
        record = time_out(self.present, self.new_producer_id, self.now_ms)
        if record is not None:
            self.store(record)
        return record is not None

    def write_markers(self) -> None:
        assert markers(self.stored).producer == self.stored.producer
        self.store(completed(self.stored, self.now_ms))

    # ---- whole transactions

    def producer(self) -> Producer:
        """A new producer of the id."""
        return self.init().producer

    def begun(self, version: int = SECOND_GENERATION) -> Producer:
        """A new producer with an open transaction."""
        producer = self.producer()
        self.add(producer, ORDERS, version=version)
        return producer

    def ended(self, *, is_commit: bool, version: int = SECOND_GENERATION) -> Producer:
        """A new producer whose first transaction is complete, with the identity it had in it."""
        producer = self.begun(version)
        self._end(producer, version, is_commit=is_commit)
        self.write_markers()
        return producer


def stored_with(
    producer: Producer, state: TransactionState = TransactionState.EMPTY
) -> StoredTransaction:
    """A transactional id with this producer."""
    is_open = state is TransactionState.ONGOING
    return StoredTransaction(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=frozenset({ORDERS} if is_open else ()),
        last_update_timestamp_ms=1_600_000_000_000,
        start_timestamp_ms=1_600_000_000_000 if is_open else -1,
    )
