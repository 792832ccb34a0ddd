"""What manifests can ask for and is refused, as a table: the list that the program goes by."""

from chiplog_core.validate.unbuilt import UNBUILT
from docs.tables import table


def part() -> str:
    rows = [(feature.value, remedy) for feature, remedy in UNBUILT.items()]
    return table(("Asked for", "What the refusal says"), rows)
