"""The text of metrics that have a series for every topic, partition or partition of a group.

There may be tens of thousands of them, and a process that writes of them does nothing else. So
the labels of a thing are written once for all its series, and a text comes in slices, between
which others have their turn.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

SLICE: Final = 500
"""This many series are written at a time, in some tenths of a millisecond."""

T = TypeVar("T")
Rows: TypeAlias = Sequence[tuple[str, T]]
"""Things, each with the text of its labels."""


@dataclass(frozen=True, slots=True)
class Series(Generic[T]):
    """One metric of many things."""

    name: str
    """As it is written: a counter's ends with _total."""
    text: str
    value: Callable[[T], int | None]
    """None for a thing of which there is nothing to say."""
    is_counter: bool = False

    @property
    def type(self) -> str:
        return "counter" if self.is_counter else "gauge"


def labels(**given: str | int) -> str:
    """The text of some labels, in the order given."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in given.items()) + "}"


def of_partition(topic: str, partition: int) -> str:
    """The labels of a partition. It is much faster than `labels`, because the name of a topic
    needs no escaping."""
    return f'{{topic="{topic}",partition="{partition}"}}'


def series_text(series: Series[T], rows: Rows[T]) -> Iterator[str]:
    """The metric in Prometheus' text format, in slices."""
    name, value_of = series.name, series.value
    yield f"# HELP {name} {series.text}\n# TYPE {name} {series.type}\n"
    for start in range(0, len(rows), SLICE):
        yield "".join(
            f"{name}{text} {value}\n"
            for text, thing in rows[start : start + SLICE]
            if (value := value_of(thing)) is not None
        )


def _escaped(value: str | int) -> str:
    text = str(value)
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


_SPECIAL: Final = re.compile(r'[\\"\n]')
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
