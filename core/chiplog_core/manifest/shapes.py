"""The shape of a declared type: which values it has in a manifest.

`shape_of` converts a declaration, like `Annotated[int, "Number of brokers.", Range(1, 200)]`, to a
tree of the dataclasses below. The reader, the writer and the generator of the resource definitions
work with that tree and not with Python types.

A text, list or map without a bound is a bug. `shape_of` raises `TypeError` for it, so that no
unbounded field can get into the API.
"""

import dataclasses
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from chiplog_core import durations, ids, quantities
from chiplog_core.config.key import KeyTable
from chiplog_core.limits import MAX_PARTITIONS_PER_TOPIC
from chiplog_core.manifest.constraints import Entries, Items, Length, Pattern, Range

ACRONYMS = {"mb": "MB", "ttl": "TTL", "uid": "UID", "uuid": "UUID", "uuids": "UUIDs"}
"""Words that the Kubernetes API writes in capitals inside a field's name."""


@dataclass(frozen=True, slots=True)
class BooleanShape:
    """`true` or `false`."""


@dataclass(frozen=True, slots=True)
class IntegerShape:
    """A whole number in a range."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class NumberShape:
    """A number in a range, with or without a fraction."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class TextShape:
    """A text of bounded length, with or without a pattern."""

    min_length: int
    max_length: int
    pattern: Pattern | None = None


@dataclass(frozen=True, slots=True)
class ValueShape:
    """A text that one of the classes in `ids` parses and formats."""

    type: type[ids.ReplicaRef | ids.Uuid]

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.type.TEXT_PATTERN, self.type.MEANING)


@dataclass(frozen=True, slots=True)
class QuantityShape:
    """A Kubernetes quantity, which may also be written as a number."""


@dataclass(frozen=True, slots=True)
class ChoiceShape:
    """One of a few words."""

    type: type[StrEnum]


@dataclass(frozen=True, slots=True)
class TimeShape:
    """A time: RFC 3339 with a time zone."""


@dataclass(frozen=True, slots=True)
class ListShape:
    """A list; in the program a tuple."""

    item: "Shape"
    items: Items
    """The constraints of the list."""


@dataclass(frozen=True, slots=True)
class MapShape:
    """A map from texts to values of one shape."""

    value: "Shape"
    entries: Entries


@dataclass(frozen=True, slots=True)
class ConfigShape:
    """Kafka configuration: a map whose keys have values of different types.

    Unknown keys are accepted here. `config.given` refuses them, with a better message.
    """

    table: KeyTable


@dataclass(frozen=True, slots=True)
class FieldShape:
    """One field of an object."""

    attribute: str
    """Name of the dataclass's attribute."""
    name: str
    """Name of the field in the manifest."""

    shape: "Shape"
    description: str
    default: Any = dataclasses.MISSING

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING


@dataclass(frozen=True, slots=True)
class ObjectShape:
    """The fields of a dataclass."""

    type: type[Any]
    description: str
    fields: tuple[FieldShape, ...]


Shape: TypeAlias = (
    BooleanShape
    | IntegerShape
    | NumberShape
    | TextShape
    | ValueShape
    | QuantityShape
    | ChoiceShape
    | TimeShape
    | ListShape
    | MapShape
    | ConfigShape
    | ObjectShape
)

C = TypeVar("C")

_NAMED: Mapping[object, Shape] = {
    bool: BooleanShape(),
    datetime: TimeShape(),
    ids.BrokerId: IntegerShape(1, ids.MAX_BROKER_ID),
    ids.Session: IntegerShape(0, ids.MAX_SESSION),
    ids.PartitionIndex: IntegerShape(0, MAX_PARTITIONS_PER_TOPIC - 1),
    ids.LeaderEpoch: IntegerShape(0, ids.MAX_INT32),
    ids.PartitionEpoch: IntegerShape(0, ids.MAX_INT32),
    ids.Offset: IntegerShape(0, ids.MAX_INT64),
    ids.Incarnation: TextShape(
        32, 32, Pattern(ids.INCARNATION_PATTERN, "32 lower-case hex digits")
    ),
    ids.ReplicaRef: ValueShape(ids.ReplicaRef),
    ids.TopicId: ValueShape(ids.TopicId),
    ids.StorageUuid: ValueShape(ids.StorageUuid),
    quantities.Quantity: QuantityShape(),
    durations.Duration: TextShape(
        2,
        durations.MAX_DURATION_LENGTH,
        Pattern(durations.DURATION_PATTERN, durations.DURATION_MEANING),
    ),
}
"""Types whose shape needs no further constraints."""


