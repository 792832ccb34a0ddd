"""Stored results of a room's mutants, so that `make mutants` continues where it stopped.

They are valid as long as the room's source is unchanged. A mutant that a test noticed is tried
again when that test's file has changed; any other mutant when any of the room's tests has changed.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from e2e.mutants.mutations import Mutant
from e2e.mutants.rooms import ROOT, Room

DIRECTORY: Final = ROOT / ".mutants"
_RULES: Final = Path(__file__).parent / "mutations.py"


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one mutant."""

    by_test: str = ""
    """The test that noticed it, or `BY_LIMIT` or `BY_IMPORT`; empty if none did."""
    by_seed: str = ""
    """The seed that noticed it, with its anomalies; empty if none did."""
    seeds_tried: bool = False
    """Whether seeds were simulated with it."""

    @property
    def is_killed(self) -> bool:
        return bool(self.by_test or self.by_seed)


class Kept:
    """The stored results of one room, by the mutants' keys."""

    def __init__(self, room: Room, directory: Path = DIRECTORY) -> None:
        self.room = room
        self._path = directory / f"{room.name}.json"
        self._state = _hash(room.source, _RULES.read_text(), importlib.metadata.version("mutmut"))
        self._tests = {one: _hash_of_test(ROOT / one) for one in room.tests}
        self.found: dict[str, Found] = {}
        if self._path.exists():
            self._load_valid(json.loads(self._path.read_text()))

    def save(self) -> None:
        """Write all results, by replacing the file, so that it is always complete."""
        self._path.parent.mkdir(exist_ok=True)
        found = {key: asdict(one) for key, one in self.found.items()}
        stored = {"room": self._state, "tests": self._tests, "found": found}
        half = self._path.with_suffix(".new")
        half.write_text(json.dumps(stored, indent=1) + "\n")
        half.replace(self._path)

    def undecided(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        """The mutants without a stored result of the unit tests."""
        return [one for one in mutants if one.key not in self.found]

    def survivors(self, mutants: Iterable[Mutant]) -> list[Mutant]:
        """The mutants that neither a test nor a seed noticed."""
        return [one for one in mutants if not self.found[one.key].is_killed]

    def _load_valid(self, stored: dict[str, Any]) -> None:
        """Load the stored results that are still valid."""
        if stored["room"] != self._state:
            return
        before = stored["tests"]
        changed = {one for one, now in self._tests.items() if before.get(one) != now}
        changed |= before.keys() - self._tests.keys()
        for key, one in stored["found"].items():
            found = Found(**one)
            is_by_test = "::" in found.by_test  # as in a test's name; else by a limit, or survived
            is_stale = found.by_test.split("::")[0] in changed if is_by_test else bool(changed)
            if not is_stale:
                self.found[key] = found


def _hash_of_test(path: Path) -> str:
    """Hash of a test file and of the helper modules in its directory, which it may use."""
    beside = sorted(one for one in path.parent.glob("*.py") if not one.name.startswith("test_"))
    return _hash(*(one.read_text() for one in (path, *beside)))


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
