"""The events of all clients of one run, in the form that the checkers read."""

import math
import sys
import time
from bisect import bisect_left, bisect_right
from collections import defaultdict
from itertools import pairwise
from typing import Self

from e2e.chaos.group_history import GroupHistory
from e2e.sim.history import Event, Kind

PADDING = b"." * 80


class Ledger:
    """The record of a run on one topic.

    Clients write to it from their own threads; the events of each client keep their order.
    """

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic, self.partitions = topic, partitions
        self.labels = [f"{topic}-{number}" for number in range(partitions)]
        self.began_s = time.monotonic()
        self.events: list[Event] = []
        self.acknowledged_s: defaultdict[int, list[float]] = defaultdict(list)
        """Partition -> the times at which its records were acknowledged, to any client."""
        self.groups = GroupHistory()
        self.errors: list[str] = []
        """Final failures: a record given up by its producer, a client that ended."""
        self.disturbances: list[str] = []
        """Lost connections and other errors that client libraries recover from."""

    def of_another_topic(self, topic: str, partitions: int) -> Self:
        """The record of the same run on another topic: what clients gave up is noted in both."""
        another = type(self)(topic, partitions)
        another.began_s = self.began_s
        another.errors, another.disturbances = self.errors, self.disturbances
        return another

    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began_s

    def note(
        self, kind: Kind, client: str, partition: int, *, value: str = "", offset: int = -1
    ) -> None:
        """Add an event with the current time; -1 and "" mean that it has no offset or value."""
        now_s = self.now_s()
        if kind is Kind.ACKED:
            self.acknowledged_s[partition].append(now_s)
        label = self.labels[partition]
        self.events.append(Event(now_s, kind, client, label, sys.intern(value), offset))

    def acknowledged(self) -> int:
        """How many records were acknowledged by now."""
        return sum(map(len, self.acknowledged_s.values()))

    def unavailable_s(self, from_s: float = 0.0, until_s: float = math.inf) -> float:
        """The longest time between two acknowledgements in any one partition; if `from_s` and
        `until_s` are given (seconds of the run), of those times that overlap with this part.

        A partition without any acknowledgement counts as unavailable since the run began.
        """
        end_s = self.now_s()
        times = (sorted(self.acknowledged_s.get(one, [])) for one in range(self.partitions))
        return max(longest_gap_s(within(one, from_s, until_s), end_s) for one in times)

    def latencies_s(
        self, client: str, from_s: float = 0.0, until_s: float = math.inf
    ) -> list[float]:
        """The seconds from sending to the acknowledgement, in ascending order, for the records that
        a producer sent in this part of the run. Not known of the Java producer."""
        sent_s: dict[str, float] = {}
        found: list[float] = []
        for one in self.events.copy():
            if one.client != client:
                continue
            if one.kind is Kind.SENT and from_s <= one.at_s < until_s:
                sent_s[one.value] = one.at_s
            elif one.kind is Kind.ACKED and one.value in sent_s:
                found.append(one.at_s - sent_s[one.value])
        return sorted(found)


def within(times_s: list[float], from_s: float, until_s: float) -> list[float]:
    """The times of a sorted list in this part of a run, with one before it and one after it."""
    first, last = bisect_left(times_s, from_s), bisect_right(times_s, until_s)
    return times_s[max(0, first - 1) : last + 1]


def longest_gap_s(times_s: list[float], without_any_s: float) -> float:
    """The longest time between two neighbours of a sorted list; `without_any_s` if it is empty."""
    if not times_s:
        return without_any_s
    return max((later - earlier for earlier, later in pairwise(times_s)), default=0.0)


def padded(name: str) -> bytes:
    """The bytes of a record: its unique name, a blank, and padding for a realistic size."""
    return name.encode() + b" " + PADDING


def name_of(value: bytes | None) -> str:
    """The name in a record's value.

    If the padding is damaged, the whole value is returned instead: it equals no name that was sent,
    so the checkers report it.
    """
    name, blank, rest = (value or b"").partition(b" ")
    is_undamaged = not blank or rest == PADDING
    return name.decode() if is_undamaged else repr(value)
