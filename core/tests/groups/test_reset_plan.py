"""Resets as ConsumerGroups ask for them."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from chiplog_core.durations import Duration
from chiplog_core.groups.at import At
from chiplog_core.groups.reset import ResetOffsets
from chiplog_core.groups.reset_plan import (
    MAX_NOTES,
    ResetRefused,
    check_inactive,
    check_same,
    fingerprint,
    moment_ms,
    plan,
)
from chiplog_core.ids import Offset, PartitionIndex
from chiplog_core.model.consumer_group import Reset, ResetStrategy, ResetTopic, WhileActive
from chiplog_core.model.group_status import ResetOffset

ORDERS = At("orders", 0)
HERE = ResetOffsets(earliest=10, latest=20, committed=15, first_offset_of_time=12)
NOW_MS = 1_700_000_000_000


def reset(strategy: ResetStrategy = ResetStrategy.TO_EARLIEST, **given: object) -> Reset:
    return replace(Reset(id="one", strategy=strategy), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("asked", "after"),
    [
        (reset(), 10),
        (reset(ResetStrategy.TO_LATEST), 20),
        (reset(ResetStrategy.TO_CURRENT), 15),
        (reset(ResetStrategy.TO_OFFSET, offset=11), 11),
        (reset(ResetStrategy.SHIFT_BY, shift_by=-2), 13),
        (reset(ResetStrategy.TO_DATETIME), 12),
        (reset(ResetStrategy.BY_DURATION), 12),
    ],
)
def test_each_strategy_has_its_name_in_the_spec(asked: Reset, after: int) -> None:
    (moved,) = plan(asked, {ORDERS: HERE}).offsets

    assert (moved.offset, moved.new_offset) == (15, after)


def test_a_plan_is_by_topic_and_partition_and_says_what_was_before() -> None:
    new = ResetOffsets(earliest=0, latest=3)
    found = plan(reset(), {At("b", 0): new, At("a", 10): HERE, At("a", 2): HERE})

    assert found.offsets == (
        ResetOffset(topic="a", partition=PartitionIndex(2), offset=15, new_offset=Offset(10)),
        ResetOffset(topic="a", partition=PartitionIndex(10), offset=15, new_offset=Offset(10)),
        ResetOffset(topic="b", partition=PartitionIndex(0), offset=-1, new_offset=Offset(0)),
    )
    assert found.message == ""


def test_what_does_not_go_where_it_should_is_named_but_not_without_end() -> None:
    asked = reset(ResetStrategy.TO_OFFSET, offset=99)
    one = plan(asked, {ORDERS: HERE})
    many = plan(asked, {At("orders", index): HERE for index in range(MAX_NOTES + 2)})

    assert one.message == "orders-0: 99 is higher than the latest offset, so 20 is used"
    assert many.message.endswith("; and 2 more")
    assert many.message.count("is used") == MAX_NOTES


def test_what_cannot_be_planned_is_refused_with_what_to_do() -> None:
    with pytest.raises(ResetRefused, match=r"no committed offsets: list .* spec\.reset\.topics"):
        plan(reset(), {})
    with pytest.raises(ResetRefused, match="orders-0 cannot be shifted"):
        plan(reset(ResetStrategy.SHIFT_BY, shift_by=1), {ORDERS: replace(HERE, committed=None)})


def test_a_time_is_that_of_the_spec_or_as_far_back_as_it_says() -> None:
    at = datetime(1970, 1, 1, 0, 0, 1, 5999, tzinfo=UTC)
    assert moment_ms(reset(ResetStrategy.TO_DATETIME, datetime=at), NOW_MS) == 1005
    by_duration = reset(ResetStrategy.BY_DURATION, duration=Duration("2s"))
    assert moment_ms(by_duration, NOW_MS) == NOW_MS - 2_000
    assert moment_ms(by_duration, 1) == 0
    assert moment_ms(reset(), NOW_MS) is None


def test_an_id_is_of_one_reset_whether_planned_or_run() -> None:
    known = fingerprint(reset())
    check_same(reset(dry_run=False, while_active=WhileActive.FENCE), known)
    for other in (
        reset(ResetStrategy.TO_LATEST),
        reset(topics=(ResetTopic(topic="orders"),)),
        reset(ResetStrategy.TO_OFFSET, offset=1),
    ):
        with pytest.raises(ResetRefused, match=r"each id runs only once.*another spec\.reset\.id"):
            check_same(other, known)


def test_fingerprints_do_not_change_with_our_releases() -> None:
    # It is stored for as long as the group lives.
    assert fingerprint(reset()).hex() == "4bb1edd34cf67a3478057cb32c3ac626"


def test_members_are_in_the_way_unless_they_may_be_fenced() -> None:
    check_inactive(reset(), 0)
    check_inactive(reset(while_active=WhileActive.FENCE), 3)
    with pytest.raises(
        ResetRefused, match=r"has 1 member: stop its consumers, or set .*whileActive to Fence"
    ):
        check_inactive(reset(), 1)
    with pytest.raises(ResetRefused, match="has 2 members"):
        check_inactive(reset(), 2)


@pytest.mark.parametrize(
    ("strategy", "field"),
    [(ResetStrategy.TO_OFFSET, "offset"), (ResetStrategy.SHIFT_BY, "shiftBy")],
)
def test_a_strategy_without_its_value_is_refused_with_the_field(
    strategy: ResetStrategy, field: str
) -> None:
    with pytest.raises(ResetRefused, match=f"spec.reset.{field} is missing: add it"):
        plan(reset(strategy), {ORDERS: HERE})
