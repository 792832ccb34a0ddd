"""Lines as records, and records as lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_cli.records import LineFormat, Record, document, record_of, text

KEYED = LineFormat(key_separator=b":", null_marker=b"NULL")


@pytest.mark.parametrize(
    ("line", "form", "key", "value"),
    [
        (b"a:b", LineFormat(), None, b"a:b"),
        (b"", LineFormat(), None, b""),
        (b"a:b:c", KEYED, b"a", b"b:c"),
        (b":b", KEYED, b"", b"b"),
        (b"a:NULL", KEYED, b"a", None),
        (b"NULL:NULL", KEYED, None, None),
        (b"NULL", LineFormat(null_marker=b"NULL"), None, None),
    ],
)
def test_a_line(line: bytes, form: LineFormat, key: bytes | None, value: bytes | None) -> None:
    assert record_of(line, form) == (key, value)


def test_a_line_without_a_key() -> None:
    with pytest.raises(ValueError, match="has no key: write KEY:VALUE"):
        record_of(b"alone", KEYED)


@given(st.binary().filter(lambda key: b":" not in key), st.binary())
def test_any_key_and_value_come_back(key: bytes, value: bytes) -> None:
    assert record_of(key + b":" + value, LineFormat(key_separator=b":")) == (key, value)


def record(key: bytes | None, value: bytes | None, timestamp_ms: int = 0) -> Record:
    return Record(
        topic="orders", partition=1, offset=7, timestamp_ms=timestamp_ms, key=key, value=value
    )


def test_as_text() -> None:
    assert text(record(b"k", "naïve".encode())) == "Partition:1\tOffset:7\tk\tnaïve"
    assert text(record(None, b"\xff")) == "Partition:1\tOffset:7\tnull\t\\xff"


def test_as_a_document() -> None:
    assert document(record(b"k", None)) == {
        "topic": "orders",
        "partition": 1,
        "offset": 7,
        "timestamp": "1970-01-01T00:00:00.000Z",
        "key": "k",
        "value": None,
    }
    told = document(record(b"\xff", b"v", timestamp_ms=-1))
    assert (told["keyBase64"], told["value"], told["timestamp"]) == ("/w==", "v", None)
    assert "key" not in told
