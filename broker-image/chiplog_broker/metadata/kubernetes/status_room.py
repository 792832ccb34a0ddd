"""How much of each list fits into a broker's object, of which etcd takes 1.5 MiB.

A status that is too large is refused whole, again and again, and with it what would make it
smaller. So the lists share their room: what finds none is said when the operator has dealt with
what was said before.
"""

from typing import Final, NamedTuple

from chiplog_core.limits import MAX_DAMAGED_PARTITIONS

MOST: Final = 4_000
"""Of reports and proposals together, at 230 bytes each with three replicas."""
LEAST: Final = 500
"""Of reports, and of proposals, there are always so many."""
MAX_MESSAGE: Final = 1_024
LEAST_MESSAGE: Final = 64
MAX_MESSAGES: Final = 128 * 1_024
"""Characters of all messages of damaged and halted replicas."""
REPORTS_FOR_ONE: Final = 8
"""What is said of a damaged or halted replica takes the room of so many reports."""


class Room(NamedTuple):
    """Of what there is to say, so much is said now."""

    reports: int
    proposals: int
    message: int
    """Characters of the message of each damaged or halted replica."""

    @property
    def file(self) -> int:
        """Characters of the name of its file."""
        return self.message // 2


def room_for(reports: int, damaged: int) -> Room:
    """For so many reports, and so many damaged and halted replicas together.

    Reports come before proposals: without them partitions have no leader.
    """
    damaged = min(damaged, 2 * MAX_DAMAGED_PARTITIONS)
    most = max(MOST - REPORTS_FOR_ONE * damaged, LEAST)
    return Room(
        reports=most,
        proposals=max(most - reports, LEAST),
        message=max(LEAST_MESSAGE, min(MAX_MESSAGE, MAX_MESSAGES // max(damaged, 1))),
    )
