"""Members of an ISR have all committed records on their disks."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import History


def not_durable(history: History) -> Iterator[Anomaly]:
    """A running member of an ISR, in its listed session, had synced less than was committed.

    The high watermark waits until all listed and proposed members have synced, and a broker that
    is listed in a new session has reported that its disk kept the records. So whenever a map is
    written, a power cut of such a member must keep all records below the largest high watermark
    that any broker ever had. `history.vouched` has no topics with the durability PageCache.
    """
    for one in history.vouched:
        if one.durable_end < one.committed_end:
            what = f"{one.member} has {one.durable_end} of {one.committed_end} on its disk"
            yield Anomaly("not-durable", one.partition, f"{what}, t={one.at_s:.3f}")
