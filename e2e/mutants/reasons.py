"""Reasons why mutants may survive: a table written by hand, `reasons.toml`.

An entry names the function and the lines before and after the change, not line numbers. So it stays
valid when code moves, and becomes invalid when the lines change.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from e2e.mutants.mutations import Mutant

FILE: Final = Path(__file__).parent / "reasons.toml"


class Change(NamedTuple):
    """A change of code that a reason explains: in one function of one room only."""

    room: str
    function: str
    before: str
    after: str


Reasons = Mapping[Change, str]


def read(path: Path = FILE) -> Reasons:
    """Read the table. Raises `ValueError` for an entry that is there twice or has no reason."""
    found: dict[Change, str] = {}
    for entry in tomllib.loads(path.read_text()).get("survivor", []):
        for becomes in entry["becomes"]:
            key = Change(entry["room"], entry["function"], entry["line"], becomes)
            if key in found or not entry["reason"].strip():
                raise ValueError(f"{path.name}: {key} is there twice or has no reason")
            found[key] = entry["reason"].strip()
    return found


def without_reason(room: str, survivors: "Iterable[Mutant]", reasons: Reasons) -> "list[Mutant]":
    """The survivors of a room for which the table has no reason."""
    return [one for one in survivors if _change(room, one) not in reasons]


def idle(room: str, survivors: "Iterable[Mutant]", reasons: Reasons) -> list[Change]:
    """Changes in the table that are not needed: the mutant was killed or does not exist."""
    alive = {_change(room, one) for one in survivors}
    return [one for one in reasons if one.room == room and one not in alive]


def _change(room: str, mutant: "Mutant") -> Change:
    return Change(room, mutant.function, mutant.before, mutant.after)
