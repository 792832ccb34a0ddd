"""The text of metrics that have a series for every topic or every partition.

A broker may hold ten thousand partitions, and while it writes of them it answers nobody. So the
labels of a thing are written once for all its series, and a text comes in slices, between which
others have their turn. Of names of topics nothing has to be escaped.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

SLICE: Final = 500
"""So many series are written at a time, in some tenths of a millisecond."""

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


def of_topic(topic: str) -> str:
    """The text of a topic's labels."""
    return f'{{topic="{topic}"}}'


def of_partition(topic: str, partition: int) -> str:
    """The text of a partition's labels."""
    return f'{{topic="{topic}",partition="{partition}"}}'


def written(series: Series[T], rows: Rows[T]) -> Iterator[str]:
    """The metric in Prometheus' text format, in slices."""
    name, value_of = series.name, series.value
    yield f"# HELP {name} {series.text}\n# TYPE {name} {series.type}\n"
    for start in range(0, len(rows), SLICE):
        yield "".join(
            f"{name}{labels} {value}\n"
            for labels, thing in rows[start : start + SLICE]
            if (value := value_of(thing)) is not None
        )
