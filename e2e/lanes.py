"""`make e2e`: one lane of the end-to-end tests, or all of them.

A lane is a pytest marker. Lanes of features that are not built yet are listed in `PLANNED`, so that
`LANE=log` prints "has no tests yet" and not "0 tests".
"""

import os
import sys
from collections.abc import Iterable
from typing import TypeVar

from e2e.cluster import tools
from e2e.cluster.console import Refused

T = TypeVar("T")

# Lane -> what it shows. `make test` runs them all, `make check` none.
LANES = {
    "change": "replicas move under load: by number, with more and fewer brokers, by Kafka's tool",
    "clients": "client libraries and Kafka's tools with a broker by itself; of them a user's first"
    " hour on Kubernetes, too",
    "cluster": "the local Kubernetes and the custom resources",
    "compat": "Kafka's own integration tests: some of them; `make compat` runs all",
    "dist": "a release is built, and installed in an empty virtual environment",
    "lifecycle": "the local Kubernetes started, killed and stopped (a part of cluster)",
    "main": "operator and brokers on Kubernetes: topics applied, records produced and consumed",
    "platform": "charts through their life, GitOps, policies, Prometheus and its alerts",
    "security": "users with certificates and passwords, what they may do, where secrets stand",
    "sim": "simulated clusters, those that failed once, planted bugs, what they all reach",
    "spark": "Spark jobs on data of real brokers; by themselves, and in their image on Kubernetes",
    "transactions": "transactions by client libraries and Kafka's own programs, brokers killed",
}
PLANNED = ("log", "repartition")
# Lanes whose tools are made before pytest starts: on a new machine that takes longer than a test
# may. "" is all lanes.
NEED_TOOLS = ("", "change", "cluster", "main", "platform", "security")
ALL = (
    "change or clients or cluster or compat or dist or main or platform or security or sim or spark"
    " or transactions"
)
# Directories with tests of these lanes; some lie in a component's own directory.
DIRECTORIES = ("charts", "e2e", "spark-jobs")
# Environment variables that FULL=1 sets where they are not set; tests also read FULL itself.
LONG_FORM = {"CRASHES": "20", "POWER_CUTS": "50", "COPY_AGE_S": "3600"}


def refusal(lane: str) -> str:
    """One line that says why `lane` cannot be run; empty where it can. Lane "" means all lanes."""
    if not lane or lane in LANES:
        return ""
    reason = "has no tests yet" if lane in PLANNED else "is unknown"
    return f"e2e: LANE={lane} {reason}; the lanes there are: {', '.join(LANES)}"


def main() -> None:
    """Replace this process by pytest, whose exit status is then the command's.

    Exits with status 2 where LANE names no lane that can be run.
    """
    lane = os.environ.get("LANE", "")
    if why_not := refusal(lane):
        print(why_not)
        sys.exit(2)
    if lane in NEED_TOOLS and "--collect-only" not in sys.argv:
        make_tools()
    if is_full():
        for name, value in LONG_FORM.items():
            os.environ.setdefault(name, value)
    arguments = [*DIRECTORIES, *arguments_for(lane, is_full()), *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])  # noqa: S606


def make_tools() -> None:
    """Build or download the tools that tests use.

    A tool that cannot be made here is only reported: the tests that use it then fail.
    """
    try:
        tools.make_all()
    except Refused as refused:
        print(refused)


def arguments_for(lane: str, full: bool) -> tuple[str, ...]:
    """Arguments for pytest: the marker expression, and how tests are distributed.

    All lanes ("") run in two processes: one for tests with a cluster, which mostly wait, and one
    for the others. `full` tests measure, so they run one by one, with their output shown (`-s`).
    """
    if full:
        return ("-m", lane or ALL, "-s")
    if lane:
        return ("-m", lane)
    return ("-m", ALL, "--numprocesses=2", "--dist=loadscope")


def is_full() -> bool:
    """Whether FULL=1 asks for the long forms."""
    return os.environ.get("FULL", "") not in {"", "0"}


def sample(items: Iterable[T], every: int) -> list[T]:
    """All items for the long form; for the short form the first of each `every` items."""
    return list(items)[:: 1 if is_full() else every]


if __name__ == "__main__":
    main()
