"""Limits the lists in a Broker object, which etcd limits to 1.5 MiB.

A status that is too large is rejected completely, again and again, so it could not become smaller
either. So the lists share a limit: entries that do not fit follow when the operator has handled
earlier ones.
"""

from typing import Final, NamedTuple

from chiplog_core.limits import MAX_DAMAGED_PARTITIONS

MAX_ENTRIES: Final = 2_900
"""Reports and proposals together, of at most 330 bytes each with three replicas."""
MIN_ENTRIES: Final = 500
"""There may always be this many reports, and this many proposals."""
MAX_MESSAGE: Final = 1_024
"""Characters of one message."""
MIN_MESSAGE: Final = 64
MAX_MESSAGES: Final = 128 * 1_024
"""Characters of all messages of damaged and halted replicas together."""
REPORTS_FOR_ONE: Final = 8
"""A damaged or halted replica takes the space of this many reports."""


class ListLimits(NamedTuple):
    """How many entries of each list fit into the status, and how long their texts may be."""

    reports: int
    proposals: int
    message: int
    """Characters of the message of each damaged or halted replica."""

    @property
    def moves(self) -> int:
        """How many settled partitions, and how many removed replicas: together they take the space
        of at most half of the proposals."""
        return self.proposals // 2

    @property
    def file(self) -> int:
        """Characters of the file name of each damaged replica."""
        return self.message // 2


def limits_for(reports: int, damaged: int) -> ListLimits:
    """The limits for a status with this many reports, and this many damaged and halted replicas
    together, so that the whole status fits into etcd.

    Reports come before proposals: without reports partitions have no leader.
    """
    # The status has at most this many damaged and halted replicas, and each takes the space of
    # `REPORTS_FOR_ONE` reports.
    damaged = min(damaged, 2 * MAX_DAMAGED_PARTITIONS)
    max_entries = max(MAX_ENTRIES - REPORTS_FOR_ONE * damaged, MIN_ENTRIES)
    return ListLimits(
        reports=max_entries,
        proposals=max(max_entries - reports, MIN_ENTRIES),
        message=max(MIN_MESSAGE, min(MAX_MESSAGE, MAX_MESSAGES // max(damaged, 1))),
    )
