"""Two consumer groups that read a topic while their members come and go.

Each group has members of two libraries, which share the partitions. One after the other they leave
or are killed (SIGKILL) and come back, each time with a rebalance. Another client asks for the
groups' committed offsets all the time.
"""

import itertools
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from e2e.chaos.committed import asker, committed
from e2e.chaos.group_history import GroupHistory
from e2e.chaos.group_members import KINDS, Member
from e2e.chaos.ledger import Ledger

GROUPS = (("first", ("librdkafka", "kafka-python")), ("second", ("java", "librdkafka")))
CHANGE_EVERY_S = 12.0
AWAY_S = 3.0
ASK_EVERY_S = 1.0
POLL_S = 0.2
STOP_LIMIT_S = 60


@dataclass(slots=True)
class Seat:
    """A member of a group over time: one process after another, each a new `Member`."""

    group: str
    library: str
    starts: int = 0
    """How many processes were started for it."""
    member: Member | None = None
    """The current process; None between two."""

    @property
    def name(self) -> str:
        return f"{self.group}-{self.library}"


class Groups:
    """All members of all groups. It has the methods of a `Client` of `workload`."""

    def __init__(
        self,
        bootstrap: str,
        ledger: Ledger,
        directory: Path,
        change_every_s: float = CHANGE_EVERY_S,
    ) -> None:
        self.bootstrap, self.ledger, self.directory = bootstrap, ledger, directory
        self.change_every_s = change_every_s
        self.history: GroupHistory = ledger.groups
        self.names = tuple(f"{ledger.topic}-{name}" for name, _ in GROUPS)
        self.seats = [
            Seat(f"{ledger.topic}-{name}", library)
            for name, libraries in GROUPS
            for library in libraries
        ]
        self.resting, self.ending = threading.Event(), threading.Event()
        self.is_abandoned = False
        # The thread of `supervise` starts all members: a process ends with the thread that started
        # it.
        self.threads = [
            threading.Thread(target=work, daemon=True, name=work.__name__)
            for work in (self.supervise, self.poll_committed)
        ]

    def start(self) -> None:
        for one in self.threads:
            one.start()

    def have_begun(self) -> bool:
        """Whether every group has had a commit acknowledged."""
        return self.history.groups_at_work() == {*self.names}

    def rest(self) -> None:
        """Stop the changes: from now on no member leaves or is killed, and absent ones return."""
        self.resting.set()

    def ask_to_stop(self) -> None:
        self.ending.set()

    def abandon(self) -> None:
        """Ask the threads to end the members without waiting for answers, like after a failure."""
        self.is_abandoned = True
        self.ending.set()

    def wait_stopped(self) -> None:
        """Wait for the threads to end; one that does not is noted as an error of the run."""
        for one in self.threads:
            one.join(STOP_LIMIT_S)
            if one.is_alive():
                self.ledger.errors.append(f"groups: {one.name} does not end")

    # -- members

    def supervise(self) -> None:
        """Start all members, replace one every `change_every_s`, and end all when asked to stop."""
        for seat in self.seats:
            self.sit_down(seat)
        # The seat, and whether its member is killed. The lengths 4 and 3 have no common divisor: so
        # each seat gets both kinds.
        changes = zip(itertools.cycle(self.seats), itertools.cycle([True, False, True]))
        next_s = time.monotonic() + self.change_every_s
        while not self.ending.wait(POLL_S):
            if not self.resting.is_set() and time.monotonic() >= next_s:
                self.change(*next(changes))
                next_s = time.monotonic() + self.change_every_s
        self.end_all()

    def sit_down(self, seat: Seat) -> None:
        """Start a new process for this member."""
        seat.starts += 1
        name = f"{seat.name}.{seat.starts}"
        where = self.bootstrap, self.ledger, self.directory
        seat.member = KINDS[seat.library](seat.library, seat.group, name, *where)
        seat.member.start()

    def change(self, seat: Seat, is_crash: bool) -> None:
        """Kill the member (`is_crash`) or let it leave, and replace it after `AWAY_S`."""
        assert seat.member is not None
        if is_crash:
            seat.member.crash()
        else:
            seat.member.leave()
        seat.member = None
        self.ending.wait(AWAY_S)
        if not self.ending.is_set():
            self.sit_down(seat)

    def end_all(self) -> None:
        """Let all members leave their groups; after `abandon`, kill them at once."""
        members = [seat.member for seat in self.seats if seat.member is not None]
        if not self.is_abandoned:
            for one in members:
                one.ask_to_stop()
            for one in members:
                one.wait_left()
        for one in members:
            one.kill()

    # -- committed offsets

    def poll_committed(self) -> None:
        """Ask for the committed offsets of one group after the other, until asked to stop.

        Requests without an answer are left out of the history.
        """
        askers = {name: asker(self.bootstrap, name) for name in self.names}
        for name, one in itertools.cycle(askers.items()):
            if self.ending.wait(ASK_EVERY_S / len(askers)):
                break
            asked_s = self.ledger.now_s()
            self.history.note_found(asked_s, committed(one, name, self.ledger), "who asks")
        for one in askers.values():
            one.close()
