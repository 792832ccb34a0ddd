"""The scores of `make mutants`, and why each mutant that survives may."""

from docs.tables import table
from e2e.mutants import reasons, scores
from e2e.mutants.rooms import ROOMS


def score_table() -> str:
    """Rooms that were run, and all of them together."""
    found = list(scores.read().values())
    return table(scores.HEADER, map(scores.row, [*found, scores.total(found)]))


def survivors() -> str:
    """By room, in the order of the rooms."""
    known = reasons.read()
    text = ""
    for room in ROOMS:
        lines = [
            f"* `{one.function}`<br>`{one.before}`<br>`{one.after}`<br>{why}\n"
            for one, why in known.items()
            if one.room == room.name
        ]
        if lines:
            text += f"\n### {room.name}\n\n`{room.path}`\n\n{''.join(lines)}"
    return text + "\n"
