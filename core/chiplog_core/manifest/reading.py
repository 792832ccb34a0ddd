"""Conversion of a manifest, as parsed from JSON or YAML, to the program's values.

All problems of a manifest are found in one pass, each with the path of its field. The API server
has checked most of this before. It is checked again because an object may have been stored under an
older schema, and because a broker without Kubernetes has no API server.

Reader functions are built once per class, for speed: the PartitionMap of a topic with 2,000
partitions is read at every change of any of them.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from functools import singledispatch
from typing import Any, TypeAlias, cast

from chiplog_core.limits import MAX_CONFIG_ENTRIES
from chiplog_core.manifest.constraints import Pattern
from chiplog_core.manifest.shapes import (
    BooleanShape,
    ChoiceShape,
    ConfigShape,
    FieldShape,
    IntegerShape,
    ListShape,
    MapShape,
    NumberShape,
    ObjectShape,
    QuantityShape,
    Shape,
    TextShape,
    TimeShape,
    ValueShape,
    object_shape,
)
from chiplog_core.problems import InvalidManifest, Problem, nearest
from chiplog_core.quantities import MAX_QUANTITY_LENGTH, QUANTITY_MEANING, QUANTITY_PATTERN

Reader: TypeAlias = Callable[[object, str, list[Problem]], Any]
"""Converts a value. The arguments are the value, its path in the manifest, and a list to which it
adds problems. The returned value is valid only if no problem was added."""

UNKNOWN_FIELD = "is not a field of this kind"
"""What messages say of a field that is not in the declaration."""


class Unknown(Enum):
    """What to do about a field that is not in the declaration."""

    REFUSE = "refuse"
    """For manifests of users: it may be a typo or a field of a newer Chiplog, and must not be
    ignored silently."""

    IGNORE = "ignore"
    """For manifests of Chiplog itself: a newer version, which adds fields compatibly, wrote it."""


def read(shape: Shape, value: object, path: str, unknown: Unknown) -> Any:
    """The value at `path` of a manifest, parsed as its declared shape. Raises `InvalidManifest`."""
    problems: list[Problem] = []
    found = _reader(shape, unknown)(value, path, problems)
    if problems:
        raise InvalidManifest(problems)
    return found


@singledispatch
def _reader(shape: Shape, unknown: Unknown) -> Reader:
    """The function that reads values of a shape; each kind of shape registers its own."""
    raise TypeError(f"no reader for {shape}")


@_reader.register
def _boolean(_shape: BooleanShape, _unknown: Unknown) -> Reader:
    """The reader of true and false."""

    def read_boolean(value: object, path: str, problems: list[Problem]) -> object:
        """Return the value; add a problem if it is not a boolean."""
        if not isinstance(value, bool):
            problems.append(_wrong_type(value, path, "true or false"))
        return value

    return read_boolean


@_reader.register
def _integer(shape: IntegerShape, _unknown: Unknown) -> Reader:
    """The reader of whole numbers within the shape's bounds."""
    minimum, maximum = shape.minimum, shape.maximum

    def read_integer(value: object, path: str, problems: list[Problem]) -> object:
        """Return the value; add a problem if it is no whole number within the bounds."""
        if type(value) is not int:  # a bool is an int to isinstance
            problems.append(_wrong_type(value, path, "a whole number"))
        elif not minimum <= value <= maximum:
            remedy = f"set it to a number from {minimum} to {maximum}"
            problems.append(Problem(path, f"is {value}", remedy))
        return value

    return read_integer


@_reader.register
def _number(shape: NumberShape, _unknown: Unknown) -> Reader:
    """The reader of numbers within the shape's bounds."""
    minimum, maximum = shape.minimum, shape.maximum

    def read_number(value: object, path: str, problems: list[Problem]) -> object:
        """Return the value; add a problem if it is no number within the bounds."""
        if type(value) not in (int, float):  # a bool is an int to isinstance
            problems.append(_wrong_type(value, path, "a number"))
            return value
        number = cast("float", value)
        if not minimum <= number <= maximum:
            remedy = f"set it to a number from {minimum} to {maximum}"
            problems.append(Problem(path, f"is {value}", remedy))
        return float(number)

    return read_number


@_reader.register
def _text(shape: TextShape, _unknown: Unknown) -> Reader:
    """The reader of strings with the shape's length and pattern."""

    def read_text(value: object, path: str, problems: list[Problem]) -> object:
        """Return the value; add problems if it is no string of the right length and form."""
        if not isinstance(value, str):
            problems.append(_wrong_type(value, path, "a string"))
        else:
            problems.extend(_wrong_text(value, path, shape.min_length, shape.max_length))
            if shape.pattern is not None:
                problems.extend(_wrong_form(value, path, shape.pattern))
        return value

    return read_text


