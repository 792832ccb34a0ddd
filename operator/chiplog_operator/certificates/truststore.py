"""A CA's certificates for Java, in PKCS #12 with the attribute by which Java trusts them."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from chiplog_operator.certificates.facts import fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Truststore:
    """A truststore. The same certificates give other bytes each time, so it is kept."""

    data: bytes = field(default=b"", repr=False)
    password: str = field(default="", repr=False)

    def of(self, certificates: Sequence[x509.Certificate]) -> "Truststore":
        """The truststore with these certificates: this one if it has them, or else a new one with
        the same password."""
        if self._holds() == {fingerprint(one) for one in certificates}:
            return self
        password = self.password or secrets.token_urlsafe(18)
        named = [
            pkcs12.PKCS12Certificate(one, f"ca-{number}".encode())
            for number, one in enumerate(certificates)
        ]
        encryption = BestAvailableEncryption(password.encode())
        data = pkcs12.serialize_java_truststore(named, encryption)
        return Truststore(data=data, password=password)

    def _holds(self) -> set[str]:
        """The fingerprints of the certificates; none if the truststore cannot be read."""
        try:
            found = pkcs12.load_pkcs12(self.data, self.password.encode())
        except (ValueError, UnsupportedAlgorithm):
            return set()
        return {fingerprint(one.certificate) for one in found.additional_certs}
