"""The table of attacks: what each did to other clients and the broker, and the limits."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from e2e.hostile.scene import MIB, POD_BYTES

WAIT_LIMIT_S = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack did to the well-behaved client and to the broker."""

    attack: str
    happened: str
    """What the attack itself reports, in a few words."""
    waits: int
    """How many round trips (send a record, read it back) the well-behaved client made."""
    longest_s: float
    """The longest wait of the well-behaved client; infinite if it gave up."""
    peak_bytes: int
    """The most memory that the broker had resident; 0 if the broker ended."""
    lease: tuple[float, bool] | None
    """Greatest age of the broker's Lease in seconds, and whether the broker kept it.

    None on a standalone broker, which has no Lease."""

    @property
    def is_within_limits(self) -> bool:
        """Whether wait, memory and Lease are all within limits."""
        return (
            self.longest_s <= WAIT_LIMIT_S
            and 0 < self.peak_bytes <= POD_BYTES  # 0: the broker ended
            and (self.lease is None or self.lease[1])
        )


def table(outcomes: Sequence[Outcome]) -> Table:
    """One row for each attack; values beyond a limit are bold red."""
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
    """The table cell about the Lease: "yes (1.2 s)", "NO (20.0 s)", or "-" without a Lease."""
    if one.lease is None:
        return "-"
    oldest_s, is_kept = one.lease
    return marked(f"{'yes' if is_kept else 'NO'} ({oldest_s:.1f} s)", good=is_kept)


def marked(text: str, *, good: bool) -> str:
    """The text in rich's markup: green if `good`, bold red otherwise."""
    return f"[{'green' if good else 'bold red'}]{text}[/]"
