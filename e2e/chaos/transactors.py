"""Programs that write in transactions, one process after the other for each transactional id.

A transaction writes to several partitions, and some commit an offset, too. Most are committed; some
are aborted, left open by a process that ends, refused because the next process has fenced theirs,
or ended too late, after their timeout.

A process whose call failed, or took so long that a request of it may still be on its way, is
replaced: in the first generation of the protocol a late request could count for a later
transaction. The next process takes another epoch.
"""

import random
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import cycle
from math import inf

from e2e.chaos.ledger import Ledger, padded
from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.sim.history import Kind
from e2e.sim.transactions.history import (
    Fence,
    Initialized,
    Opening,
    Transaction,
    TransactionHistory,
)
from e2e.transactions.client import (
    TRANSACTION_TIMEOUT_MS,
    FencedError,
    Producer,
    TransactionalClient,
    TransactionFailedError,
)

UNKNOWN = -1
PAUSE_S = 0.4
SLOW_S = 5.0
"""A call that took longer may have sent a request again, after half of this time at the least."""
OFFSETS_SHARE = 0.3
FLUSH_SHARE = 0.5
MOST_RECORDS = 3
LATE_TIMEOUT_MS = REQUEST_LIMIT_MS
"""librdkafka demands that it is not shorter than a request may take."""
LATE_PAUSE_S = 20.0
"""Before a transaction that is left to time out: readers of committed records wait for it."""
SCAN_S = 15.0
"""How long after its timeout it may take until a transaction is aborted."""
LAST_LIMIT_S = 60
"""How long it may take to commit a transaction after the last fault."""
STOP_LIMIT_S = 200
"""A call that is under way may take `LIMIT_S`, and then one more transaction is committed."""
END_OF_NAME = ";"
"""In an offset's metadata: confluent-kafka returns what is behind them in its memory, too."""
FAILURES = (TransactionFailedError, TimeoutError)
# Errors that a correct producer never gets, as librdkafka and Java name them.
WRONG = ("invalid_txn_state", "out_of_order_sequence", "unknown_producer_id")


class Ending(Enum):
    """How a transaction is meant to end."""

    COMMIT = auto()
    ABORT = auto()
    LEFT = auto()
    """The process ends, and the next one of its transactional id aborts the transaction."""
    FENCED = auto()
    """The next process begins, and then this one asks for a commit, which must be refused."""
    LATE = auto()
    """The process asks for a commit some time after the transaction's timeout."""


USUAL = (
    *(Ending.COMMIT, Ending.ABORT, Ending.COMMIT, Ending.LEFT, Ending.COMMIT, Ending.COMMIT),
    *(Ending.FENCED, Ending.COMMIT, Ending.ABORT, Ending.COMMIT),
)
WITH_LATE = (Ending.COMMIT, Ending.ABORT, Ending.COMMIT, Ending.LATE)


@dataclass(frozen=True, slots=True)
class Process:
    """An initialised producer; `name` is the transactional id, "#" and a number."""

    name: str
    producer: Producer


