"""One configuration key, and a table of them.

A key knows the type of its values, so code that reads `config[RETENTION_MS]` gets an `int` and
the type checker knows it.
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
    """How many of the topic key's units one of the broker key's is: hours to milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey(Generic[V]):
    """One key: what it is called, what it may hold, what it means."""

    name: str
    value_type: ValueType[V]
    default: V | None
    """The value in force where nobody set one; None where the key is then simply not set."""

    doc: str
    minimum: float | None = None
    """The smallest number allowed; None for what is no number."""

    maximum: float | None = None
    """The largest number allowed; None where only the type's width limits it."""

    choices: tuple[str | bool | int, ...] = ()
    """The only values allowed, or the only words of a list. Empty: no such limit."""

    because: str = ""
    """Why no more than the `choices` is allowed, where Kafka allows more."""

    synonyms: tuple[Synonym, ...] = ()
    """Of a topic key: the broker keys that set its default. The first one that is set wins."""

    needs_restart: bool = False
    """Of a broker key: whether a broker must be restarted before a change takes effect."""

    set_by: str | None = None
    """Of a broker key that the operator writes itself: the field that users set instead."""

    def parse(self, text: str) -> V:
        """The value `text` stands for; a `ValueError` says what the key expects."""
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
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is not a number, but its key has a range")
    return minimum <= value and (maximum is None or value <= maximum)


def _one_of(choices: tuple[str | bool | int, ...]) -> str:
    """The choices as messages show them: "one of true, false", or the word itself if there is just
    one."""
    words = [str(choice).lower() if isinstance(choice, bool) else str(choice) for choice in choices]
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _number_in_range(minimum: float, maximum: float | None) -> str:
    if maximum is None:
        return f"a number of at least {minimum}"
    return f"a number from {minimum} to {maximum}"


class KeyTable(Mapping[str, ConfigKey[Any]]):
    """The keys of one level, topic or broker, by name."""

    def __init__(self, level: str, keys: Iterable[ConfigKey[Any]]) -> None:
        self.level = level
        self._keys = {key.name: key for key in keys}

    def __getitem__(self, name: str) -> ConfigKey[Any]:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
