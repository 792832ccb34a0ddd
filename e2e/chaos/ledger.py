"""The events of all clients of one run, in the form that the checkers read."""

import sys
import time
from collections import defaultdict
from itertools import pairwise

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

    def unavailable_s(self) -> float:
        """The longest time between two acknowledgements in any one partition.

        A partition without any acknowledgement counts as unavailable since the run began.
        """
        end_s = self.now_s()
        times = (self.acknowledged_s.get(one, []) for one in range(self.partitions))
        return max(longest_gap_s(sorted(one), end_s) for one in times)


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
