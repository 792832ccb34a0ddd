"""Why a mutant may survive: a table that is kept by hand, by the lines before and after.

So a reason holds wherever the lines move to, and ends when they change.
"""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from e2e.mutants.mutations import Mutant

FILE: Final = Path(__file__).parent / "reasons.toml"

Reasons = Mapping[tuple[str, str, str], str]
"""(room, lines before, lines after) -> reason."""


def read(path: Path = FILE) -> Reasons:
    """The table. A `ValueError` names an entry that is there twice or has no reason."""
    found: dict[tuple[str, str, str], str] = {}
    for entry in tomllib.loads(path.read_text()).get("survivor", []):
        for becomes in entry["becomes"]:
            key = entry["room"], entry["line"], becomes
            if key in found or not entry["reason"].strip():
                raise ValueError(f"{path.name}: {key} stands there twice or without a reason")
            found[key] = entry["reason"].strip()
    return found


def without_reason(room: str, survivors: "Iterable[Mutant]", reasons: Reasons) -> "list[Mutant]":
    """Survivors that nobody has explained."""
    return [one for one in survivors if (room, one.before, one.after) not in reasons]


def idle(room: str, survivors: "Iterable[Mutant]", reasons: Reasons) -> list[tuple[str, str]]:
    """Reasons for what does not survive, or is no mutant any more."""
    alive = {(one.before, one.after) for one in survivors}
    return [(old, new) for (name, old, new) in reasons if name == room and (old, new) not in alive]
