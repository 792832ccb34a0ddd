"""Acknowledged records must be stored, refused ones must not, each producer's in order.

A record that was sent without getting an answer may or may not be stored.
"""

from collections import defaultdict
from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly, all_reads, events_of
from e2e.sim.checkers.deletions import Deletions
from e2e.sim.history import Event, History, Kind, SequenceRefused


def lost_write(history: History) -> Iterator[Anomaly]:
    """An acknowledged record is missing in the partition at the end, and no rule deleted it."""
    deletions: Deletions | None = None
    stored = {partition: {value for _, value in all_} for partition, all_ in history.final.items()}
    for one in events_of(history, Kind.ACKED):
        if one.partition not in stored or one.partition in history.deleted:
            continue
        if one.value not in stored[one.partition]:
            deletions = deletions or Deletions(history)
            if not deletions.why_event(one):
                what = f"{one.value} was acknowledged at {one.offset}, t={one.at_s:.3f}"
                yield Anomaly("lost-write", one.partition, what)


def unseen(history: History) -> Iterator[Anomaly]:
    """A partition with acknowledged records could not be read at the end."""
    for partition in sorted({one.partition for one in events_of(history, Kind.ACKED)}):
        if partition not in history.final and partition not in history.deleted:
            yield Anomaly("unseen", partition, "it could not be read after everything healed")


def g1a(history: History) -> Iterator[Anomaly]:
    """A record was read although it was refused with an error that is not retriable.

    G1a is the name of this anomaly, the "aborted read", in Adya's isolation levels.
    """
    failed = {(one.partition, one.value) for one in events_of(history, Kind.FAILED)}
    for partition, offset, value, who in all_reads(history):
        if (partition, value) in failed:
            yield Anomaly("G1a", partition, f"{who} read {value}, refused, at {offset}")


def nonmonotonic_send(history: History) -> Iterator[Anomaly]:
    """Of two acknowledged records of a producer, the one sent later has the lower offset.

    The order of sending counts, not that of acknowledgements: a batch whose answer was lost is
    acknowledged after later ones.
    """
    if not history.was_idempotent:
        return
    send_order = {
        (one.client, one.partition, one.value): number
        for number, one in enumerate(events_of(history, Kind.SENT))
    }
    acknowledged = [one for one in events_of(history, Kind.ACKED) if one.offset >= 0]
    acknowledged.sort(key=lambda one: send_order.get((one.client, one.partition, one.value), -1))
    furthest: dict[tuple[str, str], Event] = {}
    for one in acknowledged:
        before = furthest.get((one.client, one.partition))
        if before is not None and one.offset <= before.offset:
            what = f"{one.value} at {one.offset} after {before.value} at {before.offset}"
            yield Anomaly("nonmonotonic-send", one.partition, what)
        else:
            furthest[one.client, one.partition] = one


def reordered(history: History) -> Iterator[Anomaly]:
    """In the final log, a producer's records are not in the order in which it sent them."""
    sent_as: dict[tuple[str, str], tuple[str, int]] = {}
    for number, one in enumerate(events_of(history, Kind.SENT)):
        sent_as.setdefault((one.partition, one.value), (one.client, number))
    for partition, stored in sorted(history.final.items()):
        last: dict[str, int] = defaultdict(lambda: -1)
        for offset, value in stored:
            client, number = sent_as.get((partition, value), ("", -1))
            if client and number < last[client]:
                yield Anomaly("reordered", partition, f"{value} at {offset} is out of order")
            last[client] = max(last[client], number)


def sequence_refused(history: History) -> Iterator[Anomaly]:
    """An idempotent producer got OUT_OF_ORDER_SEQUENCE_NUMBER although all its earlier batches
    were acknowledged.

    It is correct from a broker that was no longer the leader at the time of the request, because
    it does not know what the next leader acknowledged. A producer with old metadata may ask it,
    also with Kafka, where Java's producer continues with a new epoch.
    """
    for one in history.sequences_refused:
        if _last_leader(history, one) in {None, one.broker_id}:
            what = f"{one.client} got {one.error} for {one.value}, t={one.at_s:.3f}"
            yield Anomaly("client-problem", one.partition, what)


def _last_leader(history: History, refused: SequenceRefused) -> int | None:
    """Id of the leader in the PartitionMap when the request was sent; None if it never had one."""
    named = [
        one.after.leader
        for one in history.decisions
        if one.partition == refused.partition and one.at_s <= refused.asked_s and one.after.leader
    ]
    return int(named[-1].partition("@")[0]) if named else None