class Transactor:
    """The processes of one transactional id, in a thread."""

    def __init__(
        self,
        name: str,
        client: TransactionalClient,
        bootstrap: str,
        ledger: Ledger,
        history: TransactionHistory,
        endings: Sequence[Ending] = USUAL,
    ) -> None:
        """`ledger` and `history` record what all transactors do: records, and transactions."""
        self.client, self.bootstrap = client, bootstrap
        self.ledger, self.history = ledger, history
        self.name = name
        self.transactional_id = f"{ledger.topic}-{name}"
        self.timeout_ms = LATE_TIMEOUT_MS if Ending.LATE in endings else TRANSACTION_TIMEOUT_MS
        self.endings: Iterator[Ending] = cycle(endings)
        self.chance = random.Random(name)  # noqa: S311 - not for secrets
        self.process: Process | None = None
        self.starts = self.number = self.offset = 0
        self.is_flushed = False
        """Whether the acknowledgements of the present transaction's records are noted."""
        self.ending = threading.Event()
        self.is_abandoned = False
        self.thread = threading.Thread(target=self.run, daemon=True, name=self.transactional_id)

    @property
    def group(self) -> str:
        """The group whose offsets it commits; it has no members."""
        return self.transactional_id

    def start(self) -> None:
        self.thread.start()

    def ask_to_stop(self) -> None:
        """Commit one more transaction, and end."""
        self.ending.set()

    def abandon(self) -> None:
        self.is_abandoned = True
        self.ending.set()

    def wait_stopped(self) -> None:
        self.thread.join(STOP_LIMIT_S)
        if self.thread.is_alive():
            self.ledger.errors.append(f"{self.name} does not end")

    def run(self) -> None:
        """The thread's work. Any exception becomes an error of the run."""
        try:
            while not self.ending.is_set():
                ending = next(self.endings)
                is_late = ending is Ending.LATE
                self.ending.wait(LATE_PAUSE_S if is_late else self.chance.uniform(0, 2 * PAUSE_S))
                if not self.ending.is_set():
                    self.transact(ending)
            self.commit_last()
            self.drop()
        except Exception as problem:  # noqa: BLE001 - a client that ends is a finding
            if not self.is_abandoned:
                self.ledger.errors.append(f"{self.name} ended: {problem!r}")

    def commit_last(self) -> None:
        """Commit one more transaction: that it cannot for `LAST_LIMIT_S` is noted as an anomaly."""
        began_s = time.monotonic()
        while not self.is_abandoned and not self.transact(Ending.COMMIT):
            if (waited_s := time.monotonic() - began_s) > LAST_LIMIT_S:
                why = f"nothing committed in {waited_s:.0f} s after the last fault"
                self.history.unwell.append((self.transactional_id, why))
                return
            time.sleep(PAUSE_S)

    # -- processes

    def open(self) -> Process | None:
        """Start a process, which fences the one before it; None if it could not initialise."""
        self.starts += 1
        name = f"{self.transactional_id}#{self.starts}"
        opening = Opening(self.transactional_id, name, self.ledger.now_s())
        self.history.openings.append(opening)
        try:
            producer = self.client.producer(self.bootstrap, self.transactional_id, self.timeout_ms)
        except FAILURES as failed:
            self.ledger.disturbances.append(f"{name}: {failed}")
            return None
        opening.answered_s = now_s = self.ledger.now_s()
        self.history.initialized.append(
            Initialized(
                asked_s=opening.asked_s,
                at_s=now_s,
                transactional_id=self.transactional_id,
                process=name,
                producer_id=UNKNOWN,
                epoch=UNKNOWN,
                is_new=True,
            )
        )
        return Process(name, producer)

    def drop(self, successor: Process | None = None) -> None:
        """End the process, without ending its transaction."""
        if self.process is not None:
            self.process.producer.close()
        self.process = successor

    # -- transactions

    def transact(self, ending: Ending) -> bool:
        """Run one transaction; returns whether its commit was acknowledged."""
        self.process = self.process or self.open()
        if self.process is None:
            return False
        process, began_s = self.process, time.monotonic()
        transaction = self.new_transaction(process)
        try:
            self.write(process.producer, transaction, ending)
            self.end(process, transaction, ending)
        except FencedError:
            self.note_fence(transaction)
            self.drop()
        except FAILURES as failed:
            self.note_failure(transaction, failed)
            if transaction.commit_asked_s == inf and self.chance.random() < 0.5:
                self.abort_after_failure(process, transaction)
            self.drop()
        if self.process is process and time.monotonic() - began_s > SLOW_S:
            self.drop()
        return transaction.is_committed

    def new_transaction(self, process: Process) -> Transaction:
        """Note a transaction that begins now."""
        self.number += 1
        found = Transaction(
            name=f"{process.name}/{self.number}",
            transactional_id=self.transactional_id,
            process=process.name,
            producer_id=UNKNOWN,
            epoch=UNKNOWN,
            began_s=self.ledger.now_s(),
        )
        self.history.transactions.append(found)
        return found

    def write(self, producer: Producer, transaction: Transaction, ending: Ending) -> None:
        """Send records, sometimes an offset, and sometimes wait for all acknowledgements."""
        producer.begin()
        for partition in self.partitions(ending):
            values = [
                f"{transaction.name}/{partition}/{index}"
                for index in range(self.chance.randint(1, MOST_RECORDS))
            ]
            transaction.records[self.ledger.labels[partition]] = values
            for value in values:
                self.ledger.note(Kind.SENT, transaction.process, partition, value=value)
            producer.send(self.ledger.topic, partition, [padded(value) for value in values])
        if self.number == 1 or self.chance.random() < OFFSETS_SHARE:
            self.offset += 1
            transaction.offset = self.offset
            metadata = transaction.name + END_OF_NAME
            producer.send_offset(self.group, self.ledger.topic, 0, transaction.offset, metadata)
        self.is_flushed = ending is not Ending.COMMIT or self.chance.random() < FLUSH_SHARE
        if self.is_flushed:
            producer.flush()
            self.note_acknowledged(transaction)

    def partitions(self, ending: Ending) -> list[int]:
        """Where a transaction writes: one that is left to time out holds up one partition only."""
        count = self.ledger.partitions
        least, most = (1, 1) if ending is Ending.LATE else (2, count)
        return self.chance.sample(range(count), self.chance.randint(least, most))

    def note_acknowledged(self, transaction: Transaction) -> None:
        """Note that all records are acknowledged, committed or not; offsets are not known."""
        for label, values in transaction.records.items():
            for value in values:
                partition = self.ledger.labels.index(label)
                self.ledger.note(Kind.ACKED, transaction.process, partition, value=value)

    def end(self, process: Process, transaction: Transaction, ending: Ending) -> None:
        """End the transaction in this way. Raises the errors of a `Producer`."""
        match ending:
            case Ending.COMMIT:
                self.commit(process, transaction)
            case Ending.ABORT:
                self.abort(process, transaction)
            case Ending.LEFT:
                self.drop()
            case Ending.FENCED:
                successor = self.open()
                try:
                    self.commit(process, transaction)
                except FencedError:
                    self.note_fence(transaction)
                except FAILURES as failed:
                    self.note_failure(transaction, failed)
                self.drop(successor)
            case Ending.LATE:
                self.ending.wait(self.timeout_ms / 1000 + self.chance.uniform(0, SCAN_S))
                self.commit(process, transaction)

    def commit(self, process: Process, transaction: Transaction) -> None:
        transaction.commit_asked_s = self.ledger.now_s()
        process.producer.commit()
        transaction.ended_s = self.ledger.now_s()
        if not self.is_flushed:
            self.note_acknowledged(transaction)

    def abort(self, process: Process, transaction: Transaction) -> None:
        transaction.abort_asked_s = self.ledger.now_s()
        process.producer.abort()
        transaction.ended_s = self.ledger.now_s()

    def abort_after_failure(self, process: Process, transaction: Transaction) -> None:
        """Abort a transaction of which no commit was asked for, as programs do after errors."""
        try:
            self.abort(process, transaction)
        except FencedError:
            self.note_fence(transaction)
        except FAILURES as failed:
            self.note_failure(transaction, failed)

    # -- errors

    def may_have_timed_out(self, transaction: Transaction) -> bool:
        return self.ledger.now_s() - transaction.began_s >= self.timeout_ms / 1000

    def note_fence(self, transaction: Transaction) -> None:
        """Note that the process of this transaction got its library's error for being fenced."""
        self.history.fences.append(
            Fence(
                at_s=self.ledger.now_s(),
                transactional_id=self.transactional_id,
                process=transaction.process,
                is_late=self.may_have_timed_out(transaction),
            )
        )

    def note_failure(self, transaction: Transaction, failed: Exception) -> None:
        """Note an error: as an anomaly if no correct producer gets it."""
        text = f"{failed!r}"
        self.ledger.disturbances.append(f"{transaction.name}: {text}")
        plain = text.lower().replace("_", "")
        is_wrong = any(one.replace("_", "") in plain for one in WRONG)
        if is_wrong and not self.may_have_timed_out(transaction):
            self.history.refused.append((self.ledger.now_s(), transaction.name, text))
