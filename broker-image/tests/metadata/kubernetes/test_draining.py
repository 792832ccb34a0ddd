"""What a broker that is about to end may wait for."""

import pytest

from chiplog_broker.metadata.kubernetes.draining import can_be_handed_over
from chiplog_broker.metadata.view import PartitionView
from chiplog_core.ids import BrokerId, ReplicaRef, Session


def partition(leader: int, isr: tuple[int, ...], *dead: int) -> PartitionView:
    """One with three replicas; the dead are listed as in sync all the same."""
    refs = tuple(ReplicaRef(BrokerId(one), Session(1)) for one in (*isr, *dead))
    return PartitionView(0, leader, 4, (1, 2, 3), isr, isr_refs=refs)


@pytest.mark.parametrize(
    ("state", "min_isr", "waits"),
    [
        (partition(1, (1, 2, 3)), 2, True),
        (partition(1, (1, 2)), 2, True),
        (partition(1, (1,)), 2, False),
        (partition(1, (1,), 2), 2, False),
        (partition(2, (1, 2, 3)), 2, True),
        (partition(2, (1, 2, 3)), 3, False),
        (partition(2, (1, 2)), 2, False),
        (partition(2, (1, 2)), 1, True),
        (partition(2, (1, 2), 3), 2, False),
        (partition(2, (2, 3)), 2, False),
        (partition(-1, ()), 1, False),
    ],
)
def test_what_can_be_left(state: PartitionView, min_isr: int, waits: bool) -> None:
    """Leaderships anybody alive in sync can take; an ISR can be left above its floor."""
    assert can_be_handed_over(1, state, min_isr) is waits
