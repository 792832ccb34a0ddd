"""What members of groups say of themselves, turned into the history of the groups."""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from e2e.chaos.group_history import NEVER_S, Committed, Found, Place, Processed, Said
from e2e.chaos.ledger import Ledger

MS = 0.001

Line = Mapping[str, Any]


class MemberLines(ABC):
    """What one process of a member printed."""

    def __init__(self, group: str, name: str, ledger: Ledger) -> None:
        self.group, self.name, self.ledger = group, name, ledger
        self.history = ledger.groups
        self.pending: dict[int, Committed] = {}
        """Partition -> a commit that has no answer yet."""

    @abstractmethod
    def take(self, line: Line) -> None:
        """One line."""

    def end(self) -> None:
        """The process ended: its last commit may have been stored or not."""
        self.history.commits += self.take_pending()

    def place(self, partition: int) -> Place:
        return Place(self.group, self.ledger.labels[partition])

    def asked_to_commit(self, at_s: float, offsets: Mapping[int, int]) -> None:
        for partition, offset in offsets.items():
            one = Committed(at_s, NEVER_S, self.place(partition), offset, self.name)
            self.pending[partition] = one

    def acknowledged(self, at_s: float) -> None:
        """All that it asked for last."""
        self.history.commits += [one._replace(answered_s=at_s) for one in self.take_pending()]

    def refused(self, why: str) -> None:
        """Its last commit failed: it may have been stored or not."""
        self.history.commits += self.take_pending()
        self.history.problems[why] += 1

    def said(self, at_s: float, event: str, what: object) -> None:
        self.history.said.append(Said(at_s, self.name, event, str(what)))

    def take_pending(self) -> list[Committed]:
        found = [*self.pending.values()]
        self.pending.clear()
        return found

    def began(self, since_s: float, partition: int, offset: int) -> None:
        self.history.found.append(Found(since_s, self.place(partition), offset, self.name))

    def processed(self, partition: int, first: int, last: int) -> None:
        self.history.processed.append(Processed(self.place(partition), first, last, self.name))


class OwnLines(MemberLines):
    """Of `group_worker`."""

    def take(self, line: Line) -> None:
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
    """Lines of VerifiableConsumer, which commits after each poll what that returned, and prints
    both."""

    def __init__(self, group: str, name: str, ledger: Ledger) -> None:
        super().__init__(group, name, ledger)
        self.given_s: dict[int, float] = {}
        """Partitions it was given and has read nothing of, with the moment."""
        self.from_wall_clock_s = time.monotonic() - time.time() - ledger.began_s
        """What makes a moment of the run of one by the wall clock."""

    def take(self, line: Line) -> None:
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
                # Its moments are cut to milliseconds.
                self.acknowledged(at_s + MS)
            case "offsets_committed":
                self.refused(str(line.get("error")))
            case _:
                pass

    def consumed(self, at_s: float, partitions: list[Line]) -> None:
        """What a poll brought, which it commits next."""
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
            else:  # it was not given all in between
                self.processed(number, first, first)
                self.processed(number, last, last)
        self.asked_to_commit(at_s, offsets)
