"""Rows of text as columns that line up, as Kafka's tools print them."""

from collections.abc import Iterable, Sequence

from chiplog_cli.printable import in_a_line

NONE = "-"
"""Stands where there is no value."""

GAP = 2


def cell(value: object) -> str:
    """The text of a cell; `-` for None and for an empty text."""
    return NONE if value is None or value == "" else in_a_line(str(value))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A header line and a line for each row, without trailing blanks."""
    lines = [list(header), *([cell(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(_line(line, widths) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """One line of a table, with each cell padded to the width of its column."""
    padded = (text.ljust(width) for text, width in zip(cells, widths, strict=True))
    return (" " * GAP).join(padded).rstrip()