@_reader.register
def _value(shape: ValueShape, _unknown: Unknown) -> Reader:
    """The reader of a class that parses its values from strings, like a Kafka UUID."""
    from_text, meaning = shape.type.from_text, shape.type.MEANING

    def read_value(value: object, path: str, problems: list[Problem]) -> object:
        """Parse the string; None, with a problem, if that fails."""
        if not isinstance(value, str):
            problems.append(_wrong_type(value, path, meaning))
            return None
        try:
            return from_text(value)
        except ValueError as error:
            problems.append(Problem(path, f"is not valid ({error})", f"write {meaning}"))
            return None

    return read_value


@_reader.register
def _quantity(_shape: QuantityShape, _unknown: Unknown) -> Reader:
    """The reader of Kubernetes quantities, which YAML may give as strings or whole numbers."""
    pattern = Pattern(QUANTITY_PATTERN, QUANTITY_MEANING)

    def read_quantity(value: object, path: str, problems: list[Problem]) -> object:
        """Return the quantity as a string; add problems if it is none."""
        if isinstance(value, bool) or not isinstance(value, int | str):
            problems.append(_wrong_type(value, path, QUANTITY_MEANING))
            return value
        text = str(value)
        problems.extend(_wrong_text(text, path, 1, MAX_QUANTITY_LENGTH))
        problems.extend(_wrong_form(text, path, pattern))
        return text

    return read_quantity


@_reader.register
def _choice(shape: ChoiceShape, _unknown: Unknown) -> Reader:
    """The reader of the values of an enumeration."""
    choices = {choice.value: choice for choice in shape.type}

    def read_choice(value: object, path: str, problems: list[Problem]) -> object:
        """Return the member of the enumeration; None, with a problem, if there is none."""
        if isinstance(value, str) and value in choices:
            return choices[value]
        problems.append(Problem(path, f"is {value!r}", f"set it to one of {', '.join(choices)}"))
        return None

    return read_choice


@_reader.register
def _time(_shape: TimeShape, _unknown: Unknown) -> Reader:
    """The reader of times in the form of RFC 3339; the result is in UTC."""
    meaning = "a time with its time zone, like 2026-01-31T12:00:00Z"

    def read_time(value: object, path: str, problems: list[Problem]) -> object:
        """Return the time in UTC; None, with a problem, if it cannot be parsed."""
        if not isinstance(value, str):
            problems.append(_wrong_type(value, path, meaning))
            return None
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            problems.append(Problem(path, f"is {value!r}", f"write {meaning}"))
            return None
        return moment.astimezone(UTC)

    return read_time


@_reader.register
def _list(shape: ListShape, unknown: Unknown) -> Reader:
    """The reader of lists, which become tuples."""
    read_item = _reader(shape.item, unknown)
    items = shape.items

    def read_list(value: object, path: str, problems: list[Problem]) -> object:
        """Return the parsed items as a tuple; add the problems of the list and of its items."""
        if not isinstance(value, list | tuple):
            problems.append(_wrong_type(value, path, "a list"))
            return ()
        problems.extend(_wrong_size(len(value), path, items.minimum, items.maximum))
        problems_before = len(problems)
        found = tuple(
            read_item(item, f"{path}[{index}]", problems) for index, item in enumerate(value)
        )
        if len(problems) == problems_before:  # only valid items can be compared
            problems.extend(_repeated(value, path, unique=items.unique, key=items.key))
        return found

    return read_list


@_reader.register
def _map(shape: MapShape, unknown: Unknown) -> Reader:
    """The reader of objects with any names, whose values all have one shape."""
    read_entry = _reader(shape.value, unknown)

    def read_map(value: object, path: str, problems: list[Problem]) -> object:
        """Return the entries with parsed values; add the problems of the map and of its values."""
        if not isinstance(value, Mapping):
            problems.append(_wrong_type(value, path, "an object"))
            return {}
        problems.extend(_wrong_size(len(value), path, 0, shape.entries.maximum))
        return {
            str(name): read_entry(entry, f"{path}[{name}]", problems)
            for name, entry in value.items()
        }

    return read_map


