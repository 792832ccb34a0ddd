"""What may never be seen in a history. Names are those of `jepsen/tests/kafka.clj`.

Pure functions: a history in, anomalies out. What a client does not know (a send without an
answer) is neither lost nor failed: it may be there or not.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from e2e.sim.history import Event, History, Kind


class Anomaly(NamedTuple):
    """One thing that should not be."""

    name: str
    partition: str
    what: str


Checker = Callable[[History], Iterator[Anomaly]]


def lost_write(history: History) -> Iterator[Anomaly]:
    """Acknowledged, and not in the partition at the end."""
    stored = {partition: {value for _, value in all_} for partition, all_ in history.final.items()}
    for one in _of(history, Kind.ACKED):
        if one.partition in stored and one.value not in stored[one.partition]:
            what = f"{one.value} was acknowledged at {one.offset}, t={one.at_s:.3f}"
            yield Anomaly("lost-write", one.partition, what)


def unseen(history: History) -> Iterator[Anomaly]:
    """A partition with acknowledged records that could not be read at the end."""
    for partition in sorted({one.partition for one in _of(history, Kind.ACKED)}):
        if partition not in history.final:
            yield Anomaly("unseen", partition, "it could not be read after everything healed")


def inconsistent_offsets(history: History) -> Iterator[Anomaly]:
    """Two values at one offset, across acknowledgements and reads."""
    seen: dict[tuple[str, int], str] = {}
    for partition, offset, value, who in _places(history):
        known = seen.setdefault((partition, offset), value)
        if known != value:
            what = f"offset {offset} is {known} and, to {who}, {value}"
            yield Anomaly("inconsistent-offsets", partition, what)


def duplicate(history: History) -> Iterator[Anomaly]:
    """One value at two offsets, although producers are idempotent."""
    if not history.was_idempotent:
        return
    seen: dict[tuple[str, str], int] = {}
    for partition, offset, value, who in _places(history):
        known = seen.setdefault((partition, value), offset)
        if known != offset:
            what = f"{value} is at {known} and, to {who}, at {offset}"
            yield Anomaly("duplicate", partition, what)


def nonmonotonic_send(history: History) -> Iterator[Anomaly]:
    """What a producer sent later lies earlier."""
    if not history.was_idempotent:
        return
    last: dict[tuple[str, str], Event] = {}
    for one in _of(history, Kind.ACKED):
        before = last.get((one.client, one.partition))
        if before is not None and 0 <= one.offset <= before.offset:
            what = f"{one.value} at {one.offset} after {before.value} at {before.offset}"
            yield Anomaly("nonmonotonic-send", one.partition, what)
        last[one.client, one.partition] = one


def reordered(history: History) -> Iterator[Anomaly]:
    """In the final log, a producer's records are not in the order in which it sent them."""
    sent_as: dict[str, tuple[str, int]] = {}
    for number, one in enumerate(_of(history, Kind.SENT)):
        sent_as.setdefault(one.value, (one.client, number))
    for partition, stored in sorted(history.final.items()):
        last: dict[str, int] = defaultdict(lambda: -1)
        for offset, value in stored:
            client, number = sent_as.get(value, ("", -1))
            if client and number < last[client]:
                yield Anomaly("reordered", partition, f"{value} at {offset} is out of order")
            last[client] = max(last[client], number)


def g1a(history: History) -> Iterator[Anomaly]:
    """Read although it was refused for good."""
    failed = {(one.partition, one.value) for one in _of(history, Kind.FAILED)}
    for partition, offset, value, who in _reads(history):
        if (partition, value) in failed:
            yield Anomaly("G1a", partition, f"{who} read {value}, refused, at {offset}")


def never_sent(history: History) -> Iterator[Anomaly]:
    """Read although nobody sent it there."""
    sent = {(one.partition, one.value) for one in _of(history, Kind.SENT)}
    for partition, offset, value, who in _reads(history):
        if (partition, value) not in sent:
            yield Anomaly("never-sent", partition, f"{who} read {value!r} at {offset}")


def dirty_read(history: History) -> Iterator[Anomaly]:
    """Read, and not there at the end: it was shown before it was safe."""
    for one in _of(history, Kind.READ):
        stored = history.final.get(one.partition)
        if stored is not None and (one.offset, one.value) not in _set(stored):
            what = f"{one.client} read {one.value} at {one.offset}, t={one.at_s:.3f}"
            yield Anomaly("dirty-read", one.partition, what)


def polls(history: History) -> Iterator[Anomaly]:
    """A reader that did not seek skipped offsets or went back (`poll-skip`, `nonmonotonic-poll`).

    Nothing here compacts or deletes, so offsets have no gaps.
    """
    at: dict[tuple[str, str], int] = {}
    for one in history.events:
        key = (one.client, one.partition)
        if one.kind is Kind.SOUGHT:
            at[key] = one.offset
        elif one.kind is Kind.READ:
            expected = at.get(key, one.offset)
            if one.offset != expected:
                name = "poll-skip" if one.offset > expected else "nonmonotonic-poll"
                what = f"{one.client} expected {expected} and read {one.offset}"
                yield Anomaly(name, one.partition, what)
            at[key] = one.offset + 1


CHECKERS: tuple[Checker, ...] = (
    lost_write,
    unseen,
    inconsistent_offsets,
    duplicate,
    nonmonotonic_send,
    reordered,
    g1a,
    never_sent,
    dirty_read,
    polls,
)


def check(history: History) -> list[Anomaly]:
    """Everything that is wrong with it."""
    return [found for checker in CHECKERS for found in checker(history)]


def _of(history: History, kind: Kind) -> Iterator[Event]:
    return (one for one in history.events if one.kind is kind)


_sets: dict[int, tuple[list[tuple[int, str]], set[tuple[int, str]]]] = {}


def _set(stored: list[tuple[int, str]]) -> set[tuple[int, str]]:
    """As a set, made once for each list."""
    known = _sets.get(id(stored))
    if known is None or known[0] is not stored:
        _sets.clear()
        known = _sets[id(stored)] = (stored, set(stored))
    return known[1]


def _reads(history: History) -> Iterator[tuple[str, int, str, str]]:
    for one in _of(history, Kind.READ):
        yield one.partition, one.offset, one.value, one.client
    for partition, stored in sorted(history.final.items()):
        for offset, value in stored:
            yield partition, offset, value, "the last reader"


def _places(history: History) -> Iterator[tuple[str, int, str, str]]:
    for one in _of(history, Kind.ACKED):
        if one.offset >= 0:
            yield one.partition, one.offset, one.value, f"{one.client}'s acknowledgement"
    yield from _reads(history)
