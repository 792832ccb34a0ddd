"""Why a mutant may survive: a table that is kept by hand, by function and lines before and after.

So a reason holds wherever the lines move to, and ends when they change.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from e2e.mutants.mutations import Mutant

FILE: Final = Path(__file__).parent / "reasons.toml"


class Change(NamedTuple):
    """What a reason is about. The same lines elsewhere need a reason of their own."""

    room: str
    function: str
    before: str
    after: str


Reasons = Mapping[Change, str]


def read(path: Path = FILE) -> Reasons:
    """The table. A `ValueError` names an entry that is there twice or has no reason."""
    found: dict[Change, str] = {}
    for entry in tomllib.loads(path.read_text()).get("survivor", []):
        for becomes in entry["becomes"]:
            key = Change(entry["room"], entry["function"], entry["line"], becomes)
            if key in found or not entry["reason"].strip():
                raise ValueError(f"{path.name}: {key} stands there twice or without a reason")
            found[key] = entry["reason"].strip()
    return found


def without_reason(room: str, survivors: "Iterable[Mutant]", reasons: Reasons) -> "list[Mutant]":
    """Survivors that nobody has explained."""
    return [one for one in survivors if _change(room, one) not in reasons]


def idle(room: str, survivors: "Iterable[Mutant]", reasons: Reasons) -> list[Change]:
    """Reasons for what does not survive, or is no mutant any more."""
    alive = {_change(room, one) for one in survivors}
    return [one for one in reasons if one.room == room and one not in alive]


def _change(room: str, mutant: "Mutant") -> Change:
    return Change(room, mutant.function, mutant.before, mutant.after)
