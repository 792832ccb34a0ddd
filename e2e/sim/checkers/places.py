"""One offset holds one value, and one value one offset: for all who ever said where it is."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly, all_places
from e2e.sim.checkers.deletions import Deletions
from e2e.sim.history import History


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """Two values at one offset, across acknowledgements, reads and the replicas' files."""
    seen: dict[tuple[str, int], str] = {}
    for partition, offset, value, who in all_places(history):
        known = seen.setdefault((partition, offset), value)
        if known != value:
            what = f"offset {offset} is {known} and, to {who}, {value}"
            yield Anomaly("inconsistent-offsets", partition, what)


def duplicate(history: History) -> Iterator[Anomaly]:
    """One value at two offsets, although producers are idempotent.

    What retention took is not remembered everywhere: a replica that copied the log after that
    knows nothing of it, and leads with that. A producer that asks again later than its records
    are kept is believed, as in Kafka. So the first of the two was deleted, by a rule.
    """
    if not history.was_idempotent:
        return
    seen: dict[tuple[str, str], int] = {}
    letting_go: Deletions | None = None
    for partition, offset, value, who in all_places(history):
        known = seen.setdefault((partition, value), offset)
        if known == offset:
            continue
        letting_go = letting_go or Deletions(history)
        first, start = min(known, offset), history.starts.get(partition, 0)
        if first >= start or not letting_go.why_below(partition, first):
            what = f"{value} is at {known} and, to {who}, at {offset}"
            yield Anomaly("duplicate", partition, what)
