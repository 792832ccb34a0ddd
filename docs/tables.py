"""Markdown tables out of any text."""

from collections.abc import Iterable, Sequence


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, which ends with a newline; cells are escaped (`cell`)."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(cell, line))} |\n" for line in lines)


def cell(text: str) -> str:
    """A text on one line, with `|` and `<` escaped, since Markdown would act on them."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def text_of(value: object) -> str:
    """A value as it is written in YAML."""
    return str(value).lower() if isinstance(value, bool) else str(value)
