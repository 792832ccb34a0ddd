"""Finds the processes of pods on this machine, to measure and to kill them.

Inside a pod nobody can SIGKILL its first process (pid 1); from the machine it is possible.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from e2e.cluster import processes
from e2e.cluster.processes import Process
from e2e.cluster.usage import Usage, of_process

CGROUPS = Path("/sys/fs/cgroup/pids")
SANDBOX = "/pause"


def in_pod(uid: str) -> list[Process]:
    """Every process of the pod with this uid, except the pause program of its sandbox."""
    found = [process for pid in pids(uid) if (process := processes.process(pid))]
    return [one for one in found if not processes.command_line(one.pid).startswith(SANDBOX)]


def pids(uid: str) -> Iterator[int]:
    """The pids in all cgroups of the pod with this uid."""
    for node in CGROUPS.glob("chiplog-*"):
        # Groups are removed while we read; a glob would fail on that.
        for group, _, _ in os.walk(node):
            if Path(group).parent.name == f"pod{uid}":
                yield from processes.listed(Path(group))


def kill(uid: str) -> int:
    """SIGKILL every process of a pod's containers; returns how many there were."""
    targets = in_pod(uid)
    processes.end(targets, signal.SIGKILL, 5)
    return len(targets)


def usage(uid: str) -> Usage:
    """CPU time and resident memory of all processes of the pod's containers together."""
    return sum((of_process(one.pid) for one in in_pod(uid)), Usage())
