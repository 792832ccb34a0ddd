"""A consumer in a group as tests see it, whichever library it is of."""

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

    It commits after each poll what that brought, and waits until that is answered. All is as the
    library has it, but for quicker heartbeats.
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
        """Its name as a part of others."""
        return cls.name.replace(", ", "-")

    @abstractmethod
    def run(self) -> None:
        """Until `ending` is set; then leave the group."""

    def _run(self) -> None:
        try:
            self.run()
        except Exception as problem:  # noqa: BLE001 - the test shows it
            self.problems.append(repr(problem))

    def start(self) -> Self:
        self.thread.start()
        return self

    def stop(self) -> None:
        """Have it leave. Raises `AssertionError` where anything went wrong."""
        self.ending.set()
        self.thread.join(SETTLE_LIMIT_S)
        assert not self.thread.is_alive(), f"{self.name} does not end"
        assert not self.problems, self.problems


def wait_until(what: str, members: Sequence[GroupMember], holds: Callable[[], bool]) -> None:
    """Raises `TimeoutError` with what the members know."""
    until_s = time.monotonic() + SETTLE_LIMIT_S
    while not holds():
        if time.monotonic() > until_s:
            known = [(one.assigned, len(one.read), one.problems) for one in members]
            raise TimeoutError(f"{what}: {known}")
        time.sleep(POLL_S)


def wait_shared(members: Sequence[GroupMember], partitions: int) -> list[int]:
    """Wait until each partition has exactly one owner, and every member knows what it has.

    Returns how many each has, the most first.
    """

    def is_shared() -> bool:
        owned = [one.assigned for one in members]
        found = sorted(index for one in owned if one is not None for index in one)
        return None not in owned and found == list(range(partitions))

    wait_until(f"{partitions} partitions are shared", members, is_shared)
    return sorted((len(one.assigned or ()) for one in members), reverse=True)


def have_read(members: Sequence[GroupMember], count: int) -> None:
    """Wait until they have read so many records together."""
    wait_until(f"{count} records are read", members, lambda: count_of(members) >= count)


def count_of(members: Sequence[GroupMember]) -> int:
    return sum(len(one.read) for one in members)
