"""Standalone brokers that are forked from a process which has imported their code.

The imports are most of a broker's start, and these tests start a broker for each test.
"""

import multiprocessing
import os
import signal
import sys
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from e2e.clients.standalone import StandaloneBroker
from e2e.kafka.process import STOP_LIMIT_S

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["chiplog_broker.main", "uvloop"])


class ForkedBroker(StandaloneBroker):
    """As `StandaloneBroker`, without another start of Python."""

    process: ForkServerProcess | None = None

    def launch(self) -> None:
        self.prepare()
        _, _, _, *arguments = self.command()
        self.process = FORKS.Process(target=run_broker, args=(arguments, self.output), daemon=True)
        self.process.start()

    def exit_status(self) -> int | None:
        return None if self.process is None else self.process.exitcode

    def _end(self, sig: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is not None and process.pid is not None:
            if process.exitcode is None:
                os.kill(process.pid, sig)
            process.join(STOP_LIMIT_S)
            process.kill()
            process.join()


def run_broker(arguments: list[str], output: Path) -> None:
    """What the forked process does."""
    with output.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["chiplog-broker", *arguments]
    from chiplog_broker.main import main  # noqa: PLC0415 - already imported where it is forked

    main()
