"""What certificates in PEM say, as `chiplog_core.certificates` decides by it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID

from chiplog_core.certificates.authority import CaCertificate, Issued
from chiplog_operator.certificates.issuing import key_id


def read_certificates(pem: str) -> list[x509.Certificate]:
    """All certificates in the text. Raises `ValueError` if it has none, or one is broken."""
    return x509.load_pem_x509_certificates(pem.encode())


def pem_of(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of the certificate, in hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


@contextmanager
def _parsing() -> Iterator[None]:
    """Raises `ValueError` for what `cryptography` finds only when a part of a certificate is used,
    and reports by exceptions of other kinds."""
    try:
        yield
    except (
        UnsupportedAlgorithm,
        x509.DuplicateExtension,
        x509.InvalidVersion,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise ValueError(str(error)) from error


@_parsing()
def ca_facts(certificate: x509.Certificate) -> CaCertificate:
    """A published certificate of a CA. Raises `ValueError` if a part of it cannot be parsed."""
    return CaCertificate(
        fingerprint=fingerprint(certificate),
        key_id=key_id(certificate.public_key()),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        is_authority=_is_authority(certificate),
    )


@_parsing()
def leaf_facts(pem: str, authorities: Sequence[x509.Certificate]) -> Issued:
    """The certificate of a broker, of the operator or of a user. Raises `ValueError` if it cannot
    be parsed."""
    certificate = read_certificates(pem)[0]
    issuers = (one for one in authorities if _is_issued_by(certificate, one))
    issuer = next(issuers, None)
    return Issued(
        issuer="" if issuer is None else key_id(issuer.public_key()),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        hosts=_hosts(certificate),
        is_for_both_ends=is_for_both_ends(certificate),
        fingerprint=fingerprint(certificate),
    )


def _is_authority(certificate: x509.Certificate) -> bool:
    """Whether the certificate may issue others."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return constraints.value.ca


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether the CA's key signed the certificate, and its subject is the issuer."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, UnsupportedAlgorithm, TypeError, ValueError):
        return False
    return True


def is_for_both_ends(certificate: x509.Certificate) -> bool:
    """Whether servers and clients may show it. Without the extension, everybody may."""
    try:
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} <= set(usage)


def _hosts(certificate: x509.Certificate) -> frozenset[str]:
    """The names and addresses that the certificate is valid for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = names.get_values_for_type(x509.IPAddress)
    return frozenset((*names.get_values_for_type(x509.DNSName), *map(str, addresses)))
