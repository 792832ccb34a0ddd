"""Records as lines: those that `produce` reads, and those that `consume` prints."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chiplog_cli.moments import moment_text
from chiplog_cli.printable import in_a_line


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """How a line is parsed as a record."""

    key_separator: bytes | None = None
    """If set, every line has a key, which ends at the first separator."""
    null_marker: bytes | None = None
    """If set, a key or value that equals it is null."""


def record_of(line: bytes, form: LineFormat) -> tuple[bytes | None, bytes | None]:
    """Key and value of a line without its end. A `ValueError` says what is missing."""
    if form.key_separator is None:
        return None, _null_or_text(line, form)
    key, separator, value = line.partition(form.key_separator)
    if not separator:
        shown = form.key_separator.decode(errors="backslashreplace")
        raise ValueError(f"has no key: write KEY{shown}VALUE, or remove --key-separator")
    return _null_or_text(key, form), _null_or_text(value, form)


def _null_or_text(text: bytes, form: LineFormat) -> bytes | None:
    """The text; None if it is the marker for null."""
    return None if text == form.null_marker else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as it was read. A timestamp below 0 says that it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def text(record: Record) -> str:
    """`Partition:0<TAB>Offset:7<TAB>key<TAB>value`, as `kafka-console-consumer.sh` prints it."""
    fields = (f"Partition:{record.partition}", f"Offset:{record.offset}")
    return "\t".join((*fields, _shown(record.key), _shown(record.value)))


def document(record: Record) -> dict[str, Any]:
    """The record as a document. Bytes that are not UTF-8 are in `keyBase64` or `valueBase64`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": moment_text(record.timestamp_ms) if record.timestamp_ms >= 0 else None,
        **_field("key", record.key),
        **_field("value", record.value),
    }


def _shown(part: bytes | None) -> str:
    """A key or value as text on one line; `null` if there is none."""
    return "null" if part is None else in_a_line(part.decode(errors="backslashreplace"))


def _field(name: str, part: bytes | None) -> Mapping[str, str | None]:
    """The field with a key or value. Bytes that are not UTF-8 are in `<name>Base64`."""
    if part is None:
        return {name: None}
    try:
        return {name: part.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64.b64encode(part).decode()}
