"""A configuration key, and a table of keys.

A key has the type of its values, so the type checker knows that `config[RETENTION_MS]` is an `int`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from chiplog_core.config.value_types import ValueType

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Synonym:
    """A broker key that sets the default of a topic key."""

    name: str
    unit: int = 1
    """Factor from the broker key's unit to the topic key's, for example 3600000 for hours to
    milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey(Generic[V]):
    """A key: its name, its allowed values, its meaning."""

    name: str
    value_type: ValueType[V]
    default: V | None
    """The value in force if the key is not set; None if it has no value then."""

    doc: str
    """Description for users."""

    minimum: float | None = None
    """The smallest allowed number; None if the values are not numbers."""

    maximum: float | None = None
    """The largest allowed number; None if only the type limits it."""

    choices: tuple[str | bool | int, ...] = ()
    """The only allowed values, or the only allowed words of a list; empty for no such limit."""

    because: str = ""
    """Why only the `choices` are allowed, if Kafka allows more; a clause for messages."""

    synonyms: tuple[Synonym, ...] = ()
    """For a topic key: the broker keys that set its default. The first one that is set wins."""

    needs_restart: bool = False
    """For a broker key: whether a broker must be restarted before a change takes effect."""

    set_by: str | None = None
    """For a broker key that the operator writes itself, or a topic key that only Kafka's clients
    set: the field that users set instead."""

    def parse(self, text: str) -> V:
        """Parse the text. Raises `ValueError` with the allowed values as its message, like "one of
        true, false"."""
        value = self.value_type.parse(text)
        if self.choices and not self._is_a_choice(value):
            because = f", because {self.because}" if self.because else ""
            raise ValueError(_one_of(self.choices) + because)
        if self.minimum is not None and not _in_range(value, self.minimum, self.maximum):
            raise ValueError(_number_in_range(self.minimum, self.maximum))
        return value

    def format(self, value: V) -> str:
        """The text Kafka would print for `value`."""
        return self.value_type.format(value)

    def _is_a_choice(self, value: V) -> bool:
        """Whether the value, or every word of a list, is one of the choices."""
        words = value if isinstance(value, tuple) else (value,)
        return all(word in self.choices for word in words)


def _in_range(value: object, minimum: float, maximum: float | None) -> bool:
    """Whether the number is in the range. Raises `TypeError` if it is not a number: then the table
    of keys is wrong."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number, but its key has a range")
    return minimum <= value and (maximum is None or value <= maximum)


def _one_of(choices: tuple[str | bool | int, ...]) -> str:
    """The choices as messages show them: "one of true, false", or the word itself if there is just
    one."""
    words = [str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in choices]
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _number_in_range(minimum: float, maximum: float | None) -> str:
    """The range as messages show it."""
    if maximum is None:
        return f"a number of at least {minimum}"
    return f"a number from {minimum} to {maximum}"


class KeyTable(Mapping[str, ConfigKey[Any]]):
    """The keys of one level ("topic" or "broker"), by name."""

    def __init__(self, level: str, keys: Iterable[ConfigKey[Any]]) -> None:
        self.level = level
        self._keys = {key.name: key for key in keys}

    def __getitem__(self, name: str) -> ConfigKey[Any]:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
