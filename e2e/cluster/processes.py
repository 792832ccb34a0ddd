"""Starting, finding and ending the cluster's processes.

A process is named by pid *and* start time, so that a pid used again by the system
is never taken for ours. Every process carries `layout.PROCESS_MARK` in its
environment, which its children inherit: `marked()` finds a cluster whose pid files
are lost, and the shims that containerd started.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import layout

PROC = Path("/proc")
PIDS = layout.RUN / "pids"


@dataclass(frozen=True, slots=True)
class Process:
    """One process, identified by pid and start time: the system uses a pid again later."""

    pid: int
    started_ticks: int
    """Start time in clock ticks since the machine's boot, as in /proc/PID/stat."""

    @property
    def alive(self) -> bool:
        """Whether the process still runs; a zombie does not."""
        return process(self.pid) == self


def process(pid: int) -> Process | None:
    """The process that has `pid` now; None if there is none, or only a zombie."""
    try:
        # The second field is the program's name in parentheses and may hold anything.
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # Fields 3, 20 and 22 in proc(5), which counts from 1; the first two are cut off here.
    state, threads, started_ticks = fields[0], int(fields[17]), int(fields[19])
    # The first thread may have ended before the others, which still write files.
    has_ended = state in {"Z", "X"} and threads <= 1
    return None if has_ended else Process(pid, started_ticks)


def pids() -> Iterable[int]:
    """All pids of the machine."""
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]


def command_line(pid: int) -> str:
    """Program and arguments of a pid, joined by blanks; "" if they cannot be read."""
    try:
        return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def marked() -> list[Process]:
    """Every process with `layout.PROCESS_MARK` in its environment: all of a cluster of any
    checkout."""
    mark = f"{layout.PROCESS_MARK}=".encode()
    found = []
    for pid in pids():
        try:
            environment = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is not ours to read
            continue
        if any(entry.startswith(mark) for entry in environment) and (one := process(pid)):
            found.append(one)
    return found


def in_cgroup(name: str) -> list[Process]:
    """Every process in the cgroup `name` or below it, in any hierarchy."""
    found: dict[int, None] = {}  # used as an ordered set: a pid appears in several hierarchies
    for top in Path("/sys/fs/cgroup").glob(f"*/{name}"):
        # Groups are removed while we read; a glob would fail on that.
        for group, _, _ in os.walk(top):
            found.update(dict.fromkeys(listed(Path(group))))
    return [one for pid in found if (one := process(pid))]


def listed(group: Path) -> list[int]:
    """The pids in one cgroup; none where it was removed."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def listens_on(one: Process, path: Path) -> bool:
    """Whether the process has an open UNIX socket that is bound to `path`."""
    rows = (line.split() for line in (PROC / "net" / "unix").read_text().splitlines()[1:])
    # Column 7, where present, is the path a socket is bound to; column 6 is its inode.
    sockets = {f"socket:[{row[6]}]" for row in rows if row[7:] == [str(path)]}
    try:
        files = list((PROC / str(one.pid) / "fd").iterdir())
    except OSError:
        return False
    for file in files:
        with suppress(OSError):  # closed while we read
            if str(file.readlink()) in sockets:
                return True
    return False


def start(
    name: str, command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> Process:
    """Start a program that continues after this process ends, and record it under `name`.

    Its output is appended to `<name>.log` in `layout.LOGS`.
    """
    layout.LOGS.mkdir(parents=True, exist_ok=True)
    PIDS.mkdir(parents=True, exist_ok=True)
    keep = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
    with (layout.LOGS / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={**keep, **(environment or {}), layout.PROCESS_MARK: name},
            start_new_session=True,
        )
    child.returncode = 0  # we do not wait for it: without this, Popen warns when we end
    started = process(child.pid) or Process(child.pid, 0)
    (PIDS / f"{name}.json").write_text(json.dumps([started.pid, started.started_ticks]))
    return started


def recorded(name: str) -> Process | None:
    """The process last started under `name` if it still runs, else None."""
    try:
        pid, started_ticks = json.loads((PIDS / f"{name}.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    one = Process(pid, started_ticks)
    return one if one.alive else None


def running(name: str, command: Sequence[str | Path]) -> Process:
    """The process recorded under `name` if it still runs, else a new one started with `command`."""
    return recorded(name) or start(name, command)


def end(targets: Iterable[Process], sig: signal.Signals, patience_s: float) -> list[Process]:
    """Send `sig` to each process and wait; returns those that still run after `patience_s`."""
    left = [one for one in targets if one.alive]
    for one in left:
        try:
            os.kill(one.pid, sig)
        except ProcessLookupError:
            continue
    deadline_s = time.monotonic() + patience_s
    while left and time.monotonic() < deadline_s:
        for one in left:
            reap(one.pid)
        left = [one for one in left if one.alive]
        if left:
            time.sleep(0.02)
    return left


@contextmanager
def paused(targets: Sequence[Process]) -> Iterator[None]:
    """Suspend the processes (SIGSTOP) while the block runs; those still alive continue after it."""
    try:
        for one in targets:
            os.kill(one.pid, signal.SIGSTOP)
        yield
    finally:
        for one in targets:
            if one.alive:
                with suppress(ProcessLookupError):  # it has ended since
                    os.kill(one.pid, signal.SIGCONT)


def stop(names: Sequence[str], patience_s: float = 4) -> None:
    """End the processes recorded under `names`: SIGTERM first, SIGKILL after `patience_s`.

    Raises `RuntimeError` if one still runs 10 s after SIGKILL.
    """
    targets = [one for name in names if (one := recorded(name))]
    stubborn = end(targets, signal.SIGTERM, patience_s)
    if left := end(stubborn, signal.SIGKILL, 10):
        pids_left = [one.pid for one in left]
        raise RuntimeError(f"processes still run 10 s after SIGKILL: pids {pids_left}")


def reap(pid: int) -> None:
    """Take a child's exit status, so that it does not stay as a zombie while we run."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return


def log_tail(name: str, lines: int = 15) -> str:
    """The last lines of the log of the process `name`, for error messages."""
    try:
        text = (layout.LOGS / f"{name}.log").read_text(errors="replace")
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])


def wait_until(what: str, ready: Callable[[], bool], limit_s: float, name: str = "") -> None:
    """Poll `ready` until it returns True.

    Raises `TimeoutError` after `limit_s`. If `name` is given, it is the process that is waited
    for: the error is raised as soon as that process has ended, and contains the end of its log.
    `what` says in the message what was waited for.
    """
    deadline_s = time.monotonic() + limit_s
    while not ready():
        died = name and recorded(name) is None
        if died or time.monotonic() > deadline_s:
            why = "its process ended" if died else f"not within {limit_s:.0f} s"
            tail = f"; end of {name}'s log:\n{log_tail(name)}" if name else ""
            raise TimeoutError(f"{what}: {why}{tail}")
        time.sleep(0.05)
