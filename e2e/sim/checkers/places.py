"""Each offset has one value, and each value one offset, in all answers and on all disks."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly, all_places
from e2e.sim.checkers.deletions import Deletions
from e2e.sim.history import History


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """Acknowledgements, reads or replicas' files show two values at one offset."""
    seen: dict[tuple[str, int], str] = {}
    for partition, offset, value, who in all_places(history):
        known = seen.setdefault((partition, offset), value)
        if known != value:
            what = f"offset {offset} is {known} and, to {who}, {value}"
            yield Anomaly("inconsistent-offsets", partition, what)


def duplicate(history: History) -> Iterator[Anomaly]:
    """A value is at two offsets, although producers are idempotent.

    It is correct if a rule deleted the first one: a replica that copied the log later does not
    know the producer's deleted batch, and as the leader it stores the batch again if the producer
    sends it again, as in Kafka.
    """
    if not history.was_idempotent:
        return
    seen: dict[tuple[str, str], int] = {}
    deletions: Deletions | None = None
    for partition, offset, value, who in all_places(history):
        known = seen.setdefault((partition, value), offset)
        if known == offset:
            continue
        deletions = deletions or Deletions(history)
        first, start = min(known, offset), history.starts.get(partition, 0)
        if first >= start or not deletions.why_below(partition, first):
            what = f"{value} is at {known} and, to {who}, at {offset}"
            yield Anomaly("duplicate", partition, what)
