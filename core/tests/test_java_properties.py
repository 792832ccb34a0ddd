"""Java's properties files: what `java.util.Properties.load` reads, and the errors."""

import pytest

from chiplog_core.config.java_properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("# comment\n! too\n\n   \n\t# indented\na=1\n", {"a": "1"}),
        ("a = 1\nb: 2\nc=\n", {"a": "1", "b": "2", "c": ""}),
        ("a=1=2:3\n", {"a": "1=2:3"}),
        ("a=x:1,\\\n  y:2,\\\n\tz:3\n", {"a": "x:1,y:2,z:3"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\\\nb=2\n", {"a": "1\\", "b": "2"}),
        ("a\\=b\\:c=1\n", {"a=b:c": "1"}),
        (r"a=\t\n\r\fe", {"a": "\t\n\r\fe"}),
        (r"a=\u00e4\x\"", {"a": 'äx"'}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        (r"a=\ud83d, \ude00", {"a": "\ufffd, \ufffd"}),
        ("a=#1\n", {"a": "#1"}),
        ("a=1\\\n#2\n", {"a": "1#2"}),
    ],
)
def test_what_is_read(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("secret", "line 1: write key=value"),
        ("=secret", "line 1: write key=value"),
        ("a\\=secret", "line 1: write key=value"),
        ("a=1\nb=2\na=secret", "line 3: a is already set in line 1; remove one of the two"),
    ],
)
def test_an_error_names_the_line_and_not_what_is_in_it(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        parse_properties(text)
    assert "secret" not in str(refused.value)
