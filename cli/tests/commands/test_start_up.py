"""The program as a process: how it starts, and how it ends in a pipe."""

import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from chiplog_cli.target import ENVIRONMENT
from e2e import measured
from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog

PROGRAM = (sys.executable, "-m", "chiplog_cli")
HEAVY = ("aiohttp", "asyncio", "confluent_kafka", "rich", "yaml", "chiplog_kube")
TIMES = 5
LIMIT_S = 60


class Start(NamedTuple):
    """How long a start took, and how long a processor worked for it."""

    wall_s: float
    cpu_s: float

    def __str__(self) -> str:
        return f"{self.wall_s:.2f} s, {self.cpu_s:.2f} s of them CPU"


def start(*arguments: str, bootstrap: str) -> Start:
    """The quickest of several starts: what else the machine does is no property of ours."""
    return min(one_start(*arguments, bootstrap=bootstrap) for _ in range(TIMES))


def one_start(*arguments: str, bootstrap: str) -> Start:
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(
        [*PROGRAM, *arguments],
        env={**os.environ, ENVIRONMENT: bootstrap},
        capture_output=True,
        timeout=LIMIT_S,
        check=True,
    )
    ended_s, after = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stderr == b""
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Start(ended_s - began_s, cpu_s)


def test_start_up(broker: StandaloneBroker) -> None:
    """Printed, not judged: a busy machine proves nothing."""
    helped = start("--help", bootstrap=broker.bootstrap)
    listed = start("topics", "list", bootstrap=broker.bootstrap)
    measured.note(f"chiplog --help: {helped} (limit 0.3 s), quickest of {TIMES}")
    measured.note(f"chiplog topics list: {listed} (limit 0.6 s), quickest of {TIMES}")


def test_help_imports_nothing_that_takes_long() -> None:
    """What start-up time depends on, without a clock."""
    code = (
        "import sys\n"
        "from chiplog_cli.main import app\n"
        "try: app(['topics', '--help'], prog_name='chiplog')\n"
        f"finally: print(*(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert "Usage: chiplog topics" in done.stdout
    assert "\x1b" not in done.stdout
    assert done.stderr.strip() == ""


def test_a_pipe_that_is_closed(broker: StandaloneBroker, topic: Callable[..., str]) -> None:
    name = topic(50)
    with subprocess.Popen(
        [*PROGRAM, "topics", "describe", name, "--bootstrap-server", broker.bootstrap],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(LIMIT_S) in (0, 1)


def test_ctrl_c_ends_it_without_a_word(
    broker: StandaloneBroker, topic: Callable[..., str], chiplog: Chiplog
) -> None:
    name = topic()
    chiplog("produce", name, stdin="a\n")
    with subprocess.Popen(
        [*PROGRAM, "consume", name, "--from-beginning", f"--bootstrap-server={broker.bootstrap}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == b"Partition:0\tOffset:0\tnull\ta\n"
        child.send_signal(signal.SIGINT)
        assert child.wait(LIMIT_S) == 128 + signal.SIGINT
        assert child.stderr.read() == b""


def test_the_programs_that_are_installed() -> None:
    """kubectl finds `kubectl chiplog` as an executable of the name kubectl-chiplog."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    scripts = project["scripts"]
    assert scripts["chiplog"] == scripts["kubectl-chiplog"] == "chiplog_cli.main:main"


def test_completion() -> None:
    done = subprocess.run(
        [*PROGRAM],
        env={
            **os.environ,
            "_CHIPLOG_COMPLETE": "complete_bash",
            "COMP_WORDS": "chiplog topics d",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout.split() == ["describe", "delete"]
