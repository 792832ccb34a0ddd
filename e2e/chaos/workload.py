"""The clients of a run: three producers, three readers, two groups, and the history they leave."""

import time
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from e2e.chaos.by_java import JavaProducer, JavaReader
from e2e.chaos.committed import wait_caught_up
from e2e.chaos.groups import Groups
from e2e.chaos.last_reader import read_everything
from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import KafkaPythonProducer, LibrdkafkaProducer
from e2e.chaos.readers import EndAsker, KafkaPythonReader, LibrdkafkaReader, Reader
from e2e.sim.history import Event, History, Kind, Span

PARTITIONS = 6
WARM_LIMIT_S = 120
CATCH_UP_LIMIT_S = 60


class Client(Protocol):
    """Works by itself from its start until it has stopped."""

    def start(self) -> None: ...
    def ask_to_stop(self) -> None: ...
    def abandon(self) -> None: ...
    def wait_stopped(self) -> None: ...


class Workload:
    """At work within the block, from the moment all producers and groups have had answers.

    Left in order, it waits until every record has its answer and every reader and every group is
    at the end; all must be whole by then. Left by an exception it ends at once.
    """

    def __init__(
        self, bootstrap: str, topic: str, directory: Path, partitions: int = PARTITIONS
    ) -> None:
        self.bootstrap = bootstrap
        self.ledger = ledger = Ledger(topic, partitions)
        self.java = JavaProducer(bootstrap, ledger, directory)
        self.producers: list[Client] = [
            LibrdkafkaProducer(bootstrap, ledger),
            KafkaPythonProducer(bootstrap, ledger),
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
        self.history = History()
        self.is_abandoned = False
        self.warm_s = self.stopped_s = 0.0
        """When all producers had answers, and when the first was asked to stop."""
        self.well_from_s: float | None = None
        """Since when all has been well, up to the end."""

    def __enter__(self) -> Self:
        for one in self.everybody():
            one.start()
        try:
            self.wait_warm()
        except BaseException:
            self.abandon()
            raise
        return self

    def everybody(self) -> tuple[Client, ...]:
        return (*self.producers, *self.readers, self.groups)

    def wait_warm(self) -> None:
        until_s = time.monotonic() + WARM_LIMIT_S
        while len(self.answered_producers()) < len(self.producers) or not self.groups.have_begun():
            if time.monotonic() > until_s:
                at_work, problems = self.ledger.groups.groups_at_work(), self.ledger.groups.problems
                raise TimeoutError(
                    f"answers only for {self.answered_producers()}: {self.ledger.errors[:3]}; "
                    f"commits only of {at_work}: {problems.most_common(3)}"
                )
            time.sleep(0.2)
        self.warm_s = self.ledger.now_s()

    def answered_producers(self) -> set[str]:
        """The producers that have had answers."""
        return {one.client for one in self.ledger.events.copy() if one.kind is Kind.ACKED}

    def all_is_well(self) -> None:
        """Called when everything has healed, and no more faults follow."""
        self.well_from_s = self.ledger.now_s()
        self.groups.rest()

    def records_per_s(self) -> float:
        """Records acknowledged per second while producers ran."""
        times = (one for found in self.ledger.acknowledged_s.values() for one in found)
        while_s = self.stopped_s - self.warm_s
        return sum(self.warm_s <= one <= self.stopped_s for one in times) / max(while_s, 0.001)

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

    def finish(self) -> None:
        """Wait for all answers, and for what there is to read."""
        self.stopped_s = self.ledger.now_s()
        self.groups.rest()
        for one in self.producers:
            one.ask_to_stop()
        for one in self.producers:
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
        """Wait until every reader is at the end; one that never is there is for the checkers."""
        until_s = time.monotonic() + CATCH_UP_LIMIT_S
        while self.is_behind() and time.monotonic() < until_s:
            time.sleep(0.2)

    def is_behind(self) -> bool:
        ends = self.history.ends
        return any(
            at < ends[self.ledger.labels[partition]]
            for positions in self.positions()
            for partition, at in positions.items()
        )

    def positions(self) -> list[dict[int, int]]:
        """What each reader reads next, by partition."""
        return [*(one.read_up_to for one in self.followers), self.java_reader.read_up_to]

    def abandon(self) -> None:
        """End everything without waiting for answers."""
        self.is_abandoned = True
        for one in self.everybody():
            one.abandon()

    def what_became_of_it(self) -> History:
        """What is there of all that was promised until now, for a workload that is abandoned.

        Everything sent counts as sent, what Java did not tell of included, so that nothing of it
        is taken for another's.
        """
        promised = self.ledger.events.copy()
        found = History()
        read_everything(self.bootstrap, self.ledger, found)
        found.events = promised
        return found

    def sent_by_java(self) -> list[Event]:
        """The records in the order in which they were sent, each at its acknowledged offset or
        where it was read."""
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
