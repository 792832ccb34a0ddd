"""An anomaly, which checkers report, and views of a history that several checkers use."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from e2e.sim.history import Event, History, Kind


class Anomaly(NamedTuple):
    """A violation of a guarantee: its name, the partition or group, and a description."""

    name: str
    partition: str
    what: str


Checker = Callable[[History], Iterator[Anomaly]]


def events_of(history: History, kind: Kind) -> Iterator[Event]:
    """The events of one kind, in their order."""
    return (one for one in history.events if one.kind is kind)


def all_reads(history: History) -> Iterator[tuple[str, int, str, str]]:
    """(partition, offset, value, reader) of each record read, those of the final read last."""
    for one in events_of(history, Kind.READ):
        yield one.partition, one.offset, one.value, one.client
    for partition, stored in sorted(history.final.items()):
        for offset, value in stored:
            yield partition, offset, value, "the last reader"


def all_places(history: History) -> Iterator[tuple[str, int, str, str]]:
    """(partition, offset, value, source) of each record whose offset is known.

    The source is a reader, a producer's acknowledgement, or the disk of an in-sync replica.
    """
    for one in events_of(history, Kind.ACKED):
        if one.offset >= 0:
            yield one.partition, one.offset, one.value, f"{one.client}'s acknowledgement"
    yield from all_reads(history)
    for replica in history.replicas:
        if not replica.is_in_sync:
            continue  # its last records may be unacknowledged ones of an earlier leader epoch
        end, who = history.ends.get(replica.partition, 0), f"the disk of {replica.broker_id}"
        for batch in replica.batches:
            if batch.last_offset < end:
                for offset, value in batch.values:
                    yield replica.partition, offset, value, who
