"""What became of throttles, placements, Rebalances, drained brokers and rebuilt volumes."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Held(NamedTuple):
    """A member of an ISR got no records for some time, while a throttle was in force."""

    at_s: float
    partition: str
    broker_id: int
    leader_id: int
    since_s: float
    offset: int
    """Its log end offset all that time, below that of its leader."""


class MovedOff(NamedTuple):
    """A partition that its Topic places got other replicas."""

    at_s: float
    partition: str
    placed: tuple[int, ...]
    """The brokers that `spec.assignments` had named for some time."""
    target: tuple[int, ...]


class NotPlaced(NamedTuple):
    """A partition is not where it was to be: a new one, or any at the end of the run."""

    at_s: float
    partition: str
    wanted: tuple[int, ...]
    replicas: tuple[int, ...]


class OldProposal(NamedTuple):
    """A partition's replicas were set as a Rebalance had proposed that had been stopped or
    refreshed by then."""

    at_s: float
    partition: str
    proposal: str
    ended_s: float
    """When the proposal was no longer to be carried out."""
    target: tuple[int, ...]


class LedWhileDrained(NamedTuple):
    """A drained broker led a partition for long, although another one could have led it."""

    at_s: float
    partition: str
    broker_id: int
    since_s: float
    able: tuple[str, ...]
    """Members of the ISR that could lead."""


class Rebuilt(NamedTuple):
    """The operator decided to replace a broker's volume."""

    at_s: float
    partition: str
    broker_id: int
    committed_end: int
    """The largest high watermark of the partition so far."""
    others: tuple[tuple[str, int], ...]
    """The other members of the ISR that keep their volumes, each with its durable end."""


@dataclass(slots=True)
class UpkeepHistory:
    """All that the checkers of upkeep get."""

    held: list[Held] = field(default_factory=list)
    moved_off: list[MovedOff] = field(default_factory=list)
    not_placed: list[NotPlaced] = field(default_factory=list)
    old_proposals: list[OldProposal] = field(default_factory=list)
    led_while_drained: list[LedWhileDrained] = field(default_factory=list)
    rebuilt: list[Rebuilt] = field(default_factory=list)
