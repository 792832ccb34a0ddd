"""The files of a client at listeners with TLS, and the settings of each library with them."""

import ssl
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from e2e.clients.by_librdkafka import QUIET
from e2e.kafka.certificates import Authority, Issued

ANY_CIPHER = "ALL:@SECLEVEL=0"
"""OpenSSL offers TLS 1.1 only with ciphers of this level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The files of a client, in PEM, and the settings of libraries with them."""

    ca: Path
    certificate: Path | None = None
    key: Path | None = None
    """None if the client has no certificate."""

    @classmethod
    def write(cls, directory: Path, trusted: Authority, identity: Issued | None = None) -> Self:
        """The files of a client that trusts this CA, written into `directory`."""
        ca = trusted.write(directory / "trusted") / "ca.crt"
        if identity is None:
            return cls(ca=ca)
        written = identity.write(directory / "identity")
        return cls(ca=ca, certificate=written / "tls.crt", key=written / "tls.key")

    def librdkafka(self) -> dict[str, Any]:
        """Settings of librdkafka, whose version of TLS only `openssl_conf` can choose."""
        found = {"security.protocol": "ssl", "ssl.ca.location": str(self.ca), **QUIET}
        if self.certificate is not None:
            found["ssl.certificate.location"] = str(self.certificate)
            found["ssl.key.location"] = str(self.key)
        return found

    def python(self, version: ssl.TLSVersion | None = None) -> dict[str, Any]:
        """Settings of kafka-python and aiokafka, with this version of TLS only if it is given."""
        context = ssl.create_default_context(cafile=self.ca)
        if self.certificate is not None:
            context.load_cert_chain(self.certificate, self.key)
        if version is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of old versions
                context.minimum_version = context.maximum_version = version
            if version < ssl.TLSVersion.TLSv1_2:
                context.set_ciphers(ANY_CIPHER)
        return {"security_protocol": "SSL", "ssl_context": context}

    def java(self, version: ssl.TLSVersion | None = None) -> dict[str, str]:
        """Settings of Java's client, with this version of TLS only if it is given. Writes key and
        certificate into one file, beside the key."""
        found = {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.ca),
        }
        if self.certificate is not None and self.key is not None:
            both = self.key.with_name("key-and-certificate.pem")
            both.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
            found |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(both)}
        if version is not None:
            found["ssl.protocol"] = found["ssl.enabled.protocols"] = name_of(version)
        return found


def openssl_conf(version: ssl.TLSVersion) -> str:
    """The content of a file that OPENSSL_CONF names: programs then use only this version."""
    ciphers = f"CipherString = {ANY_CIPHER}\n" if version < ssl.TLSVersion.TLSv1_2 else ""
    return (
        "openssl_conf = programs\n[programs]\nssl_conf = libssl\n[libssl]\n"
        "system_default = connections\n[connections]\n"
        f"MinProtocol = {name_of(version)}\nMaxProtocol = {name_of(version)}\n{ciphers}"
    )


def name_of(version: ssl.TLSVersion) -> str:
    """As OpenSSL and Java name a version, like TLSv1.2."""
    return version.name.replace("_", ".")
