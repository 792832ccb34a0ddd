"""The clients of a run (producers, readers, consumer groups, transactions) and the histories they
produce."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from e2e.chaos.by_java import JavaProducer, JavaReader
from e2e.chaos.committed import wait_caught_up
from e2e.chaos.groups import Groups
from e2e.chaos.last_reader import read_everything
from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import RECORDS_PER_S, KafkaPythonProducer, LibrdkafkaProducer
from e2e.chaos.readers import EndAsker, KafkaPythonReader, LibrdkafkaReader, Reader
from e2e.chaos.transactions import Transactions, outcomes
from e2e.sim.history import Event, History, Kind, Span

PARTITIONS = 6
WARM_LIMIT_S = 120
CATCH_UP_LIMIT_S = 60
NICENESS = 5
"""Of all clients. In reality they run on other machines, so they should not take CPU from brokers,
as librdkafka's threads do that spin while a partition has no leader."""


class Client(Protocol):
    """A client that works in the background from `start` on.

    `ask_to_stop` lets it finish, `wait_stopped` waits for that; `abandon` ends it at once.
    """

    def start(self) -> None: ...
    def ask_to_stop(self) -> None: ...
    def abandon(self) -> None: ...
    def wait_stopped(self) -> None: ...


class Workload:
    """Runs all clients within a `with` block, which begins once all producers and groups had
    answers. Each of the three producers without transactions sends `records_per_s`.

    At the block's regular end it waits until every record has its answer, and every reader and
    group has reached the end: the cluster must be healthy by then. After an exception all clients
    are ended at once.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        directory: Path,
        partitions: int = PARTITIONS,
        records_per_s: float = RECORDS_PER_S,
    ) -> None:
        self.bootstrap = bootstrap
        self.ledger = ledger = Ledger(topic, partitions)
        self.java = JavaProducer(bootstrap, ledger, directory, records_per_s)
        self.producers: list[Client] = [
            LibrdkafkaProducer(bootstrap, ledger, records_per_s),
            KafkaPythonProducer(bootstrap, ledger, records_per_s),
            self.java,
        ]
        self.java_reader = JavaReader(bootstrap, ledger, directory)
        self.followers: list[Reader] = [
            LibrdkafkaReader(bootstrap, ledger),
            KafkaPythonReader(bootstrap, ledger),
        ]
        self.readers: list[Client] = [
            *self.followers,
            EndAsker(bootstrap, ledger),
            self.java_reader,
        ]
        self.groups = Groups(bootstrap, ledger, directory)
        self.transactions = Transactions(bootstrap, ledger)
        self.history = History()
        # Processes that a thread starts end with it, so it must outlive them.
        self.starter = ThreadPoolExecutor(1, initializer=lower_priority)
        self.is_abandoned = False
        self.warm_s = self.stopped_s = 0.0
        """When all producers had answers, and when they were asked to stop; seconds of the run."""
        self.well_from_s: float | None = None
        """When the cluster had recovered from the last fault; None while faults may follow."""

    def __enter__(self) -> Self:
        self.starter.submit(self.start).result()
        try:
            self.wait_warm()
        except BaseException:
            self.abandon()
            raise
        return self

    def start(self) -> None:
        for one in self.everybody():
            one.start()

    def everybody(self) -> tuple[Client, ...]:
        return (*self.producers, *self.readers, self.groups, self.transactions)

    def wait_warm(self) -> None:
        """Wait until every producer has had an answer, every group has committed, and every
        transactional id has committed and aborted."""
        until_s = time.monotonic() + WARM_LIMIT_S
        while not self.is_warm():
            if time.monotonic() > until_s:
                at_work, problems = self.ledger.groups.groups_at_work(), self.ledger.groups.problems
                raise TimeoutError(
                    f"after {WARM_LIMIT_S} s only the producers {self.answered_producers()} have "
                    f"answers (errors: {self.ledger.errors[:3]}), and only the groups {at_work} "
                    f"have committed (errors: {problems.most_common(3)}); "
                    f"{outcomes(self.transactions.noted).text} ({self.ledger.disturbances[:3]})"
                )
            time.sleep(0.2)
        self.warm_s = self.ledger.now_s()

    def is_warm(self) -> bool:
        have_answers = len(self.answered_producers()) == len(self.producers)
        return have_answers and self.groups.have_begun() and self.transactions.have_begun()

    def answered_producers(self) -> set[str]:
        """The producers that have had answers."""
        return {one.client for one in self.ledger.events.copy() if one.kind is Kind.ACKED}

    def all_is_well(self) -> None:
        """Must be called when the cluster has recovered from the last fault: then groups stay
        stable."""
        self.well_from_s = self.ledger.now_s()
        self.groups.rest()

    def records_per_s(self) -> float:
        """Records acknowledged per second, from the warm start until the producers were stopped."""
        times = (one for found in self.ledger.acknowledged_s.values() for one in found)
        duration_s = self.stopped_s - self.warm_s
        return sum(self.warm_s <= one <= self.stopped_s for one in times) / max(duration_s, 0.001)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if kind is not None and not self.is_abandoned:
            self.abandon()
        if not self.is_abandoned:
            self.finish()
        self.starter.shutdown()

    def finish(self) -> None:
        """Stop the producers, read the topics, wait for readers and groups, and complete the
        histories."""
        self.stopped_s = self.ledger.now_s()
        self.groups.rest()
        for one in (*self.producers, self.transactions):
            one.ask_to_stop()
        for one in (*self.producers, self.transactions):
            one.wait_stopped()
        read_everything(self.bootstrap, self.ledger, self.history)
        self.wait_caught_up()
        ends = [self.history.ends[label] for label in self.ledger.labels]
        wait_caught_up(self.bootstrap, self.groups.names, self.ledger, ends)
        for one in (*self.readers, self.groups):
            one.ask_to_stop()
        for one in (*self.readers, self.groups):
            one.wait_stopped()
        self.history.events = [*self.sent_by_java(), *self.ledger.events]
        if self.well_from_s is not None:
            well = Span(self.well_from_s, self.stopped_s, frozenset(self.ledger.labels))
            self.history.well.append(well)

    def wait_caught_up(self) -> None:
        """Wait until every reader has reached the end; the checkers report one that does not."""
        until_s = time.monotonic() + CATCH_UP_LIMIT_S
        while self.is_behind() and time.monotonic() < until_s:
            time.sleep(0.2)

    def is_behind(self) -> bool:
        """Whether a reader has not read a partition to its end yet."""
        ends = self.history.ends
        return any(
            at < ends[self.ledger.labels[partition]]
            for positions in self.positions()
            for partition, at in positions.items()
        )

    def positions(self) -> list[dict[int, int]]:
        """For each reader: partition -> the offset it reads next."""
        return [*(one.read_up_to for one in self.followers), self.java_reader.read_up_to]

    def abandon(self) -> None:
        """End everything without waiting for answers."""
        self.is_abandoned = True
        for one in self.everybody():
            one.abandon()

    def what_became_of_it(self) -> History:
        """The history of an abandoned workload: its events until now, and what is stored now.

        The events are copied before the topic is read: so each acknowledged record must be found.
        """
        events_before = self.ledger.events.copy()
        history = History()
        read_everything(self.bootstrap, self.ledger, history)
        history.events = events_before
        return history

    def sent_by_java(self) -> list[Event]:
        """A SENT event for each record of the Java producer, in the order of sending.

        The partition of a record is known from its acknowledgement, or from where it was found at
        the end; records of which neither is known are left out.
        """
        places = {
            value: label for label, stored in self.history.final.items() for _, value in stored
        }
        places |= {
            one.value: one.partition
            for one in self.ledger.events
            if one.kind is Kind.ACKED and one.client == self.java.name
        }
        return [
            Event(0.0, Kind.SENT, self.java.name, places[value], value)
            for value in self.java.values()
            if value in places
        ]


def lower_priority() -> None:
    """Lower the priority of this thread, which threads and processes that it starts inherit."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
