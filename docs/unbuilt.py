"""A part of docs/flaws.md: what manifests can request but is not built yet, from the program."""

from chiplog_core.validate.unbuilt import UNBUILT
from docs.tables import table


def part() -> str:
    """The table of features that are refused, with the message of each refusal."""
    rows = [(feature.value, remedy) for feature, remedy in UNBUILT.items()]
    return table(("Asked for", "What the refusal says"), rows)
