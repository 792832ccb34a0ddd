"""Log start offsets: that of a replica never decreases, and a rule deleted all records below it."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly, events_of
from e2e.sim.checkers.deletions import Deletions
from e2e.sim.history import History, Kind, LogStart


def log_start_back(history: History) -> Iterator[Anomaly]:
    """The log start offset of an in-sync replica decreased.

    One that is not in sync may be copied again from its leader, whose log may begin earlier.
    """
    known: dict[tuple[int, str], LogStart] = {}
    for one in history.log_starts:
        before = known.get((one.broker_id, one.partition))
        known[one.broker_id, one.partition] = one
        if before is None or not (one.is_in_sync and before.is_in_sync):
            continue
        if one.offset < before.offset:
            what = f"{one.broker_id} begins at {one.offset}, before at {before.offset}"
            yield Anomaly("log-start-back", one.partition, f"{what}, t={one.at_s:.3f}")


def log_start_unexplained(history: History) -> Iterator[Anomaly]:
    """An acknowledged record lies below an in-sync replica's log start, and no rule deleted it.

    Only records above the leader's log start count, which can still be read: they would be lost
    with the next leader. Records below it are found by `lost_write`.
    """
    starts: dict[str, tuple[int, int]] = {}
    for one in history.replicas:
        if one.is_in_sync and not one.is_damaged:
            known = starts.get(one.partition, (0, 0))
            starts[one.partition] = max(known, (one.log_start_offset, one.broker_id))
    if not any(start for start, _ in starts.values()):
        return
    deletions = Deletions(history)
    for event in events_of(history, Kind.ACKED):
        start, broker_id = starts.get(event.partition, (0, 0))
        begin = history.starts.get(event.partition, 0)
        if begin <= event.offset < start and not deletions.why_event(event):
            what = f"{event.value} at {event.offset}: {broker_id} begins at {start}"
            yield Anomaly("log-start-unexplained", event.partition, what)
