"""Throttles, placements, Rebalances, drained brokers and rebuilt volumes."""

from collections.abc import Iterator
from typing import Final

from e2e.sim.checkers.anomaly import Anomaly
from e2e.sim.history import History


def throttled_member(history: History) -> Iterator[Anomaly]:
    """A throttle held a member of an ISR back, for which producers wait."""
    for one in history.upkeep.held:
        what = (
            f"{one.broker_id} is at {one.offset} since t={one.since_s:.1f}, and its leader "
            f"{one.leader_id} has more, t={one.at_s:.1f}"
        )
        yield Anomaly("throttled-member", one.partition, what)


def moved_off(history: History) -> Iterator[Anomaly]:
    """A partition that its Topic places was moved to other brokers."""
    for one in history.upkeep.moved_off:
        what = f"placed on {one.placed}, and moves to {one.target}, t={one.at_s:.3f}"
        yield Anomaly("moved-off", one.partition, what)


def not_placed(history: History) -> Iterator[Anomaly]:
    """A new partition is not where it was to be created, or an old one not where it was to be."""
    for one in history.upkeep.not_placed:
        what = f"wanted on {one.wanted}, and is on {one.replicas}, t={one.at_s:.3f}"
        yield Anomaly("not-placed", one.partition, what)


def old_proposal(history: History) -> Iterator[Anomaly]:
    """A Rebalance that was stopped or refreshed still moved a partition."""
    for one in history.upkeep.old_proposals:
        what = (
            f"goes to {one.target} by proposal {one.proposal}, which ended at t={one.ended_s:.1f}, "
            f"t={one.at_s:.3f}"
        )
        yield Anomaly("old-proposal", one.partition, what)


def led_while_drained(history: History) -> Iterator[Anomaly]:
    """A broker that is drained kept a leadership although another one could have it."""
    for one in history.upkeep.led_while_drained:
        able = ", ".join(one.able)
        what = f"{one.broker_id} leads since t={one.since_s:.1f}, and {able} could"
        yield Anomaly("led-while-drained", one.partition, f"{what}, t={one.at_s:.1f}")


def rebuilt_early(history: History) -> Iterator[Anomaly]:
    """The operator replaced a volume although no other member of the ISR had all records."""
    for one in history.upkeep.rebuilt:
        if not any(end >= one.committed_end for _, end in one.others):
            others = ", ".join(f"{member} up to {end}" for member, end in one.others) or "none"
            what = f"{one.committed_end} are committed, and others have: {others}"
            what = f"the volume of {one.broker_id} goes, {what}, t={one.at_s:.3f}"
            yield Anomaly("rebuilt-early", one.partition, what)


CHECKERS: Final = (
    throttled_member,
    moved_off,
    not_placed,
    old_proposal,
    led_while_drained,
    rebuilt_early,
)
