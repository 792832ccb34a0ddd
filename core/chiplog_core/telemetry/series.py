"""The text of metrics that have a series for every topic, partition or partition of a group.

There may be tens of thousands of series, and a process can do nothing else while it formats them.
So the text of an object's labels is made once for all its series, and the text of a metric is made
in slices, between which the event loop serves other tasks.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

SLICE: Final = 500
"""Number of series in a slice, which takes some tenths of a millisecond."""

T = TypeVar("T")
Rows: TypeAlias = Sequence[tuple[str, T]]
"""Objects, like partitions, each after the text of its labels: (labels, object)."""


@dataclass(frozen=True, slots=True)
class Series(Generic[T]):
    """A metric with a series for each of many objects."""

    name: str
    """The name in Prometheus' format; that of a counter ends with _total."""
    text: str
    """The help text."""
    value: Callable[[T], int | None]
    """The value for an object; None for an object without this series."""
    is_counter: bool = False

    @property
    def type(self) -> str:
        return "counter" if self.is_counter else "gauge"


def labels(**given: str | int) -> str:
    """The text of labels in Prometheus' format, in the given order."""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in given.items()) + "}"


def of_partition(topic: str, partition: int) -> str:
    """The labels of a partition. It is much faster than `labels`, because the name of a topic
    needs no escaping."""
    return f'{{topic="{topic}",partition="{partition}"}}'


def series_text(series: Series[T], rows: Rows[T]) -> Iterator[str]:
    """The metric in Prometheus' text format, in slices, so that the caller can do other work
    between two of them."""
    name, value_of = series.name, series.value
    yield f"# HELP {name} {series.text}\n# TYPE {name} {series.type}\n"
    for start in range(0, len(rows), SLICE):
        yield "".join(
            f"{name}{label_text} {value}\n"
            for label_text, item in rows[start : start + SLICE]
            if (value := value_of(item)) is not None
        )


def _escaped(value: str | int) -> str:
    """The value of a label, with backslashes, quotes and line breaks escaped."""
    text = str(value)
    return text.translate(_ESCAPES) if _SPECIAL.search(text) else text


_SPECIAL: Final = re.compile(r'[\\"\n]')
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
