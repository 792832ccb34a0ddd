"""Where a reset puts offsets, out of the options of the command line.

The names are those of `kafka-consumer-groups.sh` and of a ConsumerGroup's `spec.reset.strategy`.
"""

from collections.abc import Mapping
from enum import StrEnum

from chiplog_cli.moments import length_ms, moment_ms
from chiplog_core.groups.reset import (
    ShiftBy,
    Strategy,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToMoment,
    ToOffset,
)


class ResetStrategy(StrEnum):
    """As in `chiplog_core.model.consumer_group`, whose import costs more than all of this program.

    A test compares the two.
    """

    TO_EARLIEST = "to-earliest"
    TO_LATEST = "to-latest"
    TO_CURRENT = "to-current"
    TO_OFFSET = "to-offset"
    TO_DATETIME = "to-datetime"
    BY_DURATION = "by-duration"
    SHIFT_BY = "shift-by"


_WITHOUT_VALUE: Mapping[ResetStrategy, Strategy] = {
    ResetStrategy.TO_EARLIEST: ToEarliest(),
    ResetStrategy.TO_LATEST: ToLatest(),
    ResetStrategy.TO_CURRENT: ToCurrent(),
}


def strategy_of(given: Mapping[ResetStrategy, object], *, now_ms: int) -> Strategy:
    """The one strategy that was chosen; a `ValueError` says what to write instead.

    `given` has the value of each option; False and None mean that it was not used. A duration is
    counted back from `now_ms`.
    """
    used = [name for name, value in given.items() if value is not None and value is not False]
    if len(used) != 1:
        what = "several reset strategies are given" if used else "no reset strategy is given"
        options = ", ".join(f"--{name.value}" for name in (used or ResetStrategy))
        raise ValueError(f"{what}: use one of {options}")
    (name,) = used
    value = given[name]
    match name:
        case ResetStrategy.TO_OFFSET:
            return ToOffset(_offset(str(value)))
        case ResetStrategy.SHIFT_BY:
            return ShiftBy(_whole_number(name, str(value)))
        case ResetStrategy.TO_DATETIME:
            return ToMoment(moment_ms(str(value)))
        case ResetStrategy.BY_DURATION:
            return ToMoment(now_ms - length_ms(str(value)))
        case _:
            return _WITHOUT_VALUE[name]


def _offset(text: str) -> int:
    """The value of --to-offset. Raises `ValueError`."""
    offset = _whole_number(ResetStrategy.TO_OFFSET, text)
    if offset < 0:
        raise ValueError(f"--to-offset is {offset}: offsets start at 0; use --to-earliest")
    return offset


def _whole_number(name: ResetStrategy, text: str) -> int:
    """The value of the option with this strategy's name. Raises `ValueError`."""
    try:
        return int(text)
    except ValueError as error:
        raise ValueError(f"--{name.value} is {text!r}: write a whole number") from error
