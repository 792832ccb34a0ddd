"""The hash that Java's clients use, against values they give."""

import pytest

from e2e.clients.hashes import murmur2


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"abc", 479470107),
    ],
)
def test_murmur2(data: bytes, expected: int) -> None:
    assert murmur2(data) == expected & 0xFFFFFFFF
