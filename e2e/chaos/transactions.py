"""The transactional part of a run's load: producers, readers with both isolation levels, and what
became of their transactions.

They have a topic of their own, named after the run's. So the readers of that one, which know no
transactions, still get every offset.
"""

import logging
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from math import inf
from typing import NamedTuple

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient

from chiplog_wire.records.batch import read_header
from e2e.chaos.committed_readers import (
    CommittedKafkaPythonReader,
    CommittedLibrdkafkaReader,
    CommittedReader,
    OffsetAsker,
    StableAsker,
    UncommittedReader,
)
from e2e.chaos.last_reader import all_records, read_everything
from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import REQUEST_LIMIT_MS
from e2e.chaos.readers import Reader
from e2e.chaos.transactors import WITH_LATE, Transactor
from e2e.clients.by_librdkafka import QUIET
from e2e.clients.topics import create_topic, end_offsets
from e2e.sim.checkers.transactions import of_records
from e2e.sim.history import History
from e2e.sim.transactions.history import Given, Transaction, TransactionHistory
from e2e.transactions.by_java import TransactionalJava
from e2e.transactions.by_librdkafka import TransactionalLibrdkafka
from e2e.transactions.client import Isolation, TransactionalClient

PARTITIONS = 3
ASK_LIMIT_S = 30
DECIDED_LIMIT_S = 90
"""How long a transaction may be open after all producers ended: timeouts are a minute or less, and
coordinators look for them every ten seconds."""
CATCH_UP_LIMIT_S = 60
OFFSET_LIMIT_S = 60
POLL_S = 0.2
# librdkafka logs that a producer was fenced whatever the level is, on stderr.
SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)


class Outcomes(NamedTuple):
    """How many transactions ended how, as far as their producers know."""

    committed: int = 0
    aborted: int = 0
    """Aborts that were acknowledged."""
    left: int = 0
    """Their process ended, or gave them up, without asking for a commit or having the answer to an
    abort."""
    fenced: int = 0
    unknown: int = 0
    """A commit was asked for, and not answered."""

    @property
    def text(self) -> str:
        return (
            f"{self.committed:,} transactions committed, {self.aborted:,} aborted, "
            f"{self.left:,} left open, {self.fenced:,} fenced, {self.unknown:,} unknown"
        )


def outcomes(history: TransactionHistory) -> Outcomes:
    """Count the transactions of a history. A fenced process was so in its last transaction."""
    last = {one.process: one.name for one in history.transactions}
    fenced = {last[one.process] for one in history.fences if one.process in last}

    def outcome(one: Transaction) -> str:
        if one.is_committed:
            return "committed"
        if one.is_aborted:
            return "aborted"
        if one.name in fenced:
            return "fenced"
        return "unknown" if one.commit_asked_s < inf else "left"

    return Outcomes(**Counter(map(outcome, history.transactions)))


