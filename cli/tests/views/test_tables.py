"""Columns that line up."""

from hypothesis import given
from hypothesis import strategies as st

from chiplog_cli.tables import table

CELL = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=12)


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert table(("GROUP", "LAG"), [("billing", 5), ("b", None)]) == (
        "GROUP    LAG\nbilling  5\nb        -"
    )


def test_only_a_header_where_there_are_no_rows() -> None:
    assert table(("A", "B"), []) == "A  B"


@given(
    st.integers(1, 5).flatmap(
        lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), min_size=1)
    )
)
def test_every_cell_is_there_and_no_line_ends_in_a_blank(rows: list[list[str]]) -> None:
    lines = table(rows[0], rows[1:]).splitlines()
    assert [line.split() for line in lines] == rows
    assert all(line == line.rstrip() for line in lines)
    starts = {
        line.index(row[-1], len(line) - len(row[-1])) for line, row in zip(lines, rows, strict=True)
    }
    assert len(starts) == 1, "the last column begins at the same place in each line"
