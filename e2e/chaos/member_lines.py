"""Turns the lines that members of groups print into the history of the groups."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from e2e.chaos.group_history import NEVER_S, Committed, Found, Place, Processed, Said
from e2e.chaos.ledger import Ledger

MS = 0.001

Line = Mapping[str, Any]


class MemberLines(ABC):
    """The printed lines of one member process."""

    def __init__(self, group: str, name: str, ledger: Ledger) -> None:
        self.group, self.name, self.ledger = group, name, ledger
        self.history = ledger.groups
        self.pending: dict[int, Committed] = {}
        """Partition -> its requested commit that has no answer yet."""

    @abstractmethod
    def take(self, line: Line) -> None:
        """Add the event of one printed line to the history."""

    def end(self) -> None:
        """Called when the process has ended: its unanswered commit may have been stored or not."""
        self.history.commits += self.take_pending()

    def place(self, partition: int) -> Place:
        return Place(self.group, self.ledger.labels[partition])

    def asked_to_commit(self, at_s: float, offsets: Mapping[int, int]) -> None:
        """Note a commit request (offsets by partition) as pending until its answer is reported."""
        for partition, offset in offsets.items():
            one = Committed(at_s, NEVER_S, self.place(partition), offset, self.name)
            self.pending[partition] = one

    def acknowledged(self, at_s: float) -> None:
        """Note that all offsets of the last commit request were committed, at `at_s`."""
        self.history.commits += [one._replace(answered_s=at_s) for one in self.take_pending()]

    def refused(self, why: str) -> None:
        """Note an error; the commits of the last request, if any, may have been stored or not."""
        self.history.commits += self.take_pending()
        self.history.problems[why] += 1

    def said(self, at_s: float, event: str, what: object) -> None:
        self.history.said.append(Said(at_s, self.name, event, str(what)))

    def take_pending(self) -> list[Committed]:
        """Return the commits without an answer, and forget them."""
        found = [*self.pending.values()]
        self.pending.clear()
        return found

    def began(self, since_s: float, partition: int, offset: int) -> None:
        """Note the first offset read after an assignment (at `since_s`) as the committed one."""
        self.history.found.append(Found(since_s, self.place(partition), offset, self.name))

    def processed(self, partition: int, first: int, last: int) -> None:
        self.history.processed.append(Processed(self.place(partition), first, last, self.name))


class OwnLines(MemberLines):
    """The lines of our own program, `group_worker`."""

    def take(self, line: Line) -> None:
        """Record in the history what one line of JSON from `group_worker.py` reports.

        Times in a line are by the monotonic clock; the history counts seconds since the run began.
        Unknown events are ignored.
        """
        at_s = float(line["t"]) - self.ledger.began_s
        match line["event"]:
            case "began":
                since_s = float(line["since"]) - self.ledger.began_s
                self.began(since_s, line["partition"], line["offset"])
            case "processed":
                for first, last in line["runs"]:
                    self.processed(line["partition"], first, last)
            case "commit":
                offsets = {int(number): offset for number, offset in line["offsets"].items()}
                self.asked_to_commit(at_s, offsets)
            case "committed":
                self.acknowledged(at_s)
            case "refused" | "problem":
                self.refused(str(line["what"]))
                self.said(at_s, line["event"], line["what"])
            case "given":
                self.said(at_s, "given", line["partitions"])
            case _:
                pass


class JavaLines(MemberLines):
    """The lines of Kafka's VerifiableConsumer.

    After each poll it prints the records, commits them, and prints that it did.
    """

    def __init__(self, group: str, name: str, ledger: Ledger) -> None:
        super().__init__(group, name, ledger)
        self.given_s: dict[int, float] = {}
        """Partition -> when it was assigned, for partitions of which nothing was read yet."""
        self.from_wall_clock_s = time.monotonic() - time.time() - ledger.began_s
        """Added to a time of the wall clock, it gives seconds since the run began."""

    def take(self, line: Line) -> None:
        """Record in the history what one line of JSON from Kafka's VerifiableConsumer reports.

        Its timestamps are milliseconds of the wall clock. Events that no checker needs are ignored.
        """
        at_s = float(line["timestamp"]) * MS + self.from_wall_clock_s
        match line["name"]:
            case "partitions_assigned":
                self.given_s |= {int(one["partition"]): at_s for one in line["partitions"]}
                self.said(at_s, "given", sorted(self.given_s))
            case "partitions_revoked":
                self.given_s.clear()
            case "records_consumed":
                self.consumed(at_s, line["partitions"])
            case "offsets_committed" if line["success"]:
                # The tool truncates times to milliseconds: the answer may be up to 1 ms later.
                self.acknowledged(at_s + MS)
            case "offsets_committed":
                self.refused(str(line.get("error")))
            case _:
                pass

    def consumed(self, at_s: float, partitions: list[Line]) -> None:
        """Note the records that a poll returned; the tool commits them next."""
        offsets: dict[int, int] = {}
        for one in partitions:
            number, first, last = (
                int(one["partition"]),
                int(one["minOffset"]),
                int(one["maxOffset"]),
            )
            offsets[number] = last + 1
            if (since_s := self.given_s.pop(number, None)) is not None:
                self.began(since_s, number, first)
            if int(one["count"]) == last - first + 1:
                self.processed(number, first, last)
            else:  # the range has gaps, and the line does not say which: only its ends are certain
                self.processed(number, first, first)
                self.processed(number, last, last)
        self.asked_to_commit(at_s, offsets)
