"""Moves of replicas: each step comes when it may, and data is deleted then and not before."""

from collections.abc import Iterator
from math import inf
from typing import Final

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import Decision, History, Leadership
from e2e.sim.move_history import StillThere

LATE_S: Final = 5.0
"""A write that was decided before a broker began to leave may arrive so much later."""


def broken_entry(history: History) -> Iterator[Anomaly]:
    """An entry of a map is not sound: leader ∈ ISR ⊆ replicas, no broker twice, no replica that is
    also a leftover."""
    for one in history.decisions:
        for what in _defects(one.after):
            yield Anomaly("broken-entry", one.partition, f"{what}: {one.after}, t={one.at_s:.3f}")


def _defects(entry: Leadership) -> Iterator[str]:
    if entry.leader and entry.leader not in entry.isr:
        yield "the leader is not in the ISR"
    if not set(entry.in_sync) <= set(entry.replicas):
        yield "the ISR has a broker without a replica"
    if len(set(entry.in_sync)) < len(entry.isr) or len(set(entry.replicas)) < len(entry.replicas):
        yield "a broker is named twice"
    if {broker for broker, _ in entry.leftovers} & set(entry.replicas):
        yield "a replica is also a leftover"


def switched_early(history: History) -> Iterator[Anomaly]:
    """A partition lost a replica by a reassignment before all those that stay were in sync.

    Replicas that the same reassignment was adding may go at any time: it was cancelled.
    """
    for one in _judged(history):
        lost = set(one.before.replicas) - {*one.after.replicas, *one.before.adding}
        if lost and set(one.after.in_sync) != set(one.after.replicas):
            what = f"{sorted(lost)} went: {one.before} became {one.after}, t={one.at_s:.3f}"
            yield Anomaly("switched-early", one.partition, what)


def holder_forgotten(history: History) -> Iterator[Anomaly]:
    """A map names a broker no longer that may have data, or forgot it before it was deleted."""
    for one in history.decisions:
        if lost := one.before.holders - one.after.holders - one.before.removable:
            what = f"{sorted(lost)} are forgotten: {one.before} became {one.after}"
            yield Anomaly("holder-forgotten", one.partition, f"{what}, t={one.at_s:.3f}")
    for gone in history.moves.forgotten:
        what = f"broker {gone.broker_id} still has the data, t={gone.at_s:.3f}"
        yield Anomaly("holder-forgotten", gone.partition, what)


def released_early(history: History) -> Iterator[Anomaly]:
    """Data of removed replicas was given up although some present replica was not in sync, or did
    not know yet that they are removed: after a loss of the newer maps it could look for them."""
    for one in _judged(history):
        is_release = bool(one.after.removable - one.before.removable)
        if is_release and set(one.after.in_sync) != set(one.after.replicas):
            what = f"not all are in sync: {one.after}, t={one.at_s:.3f}"
            yield Anomaly("released-early", one.partition, what)
    for member in history.moves.released:
        if member.known_epoch < member.leader_epoch:
            what = (
                f"{member.broker_id} knew epoch {member.known_epoch} of {member.leader_epoch}, "
                f"t={member.at_s:.3f}"
            )
            yield Anomaly("released-early", member.partition, what)


def deleted_early(history: History) -> Iterator[Anomaly]:
    """A broker deleted a replica that no map had given up, or that it had been given again."""
    for one in history.moves.deletions:
        if not one.was_ordered or one.is_replica:
            why = "without an order" if not one.was_ordered else "which it has been given again"
            what = f"broker {one.broker_id} deletes its replica {why}, t={one.at_s:.3f}"
            yield Anomaly("deleted-early", one.partition, what)


def given_to_leaving(history: History) -> Iterator[Anomaly]:
    """A broker that was being removed for some time got a new replica."""
    for one in history.moves.given_to_leaving:
        if one.leaving_s > LATE_S:
            what = f"broker {one.broker_id}, leaving for {one.leaving_s:.1f} s, t={one.at_s:.3f}"
            yield Anomaly("given-to-leaving", one.partition, what)


def leader_to_go(history: History) -> Iterator[Anomaly]:
    """A replica that is to be removed was elected although others could lead."""
    for one in history.moves.leaders_to_go:
        what = f"{one.leader} leads, and {', '.join(one.able)} could, t={one.at_s:.3f}"
        yield Anomaly("leader-to-go", one.partition, what)


def old_move_back(history: History) -> Iterator[Anomaly]:
    """After a restore of etcd the operator went on with an older reassignment than brokers knew."""
    for one in history.moves.adopted:
        if set(one.target) != set(one.known_target):
            what = f"{one.target} although a broker knew {one.known_target}, t={one.at_s:.3f}"
            yield Anomaly("old-move-back", one.partition, what)


def leaked(history: History) -> Iterator[Anomaly]:
    """At the end of a run in which the cluster recovered, a broker has data of a partition that has
    no replica there.

    An exception is a broker that was down when all maps were lost that gave it the data, until the
    partition was settled without it (decision 56). It holds until a map names the broker again.
    """
    if not history.well:
        return
    for one in history.moves.leaked:
        if not _was_unasked(history, one):
            yield Anomaly("leaked", one.partition, f"broker {one.broker_id} still has data of it")


def _was_unasked(history: History, leaked: StillThere) -> bool:
    """Whether nobody could know that the broker has this data."""
    place = leaked.broker_id, leaked.partition
    unasked_s = [one.at_s for one in history.moves.unasked if one[1:] == place]
    named_s = [
        one.at_s
        for one in history.decisions
        if one.partition == leaked.partition and leaked.broker_id in one.after.holders
    ]
    return max(unasked_s, default=-inf) > max(named_s, default=-inf)


def _judged(history: History) -> Iterator[Decision]:
    """The decisions, without those that adopt what replicas report after a loss of newer maps."""
    return (one for one in history.decisions if not one.before.is_asking)


CHECKERS: Final = (
    broken_entry,
    switched_early,
    holder_forgotten,
    released_early,
    deleted_early,
    given_to_leaving,
    leader_to_go,
    old_move_back,
    leaked,
)
