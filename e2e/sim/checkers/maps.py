"""What no PartitionMap may do: go back, drop in-sync replicas below the floor, share an epoch."""

from collections.abc import Iterator

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import Decision, History


def isr_below_floor(history: History) -> Iterator[Anomaly]:
    """R4: never fewer in-sync replicas than min ISR by a decision, if there were as many.

    What the replicas' own reports say is adopted as it is (R6).
    """
    for one in _decided(history):
        floor = min(one.after.min_isr, len(one.before.isr))
        if len(one.after.isr) < floor:
            what = f"{one.before.isr} became {one.after.isr}, t={one.at_s:.3f}"
            yield Anomaly("isr-below-floor", one.partition, what)


def epoch_back(history: History) -> Iterator[Anomaly]:
    """An epoch that is lower than it was, or another leader in the same leader epoch (R2)."""
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
    return (one for one in history.decisions if not one.before.is_asking)
