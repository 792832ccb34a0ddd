"""Runs the tests that need no cluster in one process, and those that need it in a second one.

There is one cluster, so its tests run one by one. xdist's own groups would do this, but it writes
them into test names, which pytest 9.1 and later do not read.
"""

from typing import Final

from xdist.scheduler import LoadScopeScheduling

# Paths whose tests share nothing with the cluster. Every other test is taken to need it.
WITHOUT_CLUSTER: Final = (
    "charts/",
    "e2e/bench/",
    "e2e/clients/",
    "e2e/compat/",
    "e2e/kafka/",
    "e2e/hostile/",
    "e2e/loopback/",
    "e2e/release/",
    "e2e/security/tests/test_matrix.py",
    "e2e/chaos/tests/test_damages.py",
    "e2e/chaos/tests/test_power_cut.py",
    "spark-jobs/",
    "e2e/cluster/tests/test_agent_unit.py",
    "e2e/cluster/tests/test_spark_runner.py",
    "e2e/spark/tests/test_stock_",
    "e2e/transactions/tests/",
    *(
        f"e2e/sim/tests/test_{name}.py"
        for name in ("groups", "mutants", "reached", "seeds", "transactions", "users")
    ),
)


class SideBySide(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """An xdist scheduler that gives each of two processes one of two groups of tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Name of the group that a test belongs to; the tests of a group run one after another."""
    return "without a cluster" if nodeid.startswith(WITHOUT_CLUSTER) else "cluster"
