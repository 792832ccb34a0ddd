"""Keys and certificates, made: everything is PEM text.

Keys are of the elliptic curve P-256, which every client supports. A CA may issue certificates of
servers and clients, but no further CA (path length 0). RFC 5280 has the extensions.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificateIssuerPrivateKeyTypes,
    CertificatePublicKeyTypes,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from chiplog_core.certificates.servers import is_address

MAX_COMMON_NAME_LENGTH = 64
"""The limit of RFC 5280."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Validity:
    """From when to when a certificate is valid."""

    not_before: datetime
    not_after: datetime


def new_key() -> str:
    """A new private key, in PKCS #8."""
    return (
        ec.generate_private_key(ec.SECP256R1())
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )


def read_key(pem: str) -> CertificateIssuerPrivateKeyTypes:
    """The private key. Raises `ValueError` if it cannot be used."""
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the key cannot be used: {error}") from error
    if not isinstance(
        key,
        ec.EllipticCurvePrivateKey
        | rsa.RSAPrivateKey
        | ed25519.Ed25519PrivateKey
        | ed448.Ed448PrivateKey,
    ):
        raise ValueError("the key is of a kind that cannot sign certificates")
    return key


def key_id(public_key: CertificatePublicKeyTypes) -> str:
    """SHA-256 of the public key, in hex."""
    return hashlib.sha256(
        public_key.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    ).hexdigest()


def sign_authority(key_pem: str, name: str, validity: Validity) -> str:
    """A certificate for a CA, signed with its own key. Certificates of different keys have
    different subjects, so that a client finds the issuer by its name."""
    key = read_key(key_pem)
    subject = _subject(f"{name} {key_id(key.public_key())[:8]}")
    builder = (
        _builder(subject, subject, key.public_key(), validity)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key)


class Usage(Enum):
    """At which ends of connections a certificate is shown (RFC 5280, 4.2.1.12)."""

    SERVER = (ExtendedKeyUsageOID.SERVER_AUTH,)
    CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)
    BOTH = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whom a certificate is for."""

    subject: x509.Name
    hosts: frozenset[str] = frozenset()
    """Its names and addresses."""
    usage: Usage

    @classmethod
    def process(cls, name: str, hosts: Iterable[str], usage: Usage) -> "Owner":
        """A process of the cluster: a broker, or the operator."""
        return cls(subject=_subject(name), hosts=frozenset(hosts), usage=usage)

    @classmethod
    def user(cls, name: str) -> "Owner":
        """A user, with the subject `CN=<name>`, from which Kafka makes its principal."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return cls(subject=subject, usage=Usage.CLIENT)


def sign_leaf(issuer: tuple[str, str], key_pem: str, owner: Owner, validity: Validity) -> str:
    """A certificate that can issue no others. `issuer` is the certificate of the CA, and its
    key."""
    authority, authority_key = (
        x509.load_pem_x509_certificate(issuer[0].encode()),
        read_key(issuer[1]),
    )
    public_key = read_key(key_pem).public_key()
    builder = (
        _builder(owner.subject, authority.subject, public_key, validity)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(owner.usage.value), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
        .add_extension(_authority_key(authority), critical=False)
    )
    if owner.hosts:
        builder = builder.add_extension(_alternative_names(owner.hosts), critical=False)
    return _signed(builder, authority_key)


def _alternative_names(hosts: Iterable[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [
            x509.IPAddress(ip_address(host)) if is_address(host) else x509.DNSName(host)
            for host in sorted(hosts)
        ]
    )


def _authority_key(authority: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """The identifier of the issuer's key, which must be the one that the issuer itself names."""
    try:
        named = authority.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        public_key = authority.public_key()
        assert isinstance(
            public_key,
            ec.EllipticCurvePublicKey
            | rsa.RSAPublicKey
            | ed25519.Ed25519PublicKey
            | ed448.Ed448PublicKey,
        ), "read_key accepted its private key"
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(public_key)
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(named)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: CertificatePublicKeyTypes,
    validity: Validity,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(validity.not_before)
        .not_valid_after(validity.not_after)
    )


def _signed(builder: x509.CertificateBuilder, key: CertificateIssuerPrivateKeyTypes) -> str:
    """The signed certificate. Edwards curves have a hash of their own."""
    is_edwards = isinstance(key, ed25519.Ed25519PrivateKey | ed448.Ed448PrivateKey)
    algorithm = None if is_edwards else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM).decode()


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "chiplog.dev"),
            x509.NameAttribute(NameOID.COMMON_NAME, name[:MAX_COMMON_NAME_LENGTH]),
        ]
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """What the key is for: to sign certificates, or in handshakes."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
