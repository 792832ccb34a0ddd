"""A condition's time says since when its status has been what it is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from chiplog_core.model.conditions import Condition, ConditionStatus, ConditionType, Verdict, merge

START = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)
LATER = START + timedelta(minutes=5)

NOT_READY = Verdict(
    type=ConditionType.READY,
    status=ConditionStatus.FALSE,
    reason="NotSupported",
    message="spec.replicas asks for more than one replica",
)


def published(*verdicts: Verdict, previous: tuple[Condition, ...] = ()) -> tuple[Condition, ...]:
    return merge(previous, verdicts, observed_generation=1, now=START)


def test_a_new_condition_begins_now() -> None:
    (condition,) = published(NOT_READY)

    assert condition.last_transition_time == START
    assert condition.observed_generation == 1
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        NOT_READY.type,
        NOT_READY.status,
        NOT_READY.reason,
        NOT_READY.message,
    )


def test_another_reason_does_not_change_the_time() -> None:
    still_not_ready = replace(NOT_READY, reason="InvalidConfig", message="something else")

    (condition,) = merge(published(NOT_READY), [still_not_ready], observed_generation=2, now=LATER)

    assert condition.last_transition_time == START
    assert condition.reason == "InvalidConfig"
    assert condition.observed_generation == 2


def test_another_status_does() -> None:
    ready = replace(NOT_READY, status=ConditionStatus.TRUE)

    (condition,) = merge(published(NOT_READY), [ready], observed_generation=1, now=LATER)

    assert condition.last_transition_time == LATER


def test_a_condition_nobody_speaks_of_is_dropped() -> None:
    warning = replace(NOT_READY, type=ConditionType.WARNING)

    assert [
        condition.type
        for condition in merge(
            published(NOT_READY, warning), [warning], observed_generation=1, now=LATER
        )
    ] == [ConditionType.WARNING]


def test_times_are_whole_seconds() -> None:
    odd = START + timedelta(microseconds=123_456)

    (condition,) = merge((), [NOT_READY], observed_generation=1, now=odd)

    assert condition.last_transition_time == START


@given(st.lists(st.sampled_from(list(ConditionType)), unique=True), st.booleans())
def test_the_same_verdicts_again_change_nothing(types: list[ConditionType], holds: bool) -> None:
    status = ConditionStatus.TRUE if holds else ConditionStatus.UNKNOWN
    verdicts = [replace(NOT_READY, type=kind, status=status) for kind in types]
    first = merge((), verdicts, observed_generation=1, now=START)

    assert merge(first, verdicts, observed_generation=1, now=LATER) == first