class Transactions:
    """All transactional clients of a run. It has the methods of a `Client` of `workload`."""

    def __init__(self, bootstrap: str, beside: Ledger) -> None:
        """`beside` records the same run on the topic that has no transactions."""
        self.bootstrap, self.beside = bootstrap, beside.topic
        self.ledger = ledger = beside.of_another_topic(f"{beside.topic}-transactions", PARTITIONS)
        self.history = History(events=ledger.events, with_markers=frozenset(ledger.labels))
        self.noted = noted = self.history.transactions
        limit = {"request.timeout.ms": str(REQUEST_LIMIT_MS)}
        self.java = TransactionalJava(limit)
        librdkafka = TransactionalLibrdkafka(
            {"socket.timeout.ms": REQUEST_LIMIT_MS, "logger": SILENT}
        )
        self.libraries: tuple[TransactionalClient, ...] = (self.java, librdkafka)
        self.transactors = [
            Transactor("librdkafka", librdkafka, bootstrap, ledger, noted),
            Transactor("java", self.java, bootstrap, ledger, noted),
            Transactor("late", librdkafka, bootstrap, ledger, noted, WITH_LATE),
        ]
        self.uncommitted = UncommittedReader(bootstrap, ledger)
        self.committed: list[CommittedReader] = [
            CommittedLibrdkafkaReader(bootstrap, ledger, noted),
            CommittedKafkaPythonReader(bootstrap, ledger, noted),
        ]
        self.transactional_ids = tuple(one.transactional_id for one in self.transactors)
        self.readers: list[Reader] = [
            self.uncommitted,
            *self.committed,
            StableAsker(bootstrap, ledger, noted),
            OffsetAsker(bootstrap, ledger, noted, self.transactional_ids),
        ]
        self.opened = ExitStack()

    def start(self) -> None:
        """Create the topic and start all clients."""
        self.create_topic()
        for library in self.libraries:
            self.opened.enter_context(library)
        for transactor in self.transactors:
            transactor.start()
        for reader in self.readers:
            reader.start()

    def create_topic(self) -> None:
        """Create the topic with as many replicas as the one beside it."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        found = admin.list_topics(self.beside, timeout=ASK_LIMIT_S).topics[self.beside]
        replicas = len(found.partitions[0].replicas)
        config = {"min.insync.replicas": str(max(1, replicas - 1))}
        create_topic(self.bootstrap, self.ledger.topic, PARTITIONS, config, replicas=replicas)

    def delete_topic(self) -> None:
        """Delete the topic, which nobody else does; its records must have been judged."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})
        deleted = admin.delete_topics([self.ledger.topic], operation_timeout=ASK_LIMIT_S)
        deleted[self.ledger.topic].result(ASK_LIMIT_S)

    def have_begun(self) -> bool:
        """Whether every transactional id has had a commit and an abort acknowledged, and some of
        them the commit of an offset."""
        ended = self.noted.transactions.copy()
        if not any(one.is_committed and one.offset > 0 for one in ended):
            return False
        committed = {one.transactional_id for one in ended if one.is_committed}
        aborted = {one.transactional_id for one in ended if one.is_aborted}
        return committed & aborted == {*self.transactional_ids}

    def ask_to_stop(self) -> None:
        """Have each producer commit one more transaction and end; readers continue."""
        for one in self.transactors:
            one.ask_to_stop()

    def wait_stopped(self) -> None:
        """Wait for the producers, and until nothing is open; complete the history, and end all."""
        for one in self.transactors:
            one.wait_stopped()
        self.wait_decided()
        read_everything(self.bootstrap, self.ledger, self.history)
        committed, _ = all_records(self.bootstrap, self.ledger, Isolation.COMMITTED)
        self.noted.final = {self.ledger.labels[number]: all_ for number, all_ in committed.items()}
        self.wait_caught_up()
        for reader in self.readers:
            reader.ask_to_stop()
        for reader in self.readers:
            reader.wait_stopped()
        self.note_ends()
        self.ask_last_offsets()
        self.opened.close()

    def wait_decided(self) -> None:
        """Wait until no transaction is open in any partition, or note those where one is."""
        until_s = time.monotonic() + DECIDED_LIMIT_S
        numbers = range(PARTITIONS)
        while True:
            stable, ends = (
                end_offsets(self.bootstrap, self.ledger.topic, numbers, isolation)
                for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
            is_over = time.monotonic() > until_s
            if stable == ends or is_over:
                break
            time.sleep(POLL_S)
        for label, upto, end in zip(self.ledger.labels, stable, ends, strict=True):
            if upto != end:
                self.noted.open_in.append((label, upto, end))

    def wait_caught_up(self) -> None:
        """Wait until every reader has read the last record, or note an error of the run.

        What a reader of committed records lacks is found by its checker, too.
        """
        until_s = time.monotonic() + CATCH_UP_LIMIT_S
        while (behind := [*self.behind()]) and time.monotonic() < until_s:
            time.sleep(POLL_S)
        self.ledger.errors += behind

    def behind(self) -> Iterator[str]:
        """Each reader and partition whose last record it has not read, as text."""
        goals = [(self.uncommitted, self.history.final)]
        goals += [(one, self.noted.final) for one in self.committed]  # type: ignore[misc]
        for reader, final in goals:
            for number, label in enumerate(self.ledger.labels):
                records, at = final.get(label, []), reader.read_up_to[number]
                if records and at <= records[-1][0]:
                    yield f"{reader.name} is at {at} of {label}, before {records[-1]}"

    def note_ends(self) -> None:
        """Note that readers of committed records got nothing more up to the ends."""
        for reader in self.committed:
            for number, label in enumerate(self.ledger.labels):
                if reader.read_up_to[number] < self.history.ends[label]:
                    reader.note(number, self.history.ends[label], ())

    def ask_last_offsets(self) -> None:
        """Ask for every group's committed offset now that no transaction is open."""
        last = OffsetAsker(self.bootstrap, self.ledger, self.noted, self.transactional_ids)
        last.open()
        for one in self.transactional_ids:
            until_s = time.monotonic() + OFFSET_LIMIT_S
            while (found := last.ask(one)) is None and time.monotonic() < until_s:
                time.sleep(POLL_S)
            if found is None:
                self.ledger.errors.append(f"the committed offset of {one} is unknown")
            else:
                self.noted.last_offsets[one] = found
        last.close()

    def abandon(self) -> None:
        for transactor in self.transactors:
            transactor.abandon()
        for reader in self.readers:
            reader.abandon()
        self.opened.close()


def identities(history: History) -> Iterator[Given]:
    """The producer id and epoch that each process's batches have on the brokers' disks, once each.

    Clients do not show them.
    """
    owners, seen = of_records(history), set[tuple[str, int, int]]()
    for replica in history.replicas:
        for batch in replica.batches:
            owner = owners.get(batch.values[0][1]) if batch.values else None
            if owner is None:
                continue
            header = read_header(batch.data)
            identity = owner.process, header.producer_id, header.producer_epoch
            if identity not in seen:
                seen.add(identity)
                yield Given(owner.began_s, owner.transactional_id, *identity)
