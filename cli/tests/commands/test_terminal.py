"""On a terminal: a bar for what takes long, a live `top`; in a pipe neither."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from e2e.clients.standalone import StandaloneBroker
from tests.commands.program import Chiplog

PROGRAM = (sys.executable, "-m", "chiplog_cli")
LIMIT_S = 60
HIDE_CURSOR = b"\x1b[?25l"
ALTERNATE_SCREEN = b"\x1b[?1049h"


@contextmanager
def on_terminal(
    *arguments: str, stdin: IO[bytes] | None = None, both: bool = True
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[bytes], bytes]]]:
    """The program with standard error, or `both` outputs, on a terminal.

    Beside it a function that reads what is shown until it has some bytes, or until the end.
    """
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        stdin=stdin or subprocess.DEVNULL,
        stdout=theirs if both else subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    ) as child:
        os.close(theirs)
        try:
            yield child, lambda until: read(ours, until)
        finally:
            child.kill()
            os.close(ours)


def read(terminal: int, until: bytes) -> bytes:
    shown, deadline_s = b"", time.monotonic() + LIMIT_S
    readable = select.poll()  # unlike select() it takes descriptors above 1,023
    readable.register(terminal, select.POLLIN)
    while until not in shown and time.monotonic() < deadline_s:
        if readable.poll(100):
            try:
                shown += os.read(terminal, 1 << 16)
            except OSError:  # how Linux says that nobody else has the terminal any more
                break
    return shown


def test_a_bar_on_standard_error_and_the_answer_on_standard_output(
    broker: StandaloneBroker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name, lines = topic(), tmp_path / "lines"
    lines.write_bytes(b"a\n" * 2000)
    given = ("produce", name, "--bootstrap-server", broker.bootstrap)
    with lines.open("rb") as stdin, on_terminal(*given, stdin=stdin, both=False) as (child, until):
        shown = until(b"2000/?")
        assert HIDE_CURSOR in shown
        assert b"2000/?" in shown
        assert child.stdout is not None
        assert child.stdout.read() == f"Produced 2000 records to {name}.\n".encode()
        assert child.wait(LIMIT_S) == 0


def test_no_bar_between_records(
    broker: StandaloneBroker, chiplog: Chiplog, topic: Callable[..., str]
) -> None:
    name = topic()
    chiplog("produce", name, stdin="a\n")
    given = ("consume", name, "--from-beginning", "--max-messages=1")
    with on_terminal(*given, f"--bootstrap-server={broker.bootstrap}") as (child, until):
        assert until(b"the end") == b"Partition:0\tOffset:0\tnull\ta\r\n"
        assert child.wait(LIMIT_S) == 0


def test_top_is_live_until_ctrl_c(broker: StandaloneBroker, topic: Callable[..., str]) -> None:
    name = topic()
    given = ("top", "--interval=100ms", f"--bootstrap-server={broker.bootstrap}")
    with on_terminal(*given) as (child, until):
        shown = until(name.encode())
        assert ALTERNATE_SCREEN in shown
        assert name.encode() in shown
        child.send_signal(signal.SIGINT)
        assert child.wait(LIMIT_S) == 128 + signal.SIGINT
