"""The properties of Kafka's clients that begin with `ssl.`, as a `Tls`."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from chiplog_cli import keystores
from chiplog_cli.bad_property import BadProperty, one_of
from chiplog_cli.security import CHECKED_HOST, ClientCertificate, Tls

TRUSTSTORE_LOCATION: Final = "ssl.truststore.location"
TRUSTSTORE_TYPE: Final = "ssl.truststore.type"
TRUSTSTORE_PASSWORD: Final = "ssl.truststore.password"  # noqa: S105 - a key
TRUSTSTORE_CERTIFICATES: Final = "ssl.truststore.certificates"
KEYSTORE_LOCATION: Final = "ssl.keystore.location"
KEYSTORE_TYPE: Final = "ssl.keystore.type"
KEYSTORE_PASSWORD: Final = "ssl.keystore.password"  # noqa: S105 - a key
KEYSTORE_KEY: Final = "ssl.keystore.key"
KEYSTORE_CHAIN: Final = "ssl.keystore.certificate.chain"
KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - a key
IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
KEYS: Final = frozenset(
    {
        *(TRUSTSTORE_LOCATION, TRUSTSTORE_TYPE, TRUSTSTORE_PASSWORD, TRUSTSTORE_CERTIFICATES),
        *(KEYSTORE_LOCATION, KEYSTORE_TYPE, KEYSTORE_PASSWORD, KEYSTORE_KEY, KEYSTORE_CHAIN),
        *(KEY_PASSWORD, IDENTIFICATION),
    }
)

Read = Callable[[str], bytes]
"""Returns the content of the file at a path. Raises `OSError`."""
T = TypeVar("T")


def tls_config(properties: Mapping[str, str], read: Read) -> Tls:
    """The stores. Raises `BadProperty`."""
    algorithm = properties.get(IDENTIFICATION, CHECKED_HOST).lower()
    if algorithm not in {CHECKED_HOST, ""}:
        raise BadProperty(
            IDENTIFICATION, f"it has an unknown value: set it to {CHECKED_HOST}, or remove it"
        )
    return Tls(
        authorities=_authorities(properties, read),
        certificate=_certificate(properties, read),
        checks_host=algorithm == CHECKED_HOST,
    )


def _authorities(properties: Mapping[str, str], read: Read) -> str | None:
    """The certificates of the CAs; None if no truststore is given. Raises `BadProperty`."""
    kind = one_of(properties, TRUSTSTORE_TYPE, list(keystores.TYPES), keystores.JKS)
    if text := properties.get(TRUSTSTORE_CERTIFICATES):
        _check_inline(kind, TRUSTSTORE_TYPE, TRUSTSTORE_CERTIFICATES)
        return _understood(
            TRUSTSTORE_CERTIFICATES,
            lambda: keystores.authorities_in(text.encode(), keystores.PEM, None),
        )
    location = properties.get(TRUSTSTORE_LOCATION)
    if not location:
        return None
    password = properties.get(TRUSTSTORE_PASSWORD)
    return _understood(
        TRUSTSTORE_LOCATION,
        lambda: keystores.authorities_in(read(location), kind, password),
        location,
        TRUSTSTORE_TYPE,
    )


def _certificate(properties: Mapping[str, str], read: Read) -> ClientCertificate | None:
    """The client's certificate; None if no keystore is given. Raises `BadProperty`."""
    kind = one_of(properties, KEYSTORE_TYPE, list(keystores.TYPES), keystores.JKS)
    key_password = properties.get(KEY_PASSWORD)
    key, chain = properties.get(KEYSTORE_KEY), properties.get(KEYSTORE_CHAIN)
    if key or chain:
        _check_inline(kind, KEYSTORE_TYPE, KEYSTORE_KEY if key else KEYSTORE_CHAIN)
        return _understood(
            KEYSTORE_CHAIN if key else KEYSTORE_KEY,
            lambda: keystores.client_certificate(chain or "", key or "", key_password),
        )
    location = properties.get(KEYSTORE_LOCATION)
    if not location:
        return None
    password = properties.get(KEYSTORE_PASSWORD)
    return _understood(
        KEYSTORE_LOCATION,
        lambda: keystores.client_certificate_in(read(location), kind, password, key_password),
        location,
        KEYSTORE_TYPE,
    )


def _check_inline(kind: str, key_of_kind: str, key: str) -> None:
    """Raises `BadProperty` if a store that is given as text is not of type PEM."""
    if kind != keystores.PEM:
        raise BadProperty(key_of_kind, f"{key} is only for type PEM: set it to PEM")


def _understood(key: str, found: Callable[[], T], location: str = "", key_of_kind: str = "") -> T:
    """What is in a store, which is the value of `key` or a file at `location`. Its errors become a
    `BadProperty`."""
    prefix = f"{location}: " if location else ""
    try:
        return found()
    except OSError as error:
        raise BadProperty(key, f"{prefix}{error.strerror or error}: correct the path") from None
    except keystores.OtherType as other:
        raise BadProperty(
            key_of_kind or key, f"{prefix}the file is of type {other.kind}: set it to {other.kind}"
        ) from None
    except ValueError as error:
        raise BadProperty(key, f"{prefix}{error}") from None
