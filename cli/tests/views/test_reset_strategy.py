"""Options of `groups reset`."""

import pytest

from chiplog_cli.reset_strategy import ResetStrategy, strategy_of
from chiplog_core.groups.reset import (
    ShiftBy,
    Strategy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToMoment,
    ToOffset,
)
from chiplog_core.model import consumer_group

NOW_MS = 1_000_000_000


def of(**given: object) -> Strategy:
    unused: dict[ResetStrategy, object] = dict.fromkeys(ResetStrategy)
    named = {ResetStrategy(name.replace("_", "-")): value for name, value in given.items()}
    return strategy_of({**unused, **named}, now_ms=NOW_MS)


def test_the_strategies_are_those_of_the_resource() -> None:
    assert {one.value for one in ResetStrategy} == {
        one.value for one in consumer_group.ResetStrategy
    }


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ({"to_earliest": True}, ToEarliest()),
        ({"to_latest": True, "to_earliest": False}, ToLatest()),
        ({"to_current": True}, ToCurrent()),
        ({"to_offset": "0"}, ToOffset(0)),
        ({"to_datetime": "1970-01-01T00:00:01Z"}, ToMoment(1000)),
        ({"by_duration": "PT1M"}, ToMoment(NOW_MS - 60_000)),
        ({"by_duration": "1m"}, ToMoment(NOW_MS - 60_000)),
        ({"shift_by": "-10"}, ShiftBy(-10)),
    ],
)
def test_each_strategy(given: dict[str, object], strategy: Strategy) -> None:
    assert of(**given) == strategy


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "no reset strategy is given: use one of --to-earliest"),
        ({"to_offset": "1", "shift_by": "2"}, "several .*: use one of --to-offset, --shift-by"),
        ({"to_offset": "-1"}, "--to-offset is -1: .*use --to-earliest"),
        ({"to_offset": "x"}, "--to-offset is 'x': write a whole number"),
        ({"shift_by": "1.5"}, "--shift-by is '1.5': write a whole number"),
        ({"to_datetime": "soon"}, "'soon' is not a time"),
        ({"by_duration": "long"}, "'long' is not a whole number and a unit"),
    ],
)
def test_what_is_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        of(**given)
