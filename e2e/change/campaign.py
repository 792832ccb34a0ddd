"""Changes a cluster under load, and prints what the clients noticed of each change."""

import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.table import Table

from e2e.change.changes import Change
from e2e.change.gaps import GAP_LIMIT_S
from e2e.change.moved import wait_quiesced
from e2e.chaos.ledger import Ledger
from e2e.chaos.producers import LibrdkafkaProducer
from e2e.chaos.run import SETTLE_S, Result, judged_scene
from e2e.chaos.scene import Scene, check_effect
from e2e.chaos.workload import Workload
from e2e.cluster import containers, processes
from e2e.main.operator import Operator
from e2e.main.replicas import wait_in_sync

QUIET_S = 5.0
# The change has begun by then, and is not complete.
KILL_WITHIN_S = 4.0


@dataclass(frozen=True, slots=True)
class Noticed:
    """What the clients noticed of a change."""

    name: str
    took_s: float
    gap_s: float
    """The longest time between two acknowledgements in any one partition."""
    p99_ms: float
    """Of the produce requests of librdkafka, from sending to the acknowledgement."""
    gap_limit_s: float | None = GAP_LIMIT_S
    """None if the operator was killed: nobody elects leaders until its standby takes over."""

    @property
    def line(self) -> str:
        limit = "no limit" if self.gap_limit_s is None else f"limit {self.gap_limit_s:.0f} s"
        return (
            f"{self.name}: {self.took_s:.1f} s, longest gap {self.gap_s:.2f} s ({limit}), "
            f"produce p99 {self.p99_ms:.0f} ms"
        )


@dataclass(frozen=True, slots=True)
class Campaign:
    """The verdict of the checkers over the whole run, and the figures of each change."""

    result: Result
    quiet: Noticed
    """The figures of a time without any change."""
    changes: tuple[Noticed, ...]


def run_changes(
    scene: Scene,
    changes: Sequence[Change],
    directory: Path,
    records_per_s: float,
    chance: random.Random | None = None,
) -> Campaign:
    """Make the changes one after the other while three producers send `records_per_s` together.

    With `chance`, the active operator is killed at a random moment of each.
    """
    found: list[Noticed] = []
    each = records_per_s / 3
    with Workload(scene.cluster.bootstrap, scene.topic, directory, records_per_s=each) as load:
        began_s = load.ledger.now_s()
        time.sleep(QUIET_S)
        quiet = noticed("nothing", load.ledger, began_s, QUIET_S)
        for change in changes:
            began_s = load.ledger.now_s()
            after_s = chance.uniform(0, KILL_WITHIN_S) if chance else None
            with killed_after(scene.operator, after_s):
                change.make(scene)
            wait_quiesced(scene.cluster)
            wait_in_sync(scene.cluster)
            took_s = load.ledger.now_s() - began_s
            # What clients notice late belongs to this change, too.
            time.sleep(QUIET_S)
            name = change.name
            if after_s is not None:
                name += f", operator killed after {after_s:.2f} s"
            one = noticed(name, load.ledger, began_s, took_s)
            found.append(one if after_s is None else replace(one, gap_limit_s=None))
        load.all_is_well()
        time.sleep(SETTLE_S)
    name = ", ".join(one.name for one in changes)
    result = judged_scene(name, len(changes), load, scene, directory)
    return Campaign(result, quiet, tuple(found))


def noticed(name: str, ledger: Ledger, began_s: float, took_s: float) -> Noticed:
    """The figures of the part of a run that ends now."""
    latencies_s = ledger.latencies_s(LibrdkafkaProducer.name, began_s)
    p99_s = latencies_s[int(len(latencies_s) * 0.99)] if latencies_s else float("nan")
    gap_s = ledger.unavailable_s(began_s, ledger.now_s())
    return Noticed(name, took_s, gap_s, p99_s * 1000)


@contextmanager
def killed_after(operator: Operator, after_s: float | None) -> Iterator[None]:
    """kill -9 of the active operator's processes `after_s` after the block began; never for None.

    At the end of the block all operator pods are Ready again.
    """
    if after_s is None:
        yield
        return
    targets = containers.in_pod(operator.leader()["metadata"]["uid"])
    check_effect("a process of the active operator", targets)
    timer = threading.Timer(after_s, processes.end, (targets, signal.SIGKILL, 5))
    timer.start()
    try:
        yield
    finally:
        timer.join()
    check_effect("every process of that operator gone", not any(one.alive for one in targets))
    operator.wait_whole()


def table(campaigns: Iterable[Campaign]) -> Table:
    """A row for each change, beside a time without any."""
    drawn = Table(box=SIMPLE_HEAD)
    drawn.add_column("change", no_wrap=True)
    headings = ("seconds", f"gap s (limit {GAP_LIMIT_S:.0f})", "p99 ms", "p99 ms before")
    verdicts = ("anomalies", "given up", "of groups", "of transactions")
    for heading in (*headings, "records/s", *verdicts):
        drawn.add_column(heading, justify="right")
    for one in campaigns:
        result = one.result
        verdict = (
            len(result.anomalies),
            len(result.errors),
            len(result.group_anomalies),
            len(result.transaction_anomalies),
        )
        for change in one.changes:
            drawn.add_row(
                change.name,
                f"{change.took_s:.1f}",
                f"{change.gap_s:.2f}",
                f"{change.p99_ms:.0f}",
                f"{one.quiet.p99_ms:.0f}",
                f"{result.records_per_s:.0f}",
                *map(str, verdict),
            )
    return drawn
