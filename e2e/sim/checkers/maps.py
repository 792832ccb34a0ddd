"""Changes that no PartitionMap may make: lower an epoch, shrink an ISR below min ISR, or change
the leader within a leader epoch."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import Decision, History


def isr_below_floor(history: History) -> Iterator[Anomaly]:
    """The operator shrank an ISR below `min.insync.replicas`, or shrank one that was below.

    Changes after a wait for the replicas' reports do not count: the ISR in the reports is adopted
    as it is.
    """
    for one in _decided(history):
        floor = min(one.after.min_isr, len(one.before.isr))
        if len(one.after.isr) < floor:
            what = f"{one.before.isr} became {one.after.isr}, t={one.at_s:.3f}"
            yield Anomaly("isr-below-floor", one.partition, what)


def epoch_back(history: History) -> Iterator[Anomaly]:
    """An epoch decreased, or the leader changed without a new leader epoch."""
    for one in _decided(history):
        before, after = one.before, one.after
        epochs = f"{before.leader} at {before.leader_epoch}, then {after.leader} at"
        if after.partition_epoch < before.partition_epoch or after.leader_epoch < (
            before.leader_epoch
        ):
            what = f"{epochs} {after.leader_epoch}, t={one.at_s:.3f}"
            yield Anomaly("epoch-back", one.partition, what)
        elif after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            what = f"{epochs} the same epoch {after.leader_epoch}, t={one.at_s:.3f}"
            yield Anomaly("epoch-back", one.partition, what)


def _decided(history: History) -> Iterator[Decision]:
    """The changes of entries, without those that followed a wait for the replicas' reports."""
    return (one for one in history.decisions if not one.before.is_asking)
