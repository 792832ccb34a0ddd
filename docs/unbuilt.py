"""Features that manifests can ask for but that are not built, from the list that refuses them."""

from chiplog_core.validate.unbuilt import UNBUILT
from docs.tables import table


def part() -> str:
    """A table: the feature, and the text with which a manifest is refused that asks for it."""
    rows = [(feature.value, remedy) for feature, remedy in UNBUILT.items()]
    return table(("Asked for", "What the refusal says"), rows)
