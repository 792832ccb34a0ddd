"""What a broker reads from certificates: the distinguished name of the subject, and the expiry.

Python's `ssl` shows a certificate as text, without the types of its values. Java writes an
attribute without a name in RFC 2253, such as an e-mail address, with the encoded value. So the few
fields are read here from the encoded certificate (X.509: RFC 5280, DER: X.690).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NamedTuple

NAMES: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Attribute types with a name in RFC 2253; others are written as numbers."""

UTC_TIME: Final = 0x17
EXPLICIT_VERSION: Final = 0xA0
STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E})
"""The tags of UTF8String, PrintableString, T61String, IA5String, GeneralString, UniversalString and
BMPString. Java reads the bytes of all of them as UTF-8."""

ESCAPED: Final = frozenset(',=+<>#;"\\')
BLANKS: Final = " \r"


class Element(NamedTuple):
    """One element of DER."""

    tag: int
    content: bytes
    encoded: bytes
    """With its tag and length."""


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER, as Java's `X500Principal.getName()` writes it: RFC 2253,
    for example `CN=orders,O=Example`. Raises `ValueError` if it is no certificate."""
    subject = _field_of(certificate, 4)
    relative_names = [
        "+".join(_attribute(one) for one in _elements(relative.content))
        for relative in _elements(subject.content)
    ]
    return ",".join(reversed(relative_names))


def not_after_s(certificate: bytes) -> int:
    """When a certificate in DER expires, in seconds since 1970. Raises `ValueError`."""
    _, end = _elements(_field_of(certificate, 3).content)
    text = end.content.decode("ascii")
    if end.tag == UTC_TIME:  # two digits of the year: 50 is 1950 (RFC 5280, 4.1.2.5.1)
        text = ("19" if text[:2] >= "50" else "20") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp())


def _field_of(certificate: bytes, index: int) -> Element:
    """A field of the signed part, counted without the version: serial number, signature, issuer,
    validity, subject. Raises `ValueError`."""
    signed = _first(_first(certificate).content)
    fields = list(_elements(signed.content))
    if fields and fields[0].tag == EXPLICIT_VERSION:
        del fields[0]
    if len(fields) <= index:
        raise ValueError("a certificate ends early")
    return fields[index]


def _first(data: bytes) -> Element:
    """The first element in `data`. Raises `ValueError` if there is none."""
    for element in _elements(data):
        return element
    raise ValueError("a certificate ends early")


def _attribute(element: Element) -> str:
    """One `type=value` of a name."""
    kind, value = _elements(element.content)
    number = _object_identifier(kind.content)
    name = NAMES.get(number)
    if name is not None and value.tag in STRINGS:
        try:
            return f"{name}={_escaped(value.content.decode())}"
        except UnicodeDecodeError:
            pass  # replaced bytes would give different subjects the same name
    return f"{name or number}=#{value.encoded.hex()}"


def _escaped(text: str) -> str:
    """The text of a value, with special characters and outer blanks escaped."""
    inner = "".join(_escaped_character(one) for one in text)
    start = len(inner) - len(inner.lstrip(BLANKS))
    end = max(len(inner.rstrip(BLANKS)), start)
    return "".join(
        (*(f"\\{one}" for one in inner[:start]), inner[start:end], *(f"\\{x}" for x in inner[end:]))
    )


def _escaped_character(character: str) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if character in ESCAPED else character


def _object_identifier(content: bytes) -> str:
    """An object identifier in its usual form, like 2.5.4.3. Raises `ValueError`."""
    if not content or content[-1] >= 0x80:
        raise ValueError("a number in a certificate ends early")
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _elements(data: bytes) -> Iterator[Element]:
    """The elements in `data`, one after the other. Raises `ValueError` for bytes that are none."""
    position = 0
    while position < len(data):
        try:
            start = position + 2
            size = data[position + 1]
            if size >= 0x80:
                start += size & 0x7F
                size = int.from_bytes(data[position + 2 : start], "big")
        except IndexError:
            raise ValueError("an element of a certificate ends early") from None
        end = start + size
        if end > len(data):
            raise ValueError("an element of a certificate ends early")
        yield Element(data[position], data[start:end], data[position:end])
        position = end
