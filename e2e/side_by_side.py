"""Tests that need no cluster run beside those that do, which one process runs one by one.

xdist has groups for this, but it writes them into names that pytest 9.1 and later do not read.
"""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# Where tests share nothing with the cluster. There is one cluster, so whatever is not
# here is taken to need it.
WITHOUT_CLUSTER: Final = (
    "charts/",
    "e2e/bench/",
    "e2e/clients/",
    "e2e/kafka/",
    "e2e/hostile/",
    "e2e/loopback/",
    "e2e/release/",
    "e2e/chaos/tests/test_damages.py",
    "e2e/chaos/tests/test_power_cut.py",
    "spark-jobs/",
    "e2e/cluster/tests/test_agent_unit.py",
    "e2e/cluster/tests/test_spark_runner.py",
    "e2e/spark/tests/test_stock_",
    *(f"e2e/sim/tests/test_{name}.py" for name in ("groups", "mutants", "reached", "seeds")),
)


class SideBySide(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Hands out two lots of tests: one to each of two processes."""

    def _split_scope(self, nodeid: str) -> str:
        return lot_of(nodeid)


def lot_of(nodeid: str) -> str:
    """The tests that one process has to run one after another."""
    return "without a cluster" if nodeid.startswith(WITHOUT_CLUSTER) else "cluster"
