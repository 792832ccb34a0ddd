"""Where a reset puts a committed offset."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.groups.reset import (
    CannotShift,
    NewOffset,
    ResetOffsets,
    ShiftBy,
    Strategy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToMoment,
    ToOffset,
    new_offset,
)

HERE = ResetOffsets(earliest=10, latest=20, committed=15, first_offset_of_time=12)
NEW = ResetOffsets(earliest=10, latest=20)


@pytest.mark.parametrize(
    ("strategy", "now", "offset", "note"),
    [
        (ToEarliest(), HERE, 10, ""),
        (ToLatest(), HERE, 20, ""),
        (ToCurrent(), HERE, 15, ""),
        (ToCurrent(), NEW, 20, "no offset is committed, so the latest is used"),
        (ToOffset(13), NEW, 13, ""),
        (ToOffset(20), NEW, 20, ""),
        (ToOffset(9), HERE, 10, "9 is lower than the earliest offset, so 10 is used"),
        (ToOffset(21), HERE, 20, "21 is higher than the latest offset, so 20 is used"),
        (ToMoment(5), HERE, 12, ""),
        (
            ToMoment(5),
            NEW,
            20,
            "there is no record at or after that time, so the latest offset is used",
        ),
        (ShiftBy(3), HERE, 18, ""),
        (ShiftBy(-9), HERE, 10, "6 is lower than the earliest offset, so 10 is used"),
    ],
)
def test_each_strategy(strategy: Strategy, now: ResetOffsets, offset: int, note: str) -> None:
    assert new_offset(strategy, now) == NewOffset(offset, note)


def test_what_was_never_committed_is_not_shifted() -> None:
    with pytest.raises(CannotShift):
        new_offset(ShiftBy(1), NEW)


def test_a_committed_offset_that_was_deleted_comes_back_into_the_log() -> None:
    behind = ResetOffsets(earliest=10, latest=20, committed=3)
    assert new_offset(ToCurrent(), behind).offset == 10


LOGS = st.builds(
    lambda earliest, length, committed, first_offset_of_time: ResetOffsets(
        earliest=earliest,
        latest=earliest + length,
        committed=committed,
        first_offset_of_time=None
        if first_offset_of_time is None
        else earliest + min(first_offset_of_time, length),
    ),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 3000),
    st.none() | st.integers(0, 1000),
)
STRATEGIES = st.one_of(
    st.sampled_from([ToEarliest(), ToLatest(), ToCurrent(), ToMoment(0)]),
    st.builds(ToOffset, st.integers(0, 1 << 62)),
    st.builds(ShiftBy, st.integers(-(1 << 63), (1 << 63) - 1)),
)


@given(STRATEGIES, LOGS)
def test_it_never_leaves_the_log_and_says_so_where_it_would(
    strategy: Strategy, now: ResetOffsets
) -> None:
    found = new_offset(strategy, now)

    assert now.earliest <= found.offset <= now.latest
    again = ResetOffsets(earliest=now.earliest, latest=now.latest, committed=found.offset)
    assert new_offset(ToCurrent(), again) == NewOffset(found.offset)
