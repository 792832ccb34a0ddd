"""Deadlines are what a plain table of them would say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.groups.deadlines import Deadlines

STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.one_of(st.none(), st.integers(0, 9))), max_size=40
)


@given(STEPS, st.booleans())
def test_the_next_one_is_the_earliest_that_was_last_said(
    steps: list[tuple[str, int | None]], looks: bool
) -> None:
    deadlines, table = Deadlines(), dict[str, int]()
    for name, due_ms in steps:
        if due_ms is None:
            deadlines.clear(name)
            table.pop(name, None)
        else:
            deadlines.set(name, due_ms)
            table[name] = due_ms
        if looks:
            assert deadlines.next_ms == min(table.values(), default=None)
    while table:
        due_ms = deadlines.next_ms
        assert due_ms == min(table.values())
        assert table.pop(deadlines.pop()) == due_ms
    assert deadlines.next_ms is None


def test_nothing_can_be_taken_where_nothing_is_due() -> None:
    with pytest.raises(AssertionError, match="nothing is due"):
        Deadlines().pop()


def test_what_is_put_off_again_and_again_takes_no_room() -> None:
    deadlines = Deadlines()
    for now_ms in range(1_000):
        deadlines.set("a", now_ms + 10)

    assert len(deadlines._queue) == 1
    assert deadlines.next_ms == 1_009
