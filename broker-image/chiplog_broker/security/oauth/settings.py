"""Which tokens a listener accepts, under the keys of KIP-768."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from chiplog_broker.errors import CannotStart
from chiplog_core.config.key import ConfigKey
from chiplog_core.config.listener_keys import (
    OAUTH_CLOCK_SKEW_SECONDS,
    OAUTH_EXPECTED_AUDIENCE,
    OAUTH_EXPECTED_ISSUER,
    OAUTH_JWKS_ENDPOINT_URL,
    OAUTH_SUB_CLAIM_NAME,
    OAUTH_TRUSTSTORE_LOCATION,
    OF_THE_API_SERVER,
    V,
    listener_value,
    set_under,
)
from chiplog_core.token_claims import TokenRules

FILE: Final = "server.properties"
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Which tokens a listener accepts."""

    jwks_url: str
    """Where the issuer's keys are; `OF_THE_API_SERVER` for tokens of ServiceAccounts."""
    issuer: str
    """Empty for tokens of ServiceAccounts: the API server says what its issuer is."""
    audiences: tuple[str, ...]
    name_claim: str
    skew_s: float
    truststore: Path | None
    """The CAs of the server with the keys; None for those that the system trusts."""

    @property
    def are_of_kubernetes(self) -> bool:
        """Whether the tokens are those of ServiceAccounts."""
        return self.jwks_url == OF_THE_API_SERVER

    def rules(self, issuer: str) -> TokenRules:
        """The rules for tokens of an issuer, which is the one that was fetched."""
        return TokenRules(
            issuer=issuer,
            audiences=self.audiences,
            name_claim=self.name_claim,
            skew_s=self.skew_s,
            are_of_kubernetes=self.are_of_kubernetes,
        )


def token_settings(config: Mapping[str, str], name: str) -> TokenSettings:
    """Which tokens the listener `name` accepts. Raises `CannotStart`."""
    url = _required(config, name, OAUTH_JWKS_ENDPOINT_URL)
    audiences = _required(config, name, OAUTH_EXPECTED_AUDIENCE)
    issuer = ""
    if url != OF_THE_API_SERVER:
        issuer = _required(config, name, OAUTH_EXPECTED_ISSUER)
        parts = urlsplit(url)
        if not parts.hostname or not (
            parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
        ):
            raise CannotStart(
                f"{FILE}[{set_under(config, name, OAUTH_JWKS_ENDPOINT_URL)}] is {url!r}: use an "
                "https URL, because who can change the keys can log in as anybody; http is for "
                "this machine only"
            )
    truststore = listener_value(config, name, OAUTH_TRUSTSTORE_LOCATION)
    skew_s = listener_value(config, name, OAUTH_CLOCK_SKEW_SECONDS)
    assert skew_s is not None, "the key has a default"
    return TokenSettings(
        url,
        issuer,
        audiences,
        _required(config, name, OAUTH_SUB_CLAIM_NAME),
        skew_s,
        Path(truststore) if truststore else None,
    )


def _required(config: Mapping[str, str], name: str, key: ConfigKey[V]) -> V:
    """The value of a key without which no token can be verified. Raises `CannotStart`."""
    value = listener_value(config, name, key)
    if not value:
        raise CannotStart(
            f"{FILE}[{set_under(config, name, key)}] is not set, but the listener {name} has the "
            "mechanism OAUTHBEARER: set it"
        )
    return value
