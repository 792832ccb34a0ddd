"""The properties of Kafka's clients that say how to connect, as a `Security`.

The keys are those of https://kafka.apache.org/43/configuration/admin-configs/. No value that may be
a secret gets into an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from chiplog_cli import keystores
from chiplog_cli.jaas import EXAMPLE, parse_jaas
from chiplog_cli.security import (
    CHECKED_HOST,
    ClientCertificate,
    Login,
    SaslMechanism,
    Security,
    Tls,
)
from chiplog_wire.security_protocol import SecurityProtocol

SECURITY_PROTOCOL: Final = "security.protocol"
SASL_MECHANISM: Final = "sasl.mechanism"
SASL_JAAS_CONFIG: Final = "sasl.jaas.config"
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
        *(SECURITY_PROTOCOL, SASL_MECHANISM, SASL_JAAS_CONFIG),
        *(TRUSTSTORE_LOCATION, TRUSTSTORE_TYPE, TRUSTSTORE_PASSWORD, TRUSTSTORE_CERTIFICATES),
        *(KEYSTORE_LOCATION, KEYSTORE_TYPE, KEYSTORE_PASSWORD, KEYSTORE_KEY, KEYSTORE_CHAIN),
        *(KEY_PASSWORD, IDENTIFICATION),
    }
)

_MODULES: Final = {
    SaslMechanism.PLAIN: "PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "ScramLoginModule",
}

Read = Callable[[str], bytes]
"""Returns the content of the file at a path. Raises `OSError`."""
T = TypeVar("T")


class BadProperty(ValueError):  # noqa: N818 - named for what it is
    """A property that cannot be used: its key, what is wrong, and the remedy."""

    def __init__(self, key: str, what: str) -> None:
        super().__init__(f"{key}: {what}")
        self.key = key


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How a client connects, and the keys that say something else, which are not used."""

    security: Security
    unused: tuple[str, ...]


def client_config(properties: Mapping[str, str], read: Read) -> ClientConfig:
    """The configuration in these properties. Raises `BadProperty`."""
    protocol = _one_of(
        properties, SECURITY_PROTOCOL, list(SecurityProtocol), SecurityProtocol.PLAINTEXT
    )
    security = Security(
        tls=_tls(properties, read) if protocol.has_tls else None,
        login=_login(properties) if protocol.has_sasl else None,
    )
    return ClientConfig(security, tuple(sorted(properties.keys() - KEYS)))


def _one_of(properties: Mapping[str, str], key: str, known: list[T], default: T | None) -> T:
    """The value of a key that has only these; the default without it. Raises `BadProperty`."""
    given = properties.get(key, "").upper()
    found = next((value for value in known if str(value) == given), None)
    if found is not None:
        return found
    names = ", ".join(map(str, known))
    if given:
        raise BadProperty(key, f"{given} is not supported: set it to one of {names}")
    if default is None:
        raise BadProperty(key, f"it is missing: set it to one of {names}")
    return default


def _login(properties: Mapping[str, str]) -> Login:
    """The name and password. Raises `BadProperty`."""
    mechanism = _one_of(properties, SASL_MECHANISM, list(SaslMechanism), None)
    if SASL_JAAS_CONFIG not in properties:
        raise BadProperty(SASL_JAAS_CONFIG, f"it is missing: set it like {EXAMPLE}")
    try:
        entry = parse_jaas(properties[SASL_JAAS_CONFIG])
    except ValueError as error:
        raise BadProperty(SASL_JAAS_CONFIG, str(error)) from None
    module = _MODULES[mechanism]
    if entry.module.rpartition(".")[2] != module:
        what = f"{mechanism} needs the login module {module}: correct it, or {SASL_MECHANISM}"
        raise BadProperty(SASL_JAAS_CONFIG, what)
    for option in ("username", "password"):
        if not entry.options.get(option):
            raise BadProperty(SASL_JAAS_CONFIG, f"option {option} is missing: set it")
    return Login(
        mechanism=mechanism,
        username=entry.options["username"],
        password=entry.options["password"],
    )


def _tls(properties: Mapping[str, str], read: Read) -> Tls:
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
    kind = _one_of(properties, TRUSTSTORE_TYPE, list(keystores.TYPES), keystores.JKS)
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
    kind = _one_of(properties, KEYSTORE_TYPE, list(keystores.TYPES), keystores.JKS)
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
