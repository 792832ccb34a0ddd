"""The stores of keys and certificates that Kafka's clients read: PEM and PKCS #12."""

from chiplog_cli import pem
from chiplog_cli.security import ClientCertificate

PEM = "PEM"
PKCS12 = "PKCS12"
JKS = "JKS"
TYPES = (PEM, PKCS12, JKS)

_JKS_BEGINNINGS = (bytes.fromhex("feedfeed"), bytes.fromhex("cececece"))
_CONVERT = (
    "it is in Java's own format JKS, which only Java reads: convert it with `keytool "
    "-importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12`, and use that"
)


class OtherType(ValueError):  # noqa: N818 - named for what it says
    """The store is of another type than the one that is set."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def authorities_in(data: bytes, kind: str, password: str | None) -> str:
    """The certificates in a truststore of this type, in PEM format. Raises `ValueError`."""
    found = pem.certificates_in(_text(data)) if kind == PEM else _in_pkcs12(data, password)[0]
    if not found:
        raise ValueError("there is no certificate in it")
    return found


def client_certificate_in(
    data: bytes, kind: str, password: str | None, key_password: str | None
) -> ClientCertificate:
    """The key and certificates in a keystore of this type. Raises `ValueError`."""
    if kind == PEM:
        return client_certificate(_text(data), _text(data), key_password)
    chain, key = _in_pkcs12(data, password)
    return client_certificate(chain, key, None)


def client_certificate(chain: str, key: str, key_password: str | None) -> ClientCertificate:
    """The key and certificates in these texts in PEM format. Raises `ValueError`."""
    found = ClientCertificate(
        chain=pem.certificates_in(chain), key=pem.private_key_in(key), key_password=key_password
    )
    if not found.chain:
        raise ValueError("there is no certificate in it")
    if not found.key:
        raise ValueError("there is no private key in it")
    if pem.is_encrypted(found.key) and key_password is None:
        raise ValueError("its private key is encrypted: set ssl.key.password")
    return found


def _text(data: bytes) -> str:
    """The text of a file in PEM format. Comments between its blocks may have any encoding."""
    if b"-----BEGIN" not in data and not data.isascii():
        raise OtherType(PKCS12)
    return data.decode("ascii", "ignore")


def _in_pkcs12(data: bytes, password: str | None) -> tuple[str, str]:
    """The certificates and the key, in PEM format; the key is empty if there is none. A store of
    type JKS may be a PKCS #12 file, as Java's may. Raises `ValueError`."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - for stores only
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    if data.startswith(_JKS_BEGINNINGS):
        raise ValueError(_CONVERT)
    if data.lstrip().startswith(b"-----BEGIN"):
        raise OtherType(PEM)
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise ValueError("it is no PKCS #12 file, or its password is another one") from None
    own = [] if store.cert is None else [store.cert]
    certificates = "".join(
        one.certificate.public_bytes(serialization.Encoding.PEM).decode()
        for one in (*own, *store.additional_certs)
    )
    if store.key is None:
        return certificates, ""
    key = store.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificates, key.decode()
