"""Markdown tables."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table with a newline at its end."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """The text on one line, with `|` and `<` escaped, which would end the cell or begin HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def text_of(value: object) -> str:
    """A single value as it is written in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
