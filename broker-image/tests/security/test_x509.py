"""Names and expiry of certificates. The expected names are what Java 17's `X500Principal.getName`
printed for the same certificates."""

import ssl
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as Oid
from hypothesis import given
from hypothesis import strategies as st

from chiplog_broker.security.x509 import distinguished_name, not_after_s
from e2e.kafka.certificates import Authority, common_name, unsigned

KEY = ec.generate_private_key(ec.SECP256R1())


def encoded(*subject: x509.RelativeDistinguishedName) -> bytes:
    builder = unsigned(common_name("issuer"), x509.Name(subject), KEY)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def relative(*pairs: tuple[x509.ObjectIdentifier, str]) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(*pair) for pair in pairs])


def of_type(
    oid: x509.ObjectIdentifier, text: str, kind: _ASN1Type
) -> x509.RelativeDistinguishedName:
    return x509.RelativeDistinguishedName([x509.NameAttribute(oid, text, kind)])


NAMES = [
    ([], ""),
    ([relative((Oid.COMMON_NAME, "x"))], "CN=x"),
    (
        [
            relative((Oid.COUNTRY_NAME, "DE")),
            relative((Oid.STATE_OR_PROVINCE_NAME, "Bavaria")),
            relative((Oid.LOCALITY_NAME, "Münch,en")),
            relative((Oid.ORGANIZATION_NAME, 'A "B" + <c>; \\ = #')),
            relative((Oid.ORGANIZATIONAL_UNIT_NAME, " lead")),
            relative((Oid.COMMON_NAME, "trail  ")),
        ],
        r"CN=trail\ \ ,OU=\ lead,O=A \"B\" \+ \<c\>\; \\ \= \#,L=Münch\,en,ST=Bavaria,C=DE",
    ),
    (
        [
            of_type(Oid.EMAIL_ADDRESS, "a@b.c", _ASN1Type.IA5String),
            of_type(Oid.DOMAIN_COMPONENT, "example", _ASN1Type.IA5String),
            relative((Oid.USER_ID, "u1")),
            relative((Oid.STREET_ADDRESS, "Street 1")),
            relative((Oid.SERIAL_NUMBER, "42")),
            relative((Oid.COMMON_NAME, "#x#")),
        ],
        (
            r"CN=\#x\#,2.5.4.5=#13023432,STREET=Street 1,UID=u1,DC=example,"
            "1.2.840.113549.1.9.1=#16056140622e63"
        ),
    ),
    (
        [
            relative((Oid.COMMON_NAME, "b"), (Oid.ORGANIZATIONAL_UNIT_NAME, "a")),
            of_type(Oid.ORGANIZATION_NAME, "bmp", _ASN1Type.BMPString),
            relative((Oid.TITLE, "Dr")),
        ],
        r"2.5.4.12=#0c024472,O=\00b\00m\00p,CN=b+OU=a",
    ),
    ([relative((Oid.COMMON_NAME, "日本 😀 /:?'()-."))], "CN=日本 😀 /:?'()-."),
    (
        [
            relative((Oid.COMMON_NAME, "x\x00y")),
            relative((Oid.ORGANIZATION_NAME, " ")),
            relative((Oid.ORGANIZATION_NAME, "\r\n a\t ")),
        ],
        "O=\\\r\n a\t\\ ,O=\\ ,CN=x\\00y",
    ),
]


@pytest.mark.parametrize(("subject", "name"), NAMES)
def test_a_name_is_what_java_makes_of_it(
    subject: list[x509.RelativeDistinguishedName], name: str
) -> None:
    assert distinguished_name(encoded(*subject)) == name


def test_bytes_that_are_no_text_stay_distinguishable() -> None:
    # One byte of the text is replaced, so the length stays right.
    one, other = (
        encoded(relative((Oid.COMMON_NAME, "namE"))).replace(b"namE", b"nam" + last)
        for last in (b"\xfe", b"\xff")
    )
    assert distinguished_name(one) == "CN=#0c046e616dfe"
    assert distinguished_name(other) == "CN=#0c046e616dff"


@pytest.mark.parametrize("year", [2049, 2050, 2051, 2105])
def test_the_expiry_is_read(year: int) -> None:
    end = datetime(year, 5, 6, 7, 8, 9, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        common_name("i"),
        common_name("s"),
        KEY.public_key(),
        5,
        datetime(2020, 1, 1, tzinfo=UTC),
        end,
    )
    made = builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    assert not_after_s(made) == int(end.timestamp())


WHOLE = encoded(*NAMES[2][0])
CHANGES = st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=4)


@given(CHANGES)
def test_whatever_the_bytes_only_a_value_is_wrong(changes: list[tuple[int, int]]) -> None:
    whole = bytearray(WHOLE)
    for position, byte in changes:
        whole[position] = byte
    for read in (distinguished_name, not_after_s):
        with suppress(ValueError):
            read(bytes(whole))


def test_a_certificate_that_ends_early_is_no_certificate() -> None:
    issued = Authority.create().client("x")
    whole = ssl.PEM_cert_to_DER_cert(issued.certificate.decode())
    assert distinguished_name(whole) == "CN=x"
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="ends early"):
            distinguished_name(whole[:size])
