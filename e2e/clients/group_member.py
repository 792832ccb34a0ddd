"""A member of a consumer group, with one interface for all client libraries."""

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

SETTLE_LIMIT_S = 60
POLL_S = 0.1
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500


class GroupMember(ABC):
    """Reads a topic in a group, from the beginning where nothing is committed.

    After each poll it commits the records and waits for the answer. Its settings are the library's
    defaults, except for faster heartbeats and a shorter session timeout.
    """

    name: ClassVar[str]

    def __init__(self, bootstrap: str, group_id: str, topic: str) -> None:
        self.bootstrap, self.group_id, self.topic = bootstrap, group_id, topic
        self.assigned: frozenset[int] | None = None
        """Its partitions by its last assignment; None before the first."""
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record, in the order in which they came."""
        self.problems: list[str] = []
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True, name=self.name)

    @classmethod
    def slug(cls) -> str:
        """Its name without a comma and blanks, to be used in the names of topics and groups."""
        return cls.name.replace(", ", "-")

    @abstractmethod
    def run(self) -> None:
        """Read until `ending` is set; then leave the group."""

    def _run(self) -> None:
        """The thread's work: `run` the library's consumer, and note an exception as a problem."""
        try:
            self.run()
        except Exception as problem:  # noqa: BLE001 - the test shows it
            self.problems.append(repr(problem))

    def start(self) -> Self:
        self.thread.start()
        return self

    def stop(self) -> None:
        """Let it leave the group and end. Raises `AssertionError` if it had any error."""
        self.ending.set()
        self.thread.join(SETTLE_LIMIT_S)
        assert not self.thread.is_alive(), f"{self.name} does not end"
        assert not self.problems, self.problems


def wait_until(what: str, members: Sequence[GroupMember], holds: Callable[[], bool]) -> None:
    """Wait until `holds()` returns True.

    Raises `TimeoutError` after `SETTLE_LIMIT_S`, with `what` and the state of the members.
    """
    until_s = time.monotonic() + SETTLE_LIMIT_S
    while not holds():
        if time.monotonic() > until_s:
            states = [(one.assigned, len(one.read), one.problems) for one in members]
            raise TimeoutError(
                f"not within {SETTLE_LIMIT_S} s: {what}; members (partitions, number of records "
                f"read, errors): {states}"
            )
        time.sleep(POLL_S)


def wait_shared(members: Sequence[GroupMember], shares: Sequence[int]) -> None:
    """Wait until each partition is assigned exactly once, and the members have these numbers of
    partitions, in any order.

    A cooperative group also gets there by way of other shares: a new member has none until another
    one has given up some of its partitions.
    """

    def is_shared() -> bool:
        owned = [one.assigned for one in members]
        found = sorted(index for one in owned if one is not None for index in one)
        counts = sorted(len(one) for one in owned if one is not None)
        return found == list(range(sum(shares))) and counts == sorted(shares)

    wait_until(f"the shares are {shares}", members, is_shared)


def have_read(members: Sequence[GroupMember], count: int) -> None:
    """Wait until the members have read at least `count` records together."""
    wait_until(f"{count} records are read", members, lambda: count_of(members) >= count)


def count_of(members: Sequence[GroupMember]) -> int:
    return sum(len(one.read) for one in members)
