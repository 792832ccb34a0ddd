"""A property of Kafka's clients that cannot be used."""

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


class BadProperty(ValueError):  # noqa: N818 - named for what it is
    """A property that cannot be used: its key, what is wrong, and the remedy."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"{key}: {what}")
        self.key = key


def one_of(properties: Mapping[str, str], key: str, known: list[T], default: T | None) -> T:
    """The value of a key that has only these; the default without it. Raises `BadProperty`."""
    given = properties.get(key, "").upper()
    found = next((value for value in known if str(value) == given), None)
    if found is not None:
        return found
    names = ", ".join(map(str, known))
    if given:
        raise BadProperty(key, f"{given} is not supported: set it to one of {names}")
    if default is None:
        raise BadProperty(key, f"it is missing: set it to one of {names}")
    return default