_object_shapes: dict[type[Any], ObjectShape] = {}


def object_shape(cls: type[Any]) -> ObjectShape:
    """The fields that a dataclass has in a manifest, from its annotations. Built once per class."""
    if cls not in _object_shapes:
        _object_shapes[cls] = _object_shape(cls)
    return _object_shapes[cls]


def _object_shape(cls: type[Any]) -> ObjectShape:
    """The shape of a dataclass, built new."""
    hints = get_type_hints(cls, include_extras=True)
    fields = tuple(
        FieldShape(
            attribute=field.name,
            name=manifest_name(field.name),
            shape=shape_of(hints[field.name]),
            description=_description(hints[field.name]),
            default=_default(field),
        )
        for field in dataclasses.fields(cls)
    )
    return ObjectShape(cls, first_paragraph(cls.__doc__ or ""), fields)


def _default(field: "dataclasses.Field[Any]") -> Any:
    """The default value of a field; `dataclasses.MISSING` if it has none."""
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def shape_of(annotation: Any) -> Shape:
    """The shape of a declared type. Raises `TypeError` for a type that cannot be in a manifest."""
    base, constraints = _type_and_constraints(annotation)
    if base in _NAMED:
        return _NAMED[base]
    if get_origin(base) is tuple:
        return ListShape(shape_of(get_args(base)[0]), _constraint(Items, constraints, annotation))
    if get_origin(base) is Mapping:
        for constraint in constraints:
            if isinstance(constraint, KeyTable):
                return ConfigShape(constraint)
        return MapShape(shape_of(get_args(base)[1]), _constraint(Entries, constraints, annotation))
    return _shape_of_plain_type(base, constraints, annotation)


def _shape_of_plain_type(base: Any, constraints: tuple[object, ...], annotation: Any) -> Shape:
    """The shape of a number, text, enumeration or dataclass. `annotation` is the whole declaration,
    for error messages. Raises `TypeError`."""
    if base is int:
        bounds = _constraint(Range, constraints, annotation)
        return IntegerShape(bounds.minimum, bounds.maximum)
    if base is float:
        bounds = _constraint(Range, constraints, annotation)
        return NumberShape(bounds.minimum, bounds.maximum)
    if base is str:
        length = _constraint(Length, constraints, annotation)
        patterns = [found for found in constraints if isinstance(found, Pattern)]
        return TextShape(length.minimum, length.maximum, patterns[0] if patterns else None)
    if isinstance(base, type) and issubclass(base, StrEnum):
        return ChoiceShape(base)
    if dataclasses.is_dataclass(base) and isinstance(base, type):
        return object_shape(base)
    raise TypeError(f"{annotation} has no form in a manifest")


def _type_and_constraints(annotation: Any) -> tuple[Any, tuple[object, ...]]:
    """The bare type and its constraints. `X | None` counts as `X`, because None is the default
    of an absent field."""
    constraints: tuple[object, ...] = ()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *found = get_args(annotation)
            constraints = (*found, *constraints)
        elif get_origin(annotation) in {types.UnionType, Union}:
            (annotation,) = (arg for arg in get_args(annotation) if arg is not type(None))
        else:
            return annotation, constraints


def _constraint(kind: type[C], constraints: tuple[object, ...], annotation: Any) -> C:
    """The constraint of this kind, which the annotation must have. Raises `TypeError`."""
    for constraint in constraints:
        if isinstance(constraint, kind):
            return constraint
    raise TypeError(f"{annotation} needs a {kind.__name__}")


def _description(annotation: Any) -> str:
    """The description of a field: the text among its annotations."""
    _, constraints = _type_and_constraints(annotation)
    return next((found for found in constraints if isinstance(found, str)), "")


def first_paragraph(docstring: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)[0].split())


def manifest_name(attribute: str) -> str:
    """`owner_uid` → `ownerUID`: a field's name as the Kubernetes API writes it.

    A trailing underscore, which Python needs for `class_`, is dropped.
    """
    first, *others = attribute.rstrip("_").split("_")
    return first + "".join(ACRONYMS.get(word, word.capitalize()) for word in others)
