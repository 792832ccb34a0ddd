"""The table of attacks, beside what each may cost at most."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from e2e.hostile.scene import MIB, POD_BYTES

WAIT_LIMIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack did to others."""

    attack: str
    happened: str
    waits: int
    """How often the client beside it was answered."""
    longest_s: float
    """Its longest wait; infinite where it gave up."""
    peak_bytes: int
    lease: tuple[float, bool] | None
    """The oldest that the Lease was in seconds, and whether it was kept; None: there is none."""

    @property
    def is_within_limits(self) -> bool:
        return (
            self.longest_s <= WAIT_LIMIT_S
            and 0 < self.peak_bytes <= POD_BYTES
            and (self.lease is None or self.lease[1])
        )


def table(outcomes: Sequence[Outcome]) -> Table:
    """A row an attack."""
    found = Table(box=SIMPLE_HEAD, title="What another client notices of an attack")
    found.add_column("attack")
    found.add_column(f"longest wait\n(at most {WAIT_LIMIT_S} s)", justify="right")
    found.add_column("round\ntrips", justify="right")
    found.add_column(f"peak memory\n(at most {POD_BYTES // MIB} MiB)", justify="right")
    found.add_column("Lease kept\n(oldest)", justify="right")
    found.add_column("what happened")
    for one in outcomes:
        found.add_row(
            escape(one.attack),
            marked(f"{one.longest_s:.2f} s", good=one.longest_s <= WAIT_LIMIT_S),
            str(one.waits),
            marked(f"{one.peak_bytes / MIB:.0f} MiB", good=0 < one.peak_bytes <= POD_BYTES),
            lease(one),
            escape(one.happened),
        )
    return found


def lease(one: Outcome) -> str:
    if one.lease is None:
        return "-"
    oldest_s, is_kept = one.lease
    return marked(f"{'yes' if is_kept else 'NO'} ({oldest_s:.1f} s)", good=is_kept)


def marked(text: str, *, good: bool) -> str:
    return f"[{'green' if good else 'bold red'}]{text}[/]"
