"""Progress while the cluster is healthy: records are acknowledged, and readers reach the end."""

from collections.abc import Iterator
from itertools import pairwise

from e2e.sim.checkers.anomaly import Anomaly, events_of
from e2e.sim.history import History, Kind, Span

LONGEST_S = 10.0
"""The longest time without an acknowledgement: twice the timeout of a request."""


def no_progress(history: History) -> Iterator[Anomaly]:
    """In a healthy cluster no record of a partition was acknowledged for `LONGEST_S`, although
    producers wrote to it."""
    for span in history.well:
        acked: dict[str, list[float]] = {one: [] for one in span.partitions}
        for one in events_of(history, Kind.ACKED):
            if one.partition in acked and span.from_s <= one.at_s <= span.to_s:
                acked[one.partition].append(one.at_s)
        for partition, times in sorted(acked.items()):
            gap_s, from_s = _longest_gap(span, times)
            if gap_s >= LONGEST_S and partition not in history.deleted:
                what = f"nothing acknowledged in {gap_s:.1f} s from t={from_s:.1f}"
                yield Anomaly("no-progress", partition, what)


def stuck_reader(history: History) -> Iterator[Anomaly]:
    """A consumer is not at the end of a partition and read nothing since the last healthy time
    span ended."""
    at: dict[tuple[str, str], tuple[float, int]] = {}
    for one in history.events:
        if one.kind in {Kind.READ, Kind.SOUGHT}:
            following = one.offset + (one.kind is Kind.READ)
            at[one.client, one.partition] = one.at_s, following
    for span in history.well[-1:]:
        for (client, partition), (since_s, position) in sorted(at.items()):
            end = history.ends.get(partition, 0)
            is_left_behind = position < end and partition in span.partitions
            if is_left_behind and since_s < span.to_s and partition not in history.deleted:
                what = f"{client} is at {position} of {end} since t={since_s:.1f}"
                yield Anomaly("stuck-reader", partition, what)


def _longest_gap(span: Span, times: list[float]) -> tuple[float, float]:
    """The longest time in the span without any of `times`: (its length, its beginning), in s."""
    edges = [span.from_s, *times, span.to_s]
    return max((after - before, before) for before, after in pairwise(edges))
