"""The table at the end of a run: totals of all seeds, faults, the roles they hit, anomalies."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from e2e.sim.roles import ROLES
from e2e.sim.seed import Result

WIDE: Final = 26
"""Width of the first column, in characters."""


def table(done: Iterable[Result]) -> str:
    """The table of all seeds together."""
    all_ = list(done)
    faults: Counter[str] = Counter()
    hits: Counter[tuple[str, str]] = Counter()
    anomalies: Counter[str] = Counter()
    for one in all_:
        faults.update(one.faults)
        hits.update(one.hits)
        anomalies.update(anomaly.name for anomaly in one.anomalies)
    numbers = {
        "seeds": f"{len(all_)}",
        "of one replica": f"{sum(one.replicas == 1 for one in all_)}",
        "simulated hours": f"{sum(one.simulated_s for one in all_) / 3600:.2f}",
        "processor seconds": f"{sum(one.processor_s for one in all_):.1f}",
        "records acknowledged": f"{sum(one.acked for one in all_)}",
        "records read": f"{sum(one.read for one in all_)}",
        "of them from followers": f"{sum(one.read_from_followers for one in all_)}",
        "rebalances": f"{sum(one.rebalances for one in all_)}",
        "commits acknowledged": f"{sum(one.commits for one in all_)}",
        "transactions committed": f"{sum(one.transactions for one in all_)}",
        "transactions aborted": f"{sum(one.aborted for one in all_)}",
        "producers fenced": f"{sum(one.fenced for one in all_)}",
        "moves of coordinators": f"{sum(one.coordinator_moves for one in all_)}",
        "faults": f"{sum(faults.values())}",
        "anomalies": f"{sum(anomalies.values())}",
    }
    rows = ["", *(f"{name:{WIDE}s}{value:>10s}" for name, value in numbers.items())]
    rows += [f"  {name:{WIDE - 2}s}{count:10d}" for name, count in sorted(anomalies.items())]
    return "\n".join([*rows, "", *_by_role(faults, hits)])


def _by_role(faults: Mapping[str, int], hits: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """A row for each fault: how often it happened, and how often it hit a process of each role."""
    yield f"{'fault':{WIDE}s}{'times':>10s}" + "".join(f"{role:>17s}" for role in ROLES)
    for name, count in sorted(faults.items()):
        cells = (hits.get((name, role), 0) for role in ROLES)
        shown = "".join(f"{cell or '':>17}" for cell in cells)
        yield f"{name:{WIDE}s}{count:10d}{shown}".rstrip()
