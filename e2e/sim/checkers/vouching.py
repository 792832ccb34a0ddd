"""What is listed in an ISR is on the disks of those who are listed."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import History


def not_durable(history: History) -> Iterator[Anomaly]:
    """A member of an ISR, alive in the listed session, had less on its device than was committed.

    The high watermark waits for all members, listed and proposed, to have synced; a broker
    that is listed in a session that began since has said that its disk kept it. So at the moment
    when a map is written each such member would come out of a power cut with all that is below the
    largest high watermark that any broker ever had. Only where records are acknowledged from
    page caches this does not hold.
    """
    for one in history.vouched:
        if one.durable_end < one.committed_end:
            what = f"{one.member} has {one.durable_end} of {one.committed_end} on its disk"
            yield Anomaly("not-durable", one.partition, f"{what}, t={one.at_s:.3f}")
