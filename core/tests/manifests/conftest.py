"""Random values of every declared type, for tests that hold for all of them."""

import string
from collections.abc import Callable
from datetime import UTC, datetime
from functools import singledispatch
from typing import Any

import pytest
from hypothesis import strategies as st

from chiplog_core.config.key import ConfigKey
from chiplog_core.ids import MAX_BROKER_ID, MAX_SESSION, BrokerId, ReplicaRef, Session
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
    manifest_name,
    object_shape,
)

MANY = 3
"""Lists and maps are drawn up to this size: enough for every rule about them."""


@singledispatch
def values(shape: Shape) -> st.SearchStrategy[Any]:
    """Values of a shape."""
    raise TypeError(f"no strategy for {shape}")


@values.register
def _boolean(_shape: BooleanShape) -> st.SearchStrategy[bool]:
    return st.booleans()


@values.register
def _integer(shape: IntegerShape) -> st.SearchStrategy[int]:
    return st.integers(shape.minimum, shape.maximum)


@values.register
def _number(shape: NumberShape) -> st.SearchStrategy[float]:
    return st.floats(shape.minimum, shape.maximum)


@values.register
def _text(shape: TextShape) -> st.SearchStrategy[str]:
    length = shape.max_length
    if shape.pattern is None:
        alphabet = string.ascii_letters + string.digits + " .-/é"
        return st.text(alphabet, min_size=shape.min_length, max_size=min(length, 20))
    texts = st.from_regex(shape.pattern.regex, fullmatch=True, alphabet=string.printable)
    return texts.filter(lambda text: shape.min_length <= len(text) <= length)


@values.register
def _value(shape: ValueShape) -> st.SearchStrategy[Any]:
    kind = shape.type
    if issubclass(kind, ReplicaRef):
        return st.builds(
            kind,
            broker_id=st.integers(1, MAX_BROKER_ID).map(BrokerId),
            session=st.integers(1, MAX_SESSION).map(Session),
        )
    return st.integers(2, 2**128 - 1).map(lambda number: kind(number.to_bytes(16, "big")))


@values.register
def _quantity(_shape: QuantityShape) -> st.SearchStrategy[str]:
    return st.builds("{}{}".format, st.integers(0, 1000), st.sampled_from(["", "Mi", "Gi", "m"]))


@values.register
def _choice(shape: ChoiceShape) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(shape.type))


@values.register
def _time(_shape: TimeShape) -> st.SearchStrategy[datetime]:
    first, last = datetime(2020, 1, 1), datetime(2040, 1, 1)  # noqa: DTZ001 - zone added below
    return st.datetimes(first, last, timezones=st.just(UTC))


@values.register
def _list(shape: ListShape) -> st.SearchStrategy[tuple[Any, ...]]:
    items = shape.items

    def identity(item: Any) -> Any:
        if not items.key:
            return item if items.unique else object()
        fields = {manifest_name(name): name for name in item.__dataclass_fields__}
        return tuple(str(getattr(item, fields[name])) for name in items.key)

    size = max(items.minimum, min(items.maximum, MANY))
    drawn = st.lists(values(shape.item), min_size=items.minimum, max_size=size, unique_by=identity)
    return drawn.map(tuple)


@values.register
def _map(shape: MapShape) -> st.SearchStrategy[dict[str, Any]]:
    names = st.text(string.ascii_lowercase, min_size=1, max_size=8)
    return st.dictionaries(names, values(shape.value), max_size=min(MANY, shape.entries.maximum))


@values.register
def _config(shape: ConfigShape) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(st.sampled_from(sorted(shape.table)), max_size=MANY, unique=True).map(
        lambda names: {name: _default_text(shape.table[name]) for name in names}
    )


def _default_text(key: ConfigKey[Any]) -> str:
    return "" if key.default is None else key.format(key.default)


@values.register
def _object(shape: ObjectShape) -> st.SearchStrategy[Any]:
    return st.builds(
        shape.type, **{field.attribute: _field_values(field) for field in shape.fields}
    )


def _field_values(field: FieldShape) -> st.SearchStrategy[Any]:
    drawn = values(field.shape)
    return drawn if field.required else st.one_of(st.just(field.default), drawn)


@pytest.fixture(scope="session")
def values_of() -> Callable[[type[Any]], st.SearchStrategy[Any]]:
    """Random values of a dataclass, from its declared shape."""
    made: dict[type[Any], st.SearchStrategy[Any]] = {}

    def values_of_class(cls: type[Any]) -> st.SearchStrategy[Any]:
        if cls not in made:  # to make one takes longer than to draw from it
            made[cls] = values(object_shape(cls))
        return made[cls]

    return values_of_class
