"""Reading Kubernetes objects that other programs wrote. A value that is missing or of another type
counts as empty. Nothing here raises.

`path` is always the names of the fields from the top, like "metadata", "name"."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime


def part(value: object, *path: str) -> Mapping[str, object]:
    """The JSON object at the path; an empty one if there is none."""
    found = at(value, *path)
    return found if isinstance(found, Mapping) else {}


def parts(value: object, *path: str) -> tuple[Mapping[str, object], ...]:
    """The JSON objects in the list at the path; other entries of the list are left out."""
    found = at(value, *path)
    if not isinstance(found, Sequence) or isinstance(found, str):
        return ()
    return tuple(entry for entry in found if isinstance(entry, Mapping))


def text(value: object, *path: str) -> str:
    """The string at the path; empty if there is none."""
    found = at(value, *path)
    return found if isinstance(found, str) else ""


def number(value: object, *path: str) -> int:
    """The whole number at the path, or 0."""
    found = at(value, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def time(value: object, *path: str) -> datetime | None:
    """The ISO 8601 time at the path, UTC if it names no zone; None if there is none."""
    try:
        found = datetime.fromisoformat(text(value, *path))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def at(value: object, *path: str) -> object:
    """The value at the path; None if there is none."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
