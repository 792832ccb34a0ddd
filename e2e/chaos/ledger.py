"""What all clients of one run did and saw, in the form the checkers read."""

import sys
import time
from collections import defaultdict
from itertools import pairwise

from e2e.chaos.group_history import GroupHistory
from e2e.sim.history import Event, Kind

PADDING = b"." * 80


class Ledger:
    """Clients write to it from their own threads; each one's events stay in its order."""

    def __init__(self, topic: str, partitions: int) -> None:
        self.topic, self.partitions = topic, partitions
        self.labels = [f"{topic}-{number}" for number in range(partitions)]
        self.began_s = time.monotonic()
        self.events: list[Event] = []
        self.acknowledged_s: defaultdict[int, list[float]] = defaultdict(list)
        """Partition -> when a record of it was acknowledged, by whichever client."""
        self.groups = GroupHistory()
        self.errors: list[str] = []
        """What a client gave up: a record, a partition, itself."""
        self.disturbances: list[str] = []
        """Connections lost and the like, which client libraries recover from by themselves."""

    def now_s(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began_s

    def note(
        self, kind: Kind, client: str, partition: int, *, value: str = "", offset: int = -1
    ) -> None:
        """One event, now."""
        now_s = self.now_s()
        if kind is Kind.ACKED:
            self.acknowledged_s[partition].append(now_s)
        label = self.labels[partition]
        self.events.append(Event(now_s, kind, client, label, sys.intern(value), offset))

    def acknowledged(self) -> int:
        """How many records were acknowledged by now."""
        return sum(map(len, self.acknowledged_s.values()))

    def unavailable_s(self) -> float:
        """The longest time in which no record of some partition was acknowledged.

        Between acknowledgements: a partition that had none at all was away from the beginning on.
        """
        end_s = self.now_s()
        times = (self.acknowledged_s.get(one, []) for one in range(self.partitions))
        return max(longest_gap_s(sorted(one), end_s) for one in times)


def longest_gap_s(times_s: list[float], without_any_s: float) -> float:
    """The longest time between two of these moments."""
    if not times_s:
        return without_any_s
    return max((later - earlier for earlier, later in pairwise(times_s)), default=0.0)


def padded(name: str) -> bytes:
    """A record's value: its unique name, and something that makes it as long as others' are."""
    return name.encode() + b" " + PADDING


def name_of(value: bytes | None) -> str:
    """The name of a record; what is not whole is a value that nobody sent."""
    name, blank, rest = (value or b"").partition(b" ")
    is_whole = not blank or rest == PADDING
    return name.decode() if is_whole else repr(value)
