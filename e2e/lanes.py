"""`make e2e`: one lane of the end-to-end tests, or all of them.

A lane is a pytest marker. The lanes of what is not built yet are known by name, so that asking
for one is answered with the reason and not with "0 tests".
"""

import os
import sys

from e2e.cluster import tools
from e2e.cluster.console import Refused

# Lane -> what it shows. `make test` runs them all, `make check` none.
LANES = {
    "clients": "client libraries and Kafka's tools with a broker by itself; of them a user's first"
    " hour on Kubernetes, too",
    "cluster": "the local Kubernetes and the custom resources",
    "dist": "a release is built, and installed in an empty virtual environment",
    "lifecycle": "the local Kubernetes started, killed and stopped (a part of cluster)",
    "main": "operator and brokers on Kubernetes: topics applied, records produced and consumed",
    "platform": "charts through their life, GitOps, policies, Prometheus and its alerts, secrets",
    "sim": "100 simulated clusters, those that failed once, planted bugs, what they all reach",
    "spark": "Spark jobs on data of real brokers; by themselves, and in their image on Kubernetes",
}
PLANNED = ("change", "log", "repartition")
# A new machine builds these for minutes: before the tests, whose time is limited.
NEED_TOOLS = ("", "cluster", "main", "platform")
ALL = "clients or cluster or dist or main or platform or sim or spark"
# Unit tests live beside what they test, also those that need a JVM, helm or promtool.
DIRECTORIES = ("charts", "e2e", "spark-jobs")
# What the long form of a lane is made of, beside FULL itself, which tests read.
LONG_FORM = {"CRASHES": "20", "POWER_CUTS": "50", "COPY_AGE_S": "3600"}


def refusal(lane: str) -> str:
    """Why there is no such lane, in one line; empty where there is."""
    if not lane or lane in LANES:
        return ""
    reason = "has no tests yet" if lane in PLANNED else "is unknown"
    return f"e2e: LANE={lane} {reason}; the lanes there are: {', '.join(LANES)}"


def main() -> None:
    """Become pytest, so that its closing line and its exit status are the command's."""
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
    """Make the tools that tests use; what cannot be made here fails the tests that use it."""
    try:
        tools.make_all()
    except Refused as refused:
        print(refused)


def arguments_for(lane: str, full: bool) -> tuple[str, ...]:
    """What pytest is given. All lanes: those with a cluster, which mostly wait, beside the others.

    The long forms measure, so they have the machine for themselves, and show what they do.
    """
    if full:
        return ("-m", lane or ALL, "-s")
    if lane:
        return ("-m", lane)
    return ("-m", ALL, "--numprocesses=2", "--dist=loadscope")


def is_full() -> bool:
    """Whether FULL=1 asks for the long forms."""
    return os.environ.get("FULL", "") not in {"", "0"}


if __name__ == "__main__":
    main()
