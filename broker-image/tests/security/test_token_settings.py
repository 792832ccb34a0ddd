"""Listeners with OAUTHBEARER in `server.properties`."""

from pathlib import Path

import pytest

from chiplog_broker.config_file import checked, member_listeners
from chiplog_broker.errors import CannotStart
from chiplog_broker.security.oauth.settings import TokenSettings

PREFIX = "listener.name.tls."
BASE = {
    "listeners": "tls://0.0.0.0:9093",
    "listener.security.protocol.map": "tls:SASL_SSL",
    "ssl.keystore.location": "/k",
    f"{PREFIX}sasl.enabled.mechanisms": "OAUTHBEARER",
}
URL = f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url"
AUDIENCE = f"{PREFIX}sasl.oauthbearer.expected.audience"
ISSUER = f"{PREFIX}sasl.oauthbearer.expected.issuer"
OAUTH = {
    **BASE,
    URL: "https://issuer.example/keys",
    AUDIENCE: "kafka,other",
    ISSUER: "https://issuer.example",
}
PODS = {**BASE, URL: "kubernetes:/openid/v1/jwks", AUDIENCE: "kafka"}


def settings_of(config: dict[str, str]) -> TokenSettings | None:
    (listener,) = member_listeners(config)
    return listener.tokens


def test_kafkas_keys_say_which_tokens_are_accepted() -> None:
    assert settings_of(OAUTH) == TokenSettings(
        "https://issuer.example/keys", "https://issuer.example", ("kafka", "other"), "sub", 30, None
    )
    more = {
        f"{PREFIX}sasl.oauthbearer.sub.claim.name": "client_id",
        "sasl.oauthbearer.clock.skew.seconds": "0",
        f"{PREFIX}chiplog.oauthbearer.truststore.location": "/cas",
    }
    found = settings_of(OAUTH | more)
    assert found is not None
    assert (found.name_claim, found.skew_s, found.truststore) == ("client_id", 0, Path("/cas"))
    assert found.rules("i").issuer == "i"
    assert not found.rules("i").are_of_kubernetes


def test_tokens_of_accounts_need_an_audience_only() -> None:
    found = settings_of(PODS)
    assert found is not None
    assert found.rules("i").are_of_kubernetes


def test_other_listeners_accept_none() -> None:
    assert settings_of({**BASE, f"{PREFIX}sasl.enabled.mechanisms": "SCRAM-SHA-512"}) is None


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/k", "http://localhost/k", "http://[::1]/k"])
def test_keys_on_this_machine_may_be_sent_in_plain_text(url: str) -> None:
    assert settings_of(OAUTH | {URL: url})


@pytest.mark.parametrize(
    ("changed", "remedy"),
    [
        ({URL: None}, "jwks.endpoint.url] is not set"),
        ({AUDIENCE: None}, "expected.audience] is not set"),
        ({ISSUER: None}, "expected.issuer] is not set"),
        ({URL: "http://issuer.example/keys"}, "use an https URL"),
        ({URL: "http://127.0.0.1.example/keys"}, "use an https URL"),
        ({URL: "file:///keys"}, "use an https URL"),
        ({URL: "https:///keys"}, "use an https URL"),
        ({URL: "kubernetes:/other"}, "use an https URL"),
        ({f"{PREFIX}sasl.oauthbearer.clock.skew.seconds": "301"}, "clock.skew.seconds"),
        ({"listener.security.protocol.map": "tls:SASL_PLAINTEXT"}, "sends tokens"),
        ({"listener.security.protocol.map": "tls:SSL"}, "none with that name and SASL"),
    ],
)
def test_what_would_let_in_anybody_keeps_the_broker_from_starting(
    changed: dict[str, str | None], remedy: str
) -> None:
    config = {key: value for key, value in {**OAUTH, **changed}.items() if value is not None}
    with pytest.raises(CannotStart) as problem:
        settings_of(dict(checked(config)))
    assert remedy in str(problem.value)
