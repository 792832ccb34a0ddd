"""The negative control: what must be reported when a run's own history is spoiled.

A verdict of "nothing lost" is worth what its checkers see. So each real history is judged once
more with one record lost, one stored twice, and one offset of two values, all planted in it.
"""

from dataclasses import replace

from e2e.sim.checkers import check
from e2e.sim.history import Event, History, Kind

MUST_BE_SEEN = frozenset({"lost-write", "duplicate", "inconsistent-offsets"})


def missed(history: History) -> frozenset[str]:
    """What was planted and is not reported; empty where the checkers see it all."""
    return MUST_BE_SEEN - {one.name for one in check(spoiled(history))}


def spoiled(history: History) -> History:
    """The history with three records of one partition gone wrong. Raises where it has too few."""
    acked = {one.value: one for one in history.events if one.kind is Kind.ACKED}
    for partition, stored in history.final.items():
        promised = [pair for pair in stored if pair[1] in acked]
        if len(promised) >= 3:
            lost, twice, two_valued = promised[0], promised[1], promised[-1]
            kept = [pair for pair in stored if pair != lost]
            again = (history.ends[partition], twice[1])
            return replace(
                history,
                final={**history.final, partition: [*kept, again]},
                events=[*history.events, another_value(acked[two_valued[1]])],
            )
    raise ValueError("no partition has three acknowledged records: nothing can be planted")


def another_value(acked: Event) -> Event:
    """A reader that saw something else at the offset of an acknowledged record."""
    return replace(acked, kind=Kind.READ, client="planted", value=f"not {acked.value}")
