"""What one process encrypts for another one: only that one, at that place, can read it."""

from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chiplog_wire.sealing import NotOpened, seal, unseal

NONCE = bytes(range(12))
PLACE = ("ns", "cluster", "request", "alice")
PLACES = st.lists(st.text(max_size=4), max_size=4).map(tuple)


@given(st.text(max_size=300), PLACES, st.binary(min_size=12, max_size=12))
def test_what_is_sealed_can_be_opened(text: str, place: tuple[str, ...], nonce: bytes) -> None:
    sealed = seal("secret", place, text, nonce)
    assert unseal(["newer", "secret"], place, sealed) == text


@given(PLACES, PLACES)
def test_it_is_bound_to_its_place(place: tuple[str, ...], other: tuple[str, ...]) -> None:
    sealed = seal("secret", place, "text", NONCE)
    if place != other:
        with pytest.raises(NotOpened):
            unseal(["secret"], other, sealed)


@given(st.integers(0, 31), st.integers(1, 255))
def test_a_changed_text_is_refused(index: int, bits: int) -> None:
    content = bytearray(b64decode(seal("secret", PLACE, "text", NONCE)))
    content[index % len(content)] ^= bits
    with pytest.raises(NotOpened):
        unseal(["secret"], PLACE, b64encode(content).decode())


@pytest.mark.parametrize("sealed", ["", "A", "ü", "AAAA", b64encode(bytes(12)).decode()])
def test_no_sealed_text_is_refused(sealed: str) -> None:
    with pytest.raises(NotOpened):
        unseal(["secret"], PLACE, sealed)


def test_nothing_of_the_text_is_readable() -> None:
    sealed = seal("secret", PLACE, "storedKey", NONCE)
    assert b"storedKey" not in b64decode(sealed)
    with pytest.raises(NotOpened, match="another secret"):
        unseal(["other"], PLACE, sealed)


def test_an_empty_secret_seals_nothing() -> None:
    with pytest.raises(ValueError, match="empty"):
        seal("", PLACE, "text", NONCE)
