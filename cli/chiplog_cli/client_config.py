"""The properties of Kafka's clients that say how to connect, as a `Security`.

The keys are those of https://kafka.apache.org/43/configuration/admin-configs/. No value that may be
a secret gets into an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from chiplog_cli import tls_config, token_config
from chiplog_cli.bad_property import BadProperty, one_of
from chiplog_cli.jaas import EXAMPLE, EXAMPLE_FOR_TOKENS, SASL_JAAS_CONFIG, parse_jaas
from chiplog_cli.security import Login, SaslMechanism, Security, TokenLogin
from chiplog_cli.tls_config import Read
from chiplog_wire.security_protocol import SecurityProtocol

SECURITY_PROTOCOL: Final = "security.protocol"
SASL_MECHANISM: Final = "sasl.mechanism"
KEYS: Final = (
    frozenset({SECURITY_PROTOCOL, SASL_MECHANISM, SASL_JAAS_CONFIG})
    | tls_config.KEYS
    | token_config.KEYS
)

_MODULES: Final = {
    SaslMechanism.PLAIN: "PlainLoginModule",
    SaslMechanism.SCRAM_SHA_256: "ScramLoginModule",
    SaslMechanism.SCRAM_SHA_512: "ScramLoginModule",
    SaslMechanism.OAUTHBEARER: "OAuthBearerLoginModule",
}


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """How a client connects, and the keys that say something else, which are not used."""

    security: Security
    unused: tuple[str, ...]


def client_config(properties: Mapping[str, str], read: Read) -> ClientConfig:
    """The configuration in these properties. Raises `BadProperty`."""
    protocol = one_of(
        properties, SECURITY_PROTOCOL, list(SecurityProtocol), SecurityProtocol.PLAINTEXT
    )
    security = Security(
        tls=tls_config.tls_config(properties, read) if protocol.has_tls else None,
        login=_login(properties, read) if protocol.has_sasl else None,
    )
    return ClientConfig(security, tuple(sorted(properties.keys() - KEYS)))


def _login(properties: Mapping[str, str], read: Read) -> Login | TokenLogin:
    """The name and password, or where the token is. Raises `BadProperty`."""
    mechanism = one_of(properties, SASL_MECHANISM, list(SaslMechanism), None)
    options = _jaas_options(properties, mechanism)
    if mechanism is SaslMechanism.OAUTHBEARER:
        return token_config.token_login(properties, options, read)
    for option in ("username", "password"):
        if not options.get(option):
            raise BadProperty(SASL_JAAS_CONFIG, f"option {option} is missing: set it")
    return Login(mechanism=mechanism, username=options["username"], password=options["password"])


def _jaas_options(properties: Mapping[str, str], mechanism: SaslMechanism) -> Mapping[str, str]:
    """The options of the login module. A login with a token needs none, as other properties say
    where the token is. Raises `BadProperty`."""
    has_token = mechanism is SaslMechanism.OAUTHBEARER
    example = EXAMPLE_FOR_TOKENS if has_token else EXAMPLE
    if SASL_JAAS_CONFIG not in properties:
        if has_token:
            return {}
        raise BadProperty(SASL_JAAS_CONFIG, f"it is missing: set it like {example}")
    try:
        entry = parse_jaas(properties[SASL_JAAS_CONFIG], example)
    except ValueError as error:
        raise BadProperty(SASL_JAAS_CONFIG, str(error)) from None
    module = _MODULES[mechanism]
    if entry.module.rpartition(".")[2] != module:
        what = f"{mechanism} needs the login module {module}: correct it, or {SASL_MECHANISM}"
        raise BadProperty(SASL_JAAS_CONFIG, what)
    return entry.options
