"""Runs the attacks one after another and prints a table of what they did to other clients."""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from e2e.hostile.attacks import OF_REQUESTS, Port, every
from e2e.hostile.beside import Beside
from e2e.hostile.report import Outcome, table
from e2e.hostile.scene import (
    BESIDE,
    Alone,
    Member,
    Scene,
    forget_peak,
    peak_bytes,
)
from e2e.kafka.members import wait_for
from e2e.kafka.process import DIE_WITH_US

SECONDS = 20.0
# How much longer than asked for an attack may take; then its process is killed.
ATTACKER_LIMIT_S = 120.0
NOBODY = "nobody"
"""Name of the measurement without an attack, which comes first as a baseline."""
WIDTH = 150


def main() -> int:
    """Run the chosen attacks; returns the exit status: 1 if any limit was exceeded, otherwise 0."""
    options = arguments()
    known = every()
    chosen = [name for name in known if not options.only or any(o in name for o in options.only)]
    # Output that goes to a file or pipe has no terminal width.
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    alone = [name for name in chosen if options.alone or name in OF_REQUESTS]
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="chiplog-hostile-") as directory:
        for kind, names in ((Alone, alone), (Member, [one for one in chosen if one not in alone])):
            if not names:
                continue
            scene: Alone | Member
            with kind(Path(directory) / kind.__name__) as scene:
                for outcome in attacked(scene, names, options.seconds):
                    outcomes.append(outcome)
                    console.print(f"{outcome.attack}: {outcome.happened}")
    console.print(table(outcomes))
    return 0 if all(one.is_within_limits for one in outcomes) else 1


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="e2e.hostile", description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of attacks' names (all attacks if none)")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="of each attack (%(default)s)"
    )
    parser.add_argument(
        "--alone",
        action="store_true",
        help="attack a standalone broker, which has no Lease, instead of a member of a cluster",
    )
    return parser.parse_args()


def attacked(scene: Scene, chosen: list[str], seconds: float) -> Iterator[Outcome]:
    """Run the chosen attacks for `seconds` each and yield their outcomes.

    The first outcome is a baseline: what the well-behaved client waits without any attack.
    """
    yield measured(scene, NOBODY, seconds / 4)
    for name in chosen:
        yield measured(scene, name, seconds)


def measured(scene: Scene, name: str, seconds: float) -> Outcome:
    """Run one attack, with the well-behaved client beside it, and return what was measured.

    `longest_s` is infinite if that client failed or the broker ended.
    """
    pid = scene.pid
    assert pid is not None, "the broker has ended"
    forget_peak(pid)
    watch = scene.watch()
    beside = Beside(scene.address(Port.CLIENTS), BESIDE, scene.partition)
    failure = ""
    try:
        with watch or nullcontext(), beside:
            wait_for("the client beside has begun", lambda: beside.is_under_way)
            happened = attack(scene, name, seconds)
    except TimeoutError as failed:
        happened, failure = "", str(failed)
    has_ended = scene.pid != pid
    return Outcome(
        attack=name,
        happened="the broker ended" if has_ended else failure or happened,
        waits=len(beside.record_s),
        longest_s=float("inf") if failure or has_ended else beside.longest_s,
        peak_bytes=0 if has_ended else peak_bytes(pid),
        lease=None if watch is None else (watch.oldest_s, watch.is_kept),
    )


def attack(scene: Scene, name: str, seconds: float) -> str:
    """Run the attack and return what happened, in a few words.

    It runs in its own process: in this one, its CPU time would slow the well-behaved client down.
    """
    if name == NOBODY:
        subprocess.run(["sleep", str(seconds)], check=True)
        return "nothing"
    port, _ = every()[name]
    host, number = scene.address(port)
    command = [sys.executable, "-m", "e2e.hostile.attacker", name, host, str(number), str(seconds)]
    ended = subprocess.run(
        [*DIE_WITH_US, *command],
        capture_output=True,
        text=True,
        timeout=seconds + ATTACKER_LIMIT_S,
        check=False,
    )
    if ended.returncode:
        return f"the attacker failed: {(ended.stderr.strip().splitlines() or ['?'])[-1]}"
    return ended.stdout.strip()
