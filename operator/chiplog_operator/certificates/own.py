"""What the operator shows to the brokers of each cluster, and which brokers it trusts."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field

from chiplog_kube.pem_file import pem_file
from chiplog_operator.caches import ClusterKey
from chiplog_operator.certificates.material import LeafMaterial


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCertificate:
    """The operator's certificate for one cluster, with its key, and the cluster's CAs, in PEM."""

    certificate: str
    key: str = field(repr=False)
    authorities: tuple[str, ...]

    @classmethod
    def of(cls, leaf: LeafMaterial, authorities: Sequence[str]) -> "OwnCertificate":
        return cls(certificate=leaf.certificate, key=leaf.key, authorities=tuple(authorities))

    def context(self) -> ssl.SSLContext:
        """The context of a client that trusts the cluster's CAs only, and checks the host."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A renewed CA certificate has the key of the one before, and a CA of a user may have a root
        # above it.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(cadata="".join(self.authorities))
        with pem_file((self.certificate + self.key).encode()) as path:
            context.load_cert_chain(path)
        return context


class OwnCertificates:
    """The operator's certificates for all clusters. The loops that keep certificates set them."""

    def __init__(self) -> None:
        self._contexts: dict[ClusterKey, tuple[OwnCertificate, ssl.SSLContext]] = {}

    def of(self, key: ClusterKey) -> ssl.SSLContext | None:
        """The context for connections to the cluster's brokers; None without a certificate."""
        found = self._contexts.get(key)
        return None if found is None else found[1]

    def show(self, key: ClusterKey, own: OwnCertificate | None) -> None:
        """Use this certificate from now on: a new context, as a CA cannot be removed from one."""
        if own is None:
            self._contexts.pop(key, None)
            return
        found = self._contexts.get(key)
        if found is None or found[0] != own:
            self._contexts[key] = own, own.context()
