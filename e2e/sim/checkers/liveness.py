"""Progress while the cluster is healthy: records are acknowledged, and readers reach the end."""

from collections.abc import Iterator
from itertools import pairwise

from e2e.sim.checkers.anomaly import Anomaly, events_of
from e2e.sim.history import History, Kind, Span

LONGEST_S = 10.0
"""The longest time without an acknowledgement: twice the timeout of a request."""


def no_progress(history: History) -> Iterator[Anomaly]:
    """In a healthy cluster no record of a partition was acknowledged for `LONGEST_S`, although
    producers wrote to it.

    Connections that hang since a fault stay so until a client gives them up, one after the other:
    also those to a machine that lost its power, although it is back, and those that never opened.
    The time until then does not count for partitions to which that client has a record to send.
    """
    for span in history.well:
        signs: dict[str, list[float]] = {one: [] for one in span.partitions}
        for one in events_of(history, Kind.ACKED):
            if one.partition in signs and span.from_s <= one.at_s <= span.to_s:
                signs[one.partition].append(one.at_s)
        for client, at_s in history.gave_up_hanging:
            if span.from_s <= at_s <= span.to_s:
                for partition in _unacknowledged(history, client, at_s) & signs.keys():
                    signs[partition].append(at_s)
        for partition, times in sorted(signs.items()):
            gap_s, from_s = _longest_gap(span, sorted(times))
            if gap_s >= LONGEST_S and partition not in history.deleted:
                what = f"nothing acknowledged in {gap_s:.1f} s from t={from_s:.1f}"
                yield Anomaly("no-progress", partition, what)


def _unacknowledged(history: History, client: str, at_s: float) -> set[str]:
    """The partitions of the records that the client had sent at this time without an answer."""
    of_value: dict[str, str] = {}
    for one in history.events:
        if one.client != client or one.at_s > at_s:
            continue
        if one.kind is Kind.SENT:
            of_value[one.value] = one.partition
        elif one.kind is Kind.ACKED:
            of_value.pop(one.value, None)
    return set(of_value.values())


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
