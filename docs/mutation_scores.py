"""Parts of docs/mutants.md: the scores of `make mutants`, and why mutants may survive."""

from docs.tables import table
from e2e.mutants import reasons, scores
from e2e.mutants.rooms import ROOMS


def score_table() -> str:
    """The table with the score of each room that was run, and of all together."""
    found = list(scores.read().values())
    return table(scores.HEADER, map(scores.row, [*found, scores.total(found)]))


def survivors() -> str:
    """The list of surviving mutants by room, each with the reason why it may survive."""
    known = reasons.read()
    text = ""
    for room in ROOMS:
        lines = [
            f"* `{mutant.function}`<br>`{mutant.before}`<br>`{mutant.after}`<br>{why}\n"
            for mutant, why in known.items()
            if mutant.room == room.name
        ]
        if lines:
            text += f"\n### {room.name}\n\n`{room.path}`\n\n{''.join(lines)}"
    return text + "\n"
