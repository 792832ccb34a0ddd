"""The scores of all rooms from their last runs, stored in `scores.json` for the documentation."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parent / "scores.json"
LEAST_PERCENT: Final = 90.0
"""The share of its mutants that each room has to kill."""


@dataclass(frozen=True, slots=True)
class Score:
    """How many mutants a room has, and how many were killed by unit tests and by seeds."""

    room: str
    mutants: int
    by_tests: int
    by_seeds: int

    @property
    def survived(self) -> int:
        return self.mutants - self.by_tests - self.by_seeds

    @property
    def percent(self) -> float:
        """The share of killed mutants in percent, rounded down, so that 100 means all."""
        return 100.0 * (self.mutants - self.survived) / self.mutants if self.mutants else 100.0

    @property
    def is_enough(self) -> bool:
        return self.percent >= LEAST_PERCENT


HEADER: Final = ("room", "mutants", "killed by unit tests", "killed by seeds", "survived", "score")


def row(score: Score) -> tuple[str, ...]:
    """A score as cells of the table below `HEADER`."""
    counts = score.mutants, score.by_tests, score.by_seeds, score.survived
    return score.room, *map(str, counts), f"{int(score.percent * 10) / 10:.1f} %"


def total(scores: list[Score]) -> Score:
    return Score(
        "all",
        sum(one.mutants for one in scores),
        sum(one.by_tests for one in scores),
        sum(one.by_seeds for one in scores),
    )


def read(path: Path = FILE) -> dict[str, Score]:
    """Room -> stored score; empty if there is no file."""
    if not path.exists():
        return {}
    return {one["room"]: Score(**one) for one in json.loads(path.read_text())}


def write(scores: dict[str, Score], order: list[str], path: Path = FILE) -> None:
    """Store the scores of the rooms named in `order`, in this order, and no others."""
    shown = [asdict(scores[name]) for name in order if name in scores]
    path.write_text(json.dumps(shown, indent=1) + "\n")
