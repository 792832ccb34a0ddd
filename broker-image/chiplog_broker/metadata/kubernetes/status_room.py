"""Limits the lists in a Broker object, which etcd limits to 1.5 MiB.

A status that is too large is rejected completely, again and again, so it could not become smaller
either. So the lists share a limit: entries that do not fit follow when the operator has handled
earlier ones.
"""

from typing import Final, NamedTuple

from chiplog_core.limits import MAX_DAMAGED_PARTITIONS

MOST: Final = 4_000
"""Reports and proposals together, at 230 bytes each with three replicas."""
LEAST: Final = 500
"""The least number of reports, and of proposals."""
MAX_MESSAGE: Final = 1_024
LEAST_MESSAGE: Final = 64
MAX_MESSAGES: Final = 128 * 1_024
"""Characters of all messages of damaged and halted replicas."""
REPORTS_FOR_ONE: Final = 8
"""A damaged or halted replica takes the space of this many reports."""


class Room(NamedTuple):
    """How many entries of each list fit into the status."""

    reports: int
    proposals: int
    message: int
    """Characters of the message of each damaged or halted replica."""

    @property
    def file(self) -> int:
        """Characters of the name of its file."""
        return self.message // 2


def room_for(reports: int, damaged: int) -> Room:
    """The limits for this many reports, and this many damaged and halted replicas together.

    Reports come before proposals: without reports partitions have no leader.
    """
    damaged = min(damaged, 2 * MAX_DAMAGED_PARTITIONS)
    most = max(MOST - REPORTS_FOR_ONE * damaged, LEAST)
    return Room(
        reports=most,
        proposals=max(most - reports, LEAST),
        message=max(LEAST_MESSAGE, min(MAX_MESSAGE, MAX_MESSAGES // max(damaged, 1))),
    )
