"""All messages without a codec of their own: kio's types and writer, but another reader.

kio's native reader allocates memory for every announced element: twenty bytes of a client, an array
of 2^31-1 inside an array of 2^31-1, abort the process. So requests are read here, with the limits
of `Reader`, by functions that are created once from kio's dataclasses.

Handlers see the newest version of each message. A request of an older version is converted to it,
with Kafka's defaults for absent fields; its answer is written in the older layout, without fields
that this version lacks. If a version differs in more than its fields, `reshape` converts it.
"""

import io
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, Final

from kio.serial import entity_writer

from chiplog_wire.protocol.apis import APIS, ApiKey
from chiplog_wire.protocol.codec import reshape, schema
from chiplog_wire.protocol.codec.schema import Shape
from chiplog_wire.protocol.errors import ErrorCode, ProtocolViolation
from chiplog_wire.protocol.reader import FLOAT64, INT8, INT64, Reader

Read = Callable[[Reader], Any]
_ERROR_CODES: Final = frozenset(ErrorCode)
# The maximum of Python's timedelta; Kafka's field holds a hundred times as much.
_LONGEST_MS: Final = timedelta.max // timedelta(milliseconds=1)
_SHORTEST_MS: Final = timedelta.min // timedelta(milliseconds=1)


def decode_request(key: ApiKey, version: int, body: memoryview) -> object:
    """A request as kio's newest dataclass. Raises `ProtocolViolation` or `MALFORMED`."""
    reader = Reader(body, compact=APIS[key].is_flexible(version))
    return _request_reader(key, version)(reader)


def read_exactly(key: ApiKey, version: int, body: memoryview) -> Any:
    """A request as kio's dataclass of its own version. Raises `ProtocolViolation` or
    `MALFORMED`."""
    reader = Reader(body, compact=APIS[key].is_flexible(version))
    return _exact_reader(key, version)(reader)


def write_exactly(message: Any) -> bytes:
    """Encode a request or an answer, given as kio's dataclass of the version in use."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def encode_response(key: ApiKey, version: int, message: object) -> bytes:
    """The body of an answer given as kio's newest dataclass."""
    buffer = io.BytesIO()
    _response_writer(key, version)(buffer, reshape.older_response(key, version, message))
    return buffer.getvalue()


@cache
def _exact_reader(key: ApiKey, version: int) -> Read:
    """A function that reads requests as dataclasses of their own version."""
    layout = schema.request_class(key, version)
    return structure_reader(layout, layout)


@cache
def _response_writer(key: ApiKey, version: int) -> Callable[[io.BytesIO, Any], None]:
    return entity_writer(schema.response_class(key, version))


@cache
def _request_reader(key: ApiKey, version: int) -> Read:
    """A function that reads requests of this version as dataclasses of the newest version."""
    newest = schema.request_class(key, APIS[key].max_version)
    return structure_reader(
        schema.request_class(key, version), newest, reshape.request_values(key, version)
    )


def structure_reader(
    layout: type[Any], target: type[Any], convert: Callable[[dict[str, Any]], None] | None = None
) -> Read:
    """Create a function that reads a structure with the fields of the dataclass `layout` and
    returns a `target`.

    Fields that `layout` lacks get their default. `convert` changes the fields in place before the
    target is created.
    """
    target_shapes = schema.shapes(target)
    plain: list[tuple[str, Read]] = []
    tagged: list[tuple[int, str, Read]] = []
    for name, shape in schema.shapes(layout).items():
        read = _field_reader(shape, target_shapes.get(name))
        if shape.tag is None:
            plain.append((name, read))
        else:
            tagged.append((shape.tag, name, read))
    defaults = schema.defaults(target)

    def read_structure(reader: Reader) -> Any:
        values = defaults | {name: read(reader) for name, read in plain}
        if reader.compact:
            _read_tagged(reader, tagged, values)
        if convert is not None:
            convert(values)
        return target(**values)

    return read_structure


def _read_tagged(
    reader: Reader, tagged: list[tuple[int, str, Read]], values: dict[str, Any]
) -> None:
    """Add the tagged fields that are present to `values`. `tagged` has tag, name and reader of each
    known one."""
    if not tagged:
        reader.skip_tagged_fields()
        return
    present = reader.tagged_fields()
    for tag, name, read in tagged:
        if tag in present:
            values[name] = read(present[tag])
            present[tag].finish()


def _field_reader(shape: Shape, target_shape: Shape | None) -> Read:
    """A function that reads a field. `target_shape` is the field of the target; None if it has
    none, because a conversion removes the field."""
    if isinstance(shape.element, str):
        # Of a nullable array, the array may be null, but not its elements.
        read = _primitive_reader(shape.element, nullable=shape.is_nullable and not shape.is_array)
    else:
        target = target_shape.element if target_shape is not None else shape.element
        assert not isinstance(target, str)
        read = structure_reader(shape.element, target)
    if shape.is_array:
        return _array_reader(read, nullable=shape.is_nullable)
    if shape.is_nullable and not isinstance(shape.element, str):
        return _nullable_structure_reader(read)
    return read


def _array_reader(read: Read, *, nullable: bool) -> Read:
    """A function that reads an array, whose elements are read by `read`."""

    def read_array(reader: Reader) -> tuple[Any, ...]:
        return tuple([read(reader) for _ in range(reader.count())])

    def read_nullable_array(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.nullable_count()
        return None if count < 0 else tuple([read(reader) for _ in range(count)])

    return read_nullable_array if nullable else read_array


def _nullable_structure_reader(read: Read) -> Read:
    """A function that reads a structure that may be null; `read` reads it if it is not."""

    def read_nullable_structure(reader: Reader) -> Any:
        # The first byte is -1 if the structure is null (KIP-893).
        (present,) = reader.unpack(INT8)
        return read(reader) if present >= 0 else None

    return read_nullable_structure


def _primitive_reader(kafka_type: str, *, nullable: bool) -> Read:
    if kafka_type == "string":
        return Reader.nullable_string if nullable else Reader.string
    return _PRIMITIVES[kafka_type]


def _int8(reader: Reader) -> int:
    return int(reader.unpack(INT8)[0])


def _int64(reader: Reader) -> int:
    return int(reader.unpack(INT64)[0])


def _float64(reader: Reader) -> float:
    return float(reader.unpack(FLOAT64)[0])


def _bytes(reader: Reader) -> bytes:
    view = reader.nullable_view()
    if view is None:
        raise ProtocolViolation("bytes are null where they must not be")
    return bytes(view)


def _error_code(reader: Reader) -> ErrorCode:
    code = reader.int16()
    # An unknown code of a newer broker is an error, too.
    return ErrorCode(code) if code in _ERROR_CODES else ErrorCode.unknown_server_error


def _long_milliseconds(reader: Reader) -> timedelta:
    """A 64-bit duration, limited to what a timedelta can hold."""
    return timedelta(milliseconds=max(_SHORTEST_MS, min(_int64(reader), _LONGEST_MS)))


def _milliseconds(reader: Reader) -> timedelta:
    return timedelta(milliseconds=reader.int32())


_PRIMITIVES: Final[dict[str, Read]] = {
    "bool": Reader.boolean,
    "bytes": _bytes,
    "error_code": _error_code,
    "float64": _float64,
    "int8": _int8,
    "int16": Reader.int16,
    "int32": Reader.int32,
    "int64": _int64,
    "timedelta_i32": _milliseconds,
    "timedelta_i64": _long_milliseconds,
    "uuid": Reader.uuid,
}