@_reader.register
def _config(_shape: ConfigShape, _unknown: Unknown) -> Reader:
    """The reader of Kafka configuration. Its keys and values are checked later (`config.given`),
    with better messages."""

    def read_config(value: object, path: str, problems: list[Problem]) -> object:
        """Return the entries as they are; add a problem if this is no object or is too large."""
        if not isinstance(value, Mapping):
            problems.append(_wrong_type(value, path, "an object"))
            return {}
        problems.extend(_wrong_size(len(value), path, 0, MAX_CONFIG_ENTRIES))
        return {str(name): entry for name, entry in value.items()}

    return read_config


@_reader.register
def _object(shape: ObjectShape, unknown: Unknown) -> Reader:
    return _object_reader(shape.type, unknown)


_object_readers: dict[tuple[type[Any], Unknown], Reader] = {}


def _object_reader(cls: type[Any], unknown: Unknown) -> Reader:
    """The reader of a dataclass, which is built only once."""
    if (cls, unknown) not in _object_readers:
        _object_readers[cls, unknown] = _new_object_reader(cls, unknown)
    return _object_readers[cls, unknown]


def _new_object_reader(cls: type[Any], unknown: Unknown) -> Reader:
    """The reader of a dataclass: it reads each field, and reports missing and unknown ones."""
    fields = object_shape(cls).fields
    readers = [(field, field.name, _reader(field.shape, unknown)) for field in fields]
    names = {field.name for field in fields}

    def read_object(value: object, path: str, problems: list[Problem]) -> object:
        """Return an instance of `cls`; None, with problems, if any field is not valid."""
        if not isinstance(value, Mapping):
            problems.append(_wrong_type(value, path, "an object"))
            return None
        problems_before = len(problems)
        found: dict[str, object] = {}
        for field, name, read_field in readers:
            given = value.get(name)
            if given is not None:  # null is how JSON says "absent"
                found[field.attribute] = read_field(given, f"{path}.{name}", problems)
            elif field.required:
                problems.append(_missing(field, path))
        if unknown is Unknown.REFUSE:
            problems.extend(_unknown_fields(value, path, names))
        return cls(**found) if len(problems) == problems_before else None

    return read_object


def _wrong_type(value: object, path: str, wanted: str) -> Problem:
    """The problem with a value of another type than `wanted`, which is in words."""
    return Problem(path, f"is {_in_words(value)}", f"write {wanted}")


def _in_words(value: object) -> str:
    """The value as messages describe it."""
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the string {value!r}"
        case list() | tuple():
            return "a list"
        case None:
            return "empty"
        case _:
            return "an object"


def _wrong_text(text: str, path: str, minimum: int, maximum: int) -> list[Problem]:
    """The problem if a text is too short or too long."""
    if minimum <= len(text) <= maximum:
        return []
    return [
        Problem(path, f"has {len(text)} characters", f"write {minimum} to {maximum} characters")
    ]


def _wrong_form(text: str, path: str, pattern: Pattern) -> list[Problem]:
    """The problem if a text does not match its pattern."""
    if re.fullmatch(pattern.regex, text):
        return []
    return [Problem(path, f"is {text!r}", f"write {pattern.meaning}")]


def _wrong_size(size: int, path: str, minimum: int, maximum: int) -> list[Problem]:
    """The problem if a list or map has too few or too many entries."""
    if minimum <= size <= maximum:
        return []
    return [Problem(path, f"has {size} entries", f"list {minimum} to {maximum}")]


def _repeated(
    items: list[Any] | tuple[Any, ...], path: str, *, unique: bool, key: tuple[str, ...]
) -> list[Problem]:
    """A problem if two items of a list are equal, or have the same values of the key fields."""
    if unique:
        identities = list(items)
    elif key:
        identities = [tuple(item.get(name) for name in key) for item in items]
    else:
        return []
    if len(set(identities)) == len(identities):
        return []
    what = f"two items with the same {' and '.join(key)}" if key else "an item twice"
    return [Problem(path, f"has {what}", "remove one of them")]


def _missing(field: FieldShape, path: str) -> Problem:
    return Problem(f"{path}.{field.name}", "is missing", "add it")


def _unknown_fields(value: Mapping[str, object], path: str, names: set[str]) -> list[Problem]:
    """A problem for each field that is not one of `names`."""
    problems = []
    for name in sorted(set(value) - names):
        near = nearest(name, names)
        remedy = f"did you mean {near}?" if near else "remove it"
        problems.append(Problem(f"{path}.{name}", UNKNOWN_FIELD, remedy))
    return problems
