"""Plans of resets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_cli.errors import BrokerRefused, CannotDo
from chiplog_cli.facts import UNKNOWN_OFFSET, TopicPartition
from chiplog_cli.group_reset import (
    Planned,
    check_inactive,
    document,
    plan,
    reset_offsets,
    text,
)
from chiplog_core.groups.reset import (
    ResetOffsets,
    ShiftBy,
    Strategy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToMoment,
    ToOffset,
)
from tests.views.facts import at, group, member

HERE = ResetOffsets(earliest=10, latest=20, committed=15, first_offset_of_time=12)
NEW = ResetOffsets(earliest=10, latest=20)


def planned(strategy: Strategy, now: ResetOffsets) -> Planned:
    (one,) = plan(strategy, {at(0): now})
    return one


@pytest.mark.parametrize(
    ("strategy", "now", "offset", "note"),
    [
        (ToEarliest(), HERE, 10, ""),
        (ToLatest(), HERE, 20, ""),
        (ToCurrent(), HERE, 15, ""),
        (ToCurrent(), NEW, 20, "no offset is committed, so the latest is used"),
        (ToOffset(13), NEW, 13, ""),
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
    one = planned(strategy, now)
    assert one.new_offset == offset
    assert one.note == (f"orders-0: {note}" if note else "")


def test_what_was_never_committed_is_not_shifted() -> None:
    with pytest.raises(CannotDo, match=r"orders-0 cannot be shifted.*remove it from --topic"):
        plan(ShiftBy(1), {at(0): NEW})


def test_a_committed_offset_that_was_deleted_comes_back_into_the_log() -> None:
    behind = ResetOffsets(earliest=10, latest=20, committed=3)
    assert planned(ToCurrent(), behind).new_offset == 10


LOGS = st.builds(
    lambda earliest, length, committed: ResetOffsets(
        earliest=earliest, latest=earliest + length, committed=committed
    ),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.none() | st.integers(0, 3000),
)
STRATEGIES = st.one_of(
    st.sampled_from([ToEarliest(), ToLatest(), ToCurrent(), ToMoment(0)]),
    st.builds(ToOffset, st.integers(0, 1 << 62)),
    st.builds(ShiftBy, st.integers(-(1 << 62), 1 << 62)),
)


@given(STRATEGIES, st.dictionaries(st.builds(at, st.integers(0, 9)), LOGS, min_size=1))
def test_a_plan_is_of_every_partition_and_never_leaves_the_log(
    strategy: Strategy, logs: dict[TopicPartition, ResetOffsets]
) -> None:
    if isinstance(strategy, ShiftBy) and any(log.committed is None for log in logs.values()):
        with pytest.raises(CannotDo):
            plan(strategy, logs)
        return
    found = plan(strategy, logs)
    assert [one.at for one in found] == sorted(logs)
    assert all(logs[one.at].earliest <= one.new_offset <= logs[one.at].latest for one in found)
    again = {
        one.at: ResetOffsets(
            earliest=logs[one.at].earliest, latest=logs[one.at].latest, committed=one.new_offset
        )
        for one in found
    }
    kept = plan(ToCurrent(), again)
    assert [one.new_offset for one in kept] == [one.new_offset for one in found], (
        "what was planned and committed is where the group is"
    )


def test_standings_are_what_the_brokers_said() -> None:
    found = reset_offsets(
        [at(0), at(1)],
        committed={at(0): 15},
        earliest={at(0): 10, at(1): 0},
        latest={at(0): 20, at(1): 0},
        first_offset_of_time={at(0): 12, at(1): UNKNOWN_OFFSET},
    )
    assert found == {at(0): HERE, at(1): ResetOffsets(earliest=0, latest=0)}


def test_a_partition_that_does_not_answer_ends_it() -> None:
    refused = BrokerRefused("LEADER_NOT_AVAILABLE", "orders-0: no leader")
    with pytest.raises(BrokerRefused, match="orders-0: no leader"):
        reset_offsets([at(0)], committed={}, earliest={at(0): 0}, latest={at(0): refused})


def test_only_a_group_without_members_is_reset() -> None:
    check_inactive(group(state="Empty"))
    check_inactive(group(state="Dead"))
    with pytest.raises(CannotDo, match="'billing' is inactive, but the current state is Stable"):
        check_inactive(group(member("reader")))


def test_how_it_is_shown() -> None:
    found = plan(ToEarliest(), {at(0): HERE, at(1): NEW})
    assert text("billing", found) == (
        "GROUP    TOPIC   PARTITION  NEW-OFFSET\n"
        "billing  orders  0          10\n"
        "billing  orders  1          10"
    )
    assert document("billing", found, executed=False) == {
        "group": "billing",
        "executed": False,
        "offsets": [
            {"topic": "orders", "partition": 0, "offset": 15, "newOffset": 10},
            {"topic": "orders", "partition": 1, "offset": None, "newOffset": 10},
        ],
    }
