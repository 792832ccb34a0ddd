"""Certificates for tests of TLS, by CAs that are made there."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from e2e.kafka.ports import LOOPBACK

DAY = datetime.timedelta(days=1)
SERVER, CLIENT = (ExtendedKeyUsageOID.SERVER_AUTH,), (ExtendedKeyUsageOID.CLIENT_AUTH,)


@dataclass(frozen=True, slots=True)
class Issued:
    """A key and its certificate in PEM."""

    key: bytes
    certificate: bytes

    @property
    def both(self) -> bytes:
        """As in one file."""
        return self.key + self.certificate

    def write(self, directory: Path) -> Path:
        """Write `tls.crt` and `tls.key`, as a Secret has them; returns the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "tls.crt").write_bytes(self.certificate)
        (directory / "tls.key").write_bytes(self.key)
        return directory


class Authority:
    """A CA. Use `create`."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str = "a-ca") -> Self:
        """A CA with this common name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = common_name(name)
        builder = (
            unsigned(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    @property
    def pem(self) -> bytes:
        """Its certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def write(self, directory: Path, *others: "Authority") -> Path:
        """Write `ca.crt` with this CA and others; returns the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "ca.crt").write_bytes(b"".join(one.pem for one in (self, *others)))
        return directory

    def server(self, host: str = LOOPBACK, days: int = 30) -> Issued:
        """The certificate of a server with this address or name."""
        return self._issue(common_name("broker"), SERVER, [general_name(host)], days)

    def client(self, name: str, days: float = 30) -> Issued:
        """The certificate of a client with this common name."""
        return self._issue(common_name(name), CLIENT, [], days)

    def peer(self, *names: str) -> Issued:
        """The certificate of a process that is a server and a client, with these names or
        addresses."""
        hosts = [general_name(name) for name in names]
        return self._issue(common_name(names[0]), (*SERVER, *CLIENT), hosts, 30)

    def _issue(
        self,
        subject: x509.Name,
        usage: tuple[x509.ObjectIdentifier, ...],
        names: list[x509.GeneralName],
        days: float,
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        # OpenSSL finds the right one of two CAs with the same name only by this identifier.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            unsigned(self._certificate.subject, subject, key, days)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ),
            certificate.public_bytes(serialization.Encoding.PEM),
        )


def general_name(host: str) -> x509.GeneralName:
    """An address or a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def unsigned(
    issuer: x509.Name, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: float = 30
) -> x509.CertificateBuilder:
    """What all certificates have in common."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + days * DAY)
    )
