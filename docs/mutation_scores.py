"""The scores of `make mutants`, and the reason why each surviving mutant is acceptable."""

from docs.tables import table
from e2e.mutants import reasons, scores
from e2e.mutants.rooms import ROOMS


def score_table() -> str:
    """A row for each measured room (a module whose functions are mutated), and a total."""
    found = list(scores.read().values())
    return table(scores.HEADER, map(scores.row, [*found, scores.total(found)]))


def survivors() -> str:
    """The surviving mutants of each room with their reasons, in the order of `ROOMS`.

    A mutant is a function, its line before and after the change, and the reason.
    """
    reason_of = reasons.read()
    text = ""
    for room in ROOMS:
        lines = [
            f"* `{one.function}`<br>`{one.before}`<br>`{one.after}`<br>{why}\n"
            for one, why in reason_of.items()
            if one.room == room.name
        ]
        if lines:
            text += f"\n### {room.name}\n\n`{room.path}`\n\n{''.join(lines)}"
    return text + "\n"
