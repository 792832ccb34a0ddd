"""Secrets whose values are searched for, and the forms in which a program might show them.

A finding names the place and the form, never the value: findings are logged themselves.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import quote

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from chiplog_wire.scram import Mechanism, client_key, derived_keys

SHORTEST = 8
"""A shorter value would be found by chance, and should not be a secret."""

_BREAKS = re.compile(r"(?:\s|\\n|\\r)+")
"""What separates the lines of a text in base64: line ends, also as JSON writes them."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A secret value and where it belongs."""

    name: str
    value: bytes = field(repr=False)
    homes: frozenset[str] = frozenset()
    """Titles of the texts that may show it."""

    def __post_init__(self) -> None:
        assert len(self.value) >= SHORTEST, f"{self.name}: too short to be looked for"

    def forms(self) -> Mapping[str, str]:
        """The value in each encoding that is searched for, by the encoding's name.

        Base64 has three: the same bytes look different at each position modulo 3 in a longer text.
        """
        found = {}
        with suppress(UnicodeDecodeError):
            text = self.value.decode()
            found = {"as it is": text, "URL": quote(text, safe=""), "JSON": json.dumps(text)[1:-1]}
        found |= {"hex": self.value.hex(), "as Python shows bytes": repr(self.value)[2:-1]}
        for shift in range(3):
            encoded = _inside_base64(self.value, shift)
            found[f"base64, {shift} bytes into it"] = encoded
            found[f"base64 of URLs, {shift} bytes into it"] = encoded.translate(_OF_URLS)
        return found

    def found_in(self, text: "str | Text") -> str | None:
        """The name of the first encoding that the text contains; None if it contains none."""
        searched = Text.of(text) if isinstance(text, str) else text
        return next((form for form, value in self.forms().items() if searched.has(value)), None)


_OF_URLS = str.maketrans("+/", "-_")


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is searched."""

    plain: str
    lower: str
    """In lower case, for hexadecimal digits."""
    joined: str
    """Without line ends, so that base64 in lines is found, as that of a key."""

    @classmethod
    def of(cls, text: str) -> "Text":
        return cls(text, text.lower(), _BREAKS.sub("", text))

    def has(self, value: str) -> bool:
        is_hex = value.isalnum() and value.islower()
        return value in self.plain or value in self.joined or (is_hex and value in self.lower)


def _inside_base64(raw: bytes, shift: int) -> str:
    """The base64 characters for `raw` inside longer data, where it begins at `shift` modulo 3.

    Characters at both ends that also encode bits of neighbouring bytes are left out.
    """
    encoded = base64.b64encode(bytes(shift) + raw).decode().rstrip("=")
    # Each character has 6 bits: `shift` bytes before reach into the first 0, 2 or 3 characters.
    first = (0, 2, 3)[shift]
    return encoded[first:] if (shift + len(raw)) % 3 == 0 else encoded[first:-1]


def of_key(name: str, pem: bytes, homes: frozenset[str]) -> Canary:
    """The number that makes a key private: it is in every encoding of the key."""
    key = load_pem_private_key(pem, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        number, bits = key.private_numbers().private_value, key.key_size
    else:
        number, bits = key.private_numbers().d, key.key_size
    return Canary(f"{name}, the key's number", number.to_bytes(-(-bits // 8), "big"), homes)


def of_verifier(name: str, verifier: bytes, homes: frozenset[str]) -> Iterator[Canary]:
    """The keys that brokers have of a user's password; see `metadata/kubernetes/verifiers.py`."""
    for mechanism, stored in json.loads(verifier).items():
        for key in ("storedKey", "serverKey"):
            value = base64.b64decode(stored[key])
            yield Canary(f"{name}, {key} of {mechanism}", value, homes)


def of_password(name: str, password: str, verifier: bytes) -> Iterator[Canary]:
    """What follows from a password, and with which anybody could log in: nobody keeps it."""
    for mechanism_name, stored in json.loads(verifier).items():
        mechanism = Mechanism(mechanism_name)
        salted = hashlib.pbkdf2_hmac(
            mechanism.hash_name,
            password.encode(),
            base64.b64decode(stored["salt"]),
            stored["iterations"],
        )
        expected = base64.b64decode(stored["storedKey"])
        assert derived_keys(mechanism, salted).stored_key == expected, f"{name}: another password"
        yield Canary(f"{name}, salted for {mechanism_name}", salted)
        yield Canary(f"{name}, client key of {mechanism_name}", client_key(mechanism, salted))


def merged(canaries: Iterable[Canary]) -> list[Canary]:
    """One canary for each value. Secrets may share one, as a password that was given: it is at home
    in each of them."""
    found: dict[bytes, Canary] = {}
    for one in canaries:
        known = found.setdefault(one.value, one)
        found[one.value] = Canary(known.name, one.value, known.homes | one.homes)
    return list(found.values())


def search(
    canaries: Iterable[Canary], shown: Iterable[tuple[str, str]]
) -> tuple[list[str], list[str]]:
    """Search (title, text) pairs for secret values.

    Returns the titles of what was searched, and a line for each secret found in a text that is not
    meant to hold it.
    """
    known = list(canaries)
    searched, found = [], []
    for title, text in shown:
        searched.append(title)
        whole = Text.of(text)
        found += [
            f"{canary.name} stands in {title} ({form})"
            for canary in known
            if title not in canary.homes and (form := canary.found_in(whole))
        ]
    return searched, found
