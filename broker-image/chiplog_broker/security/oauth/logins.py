"""Begins what a listener needs for logins with tokens."""

import asyncio
from collections.abc import Callable

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import Clock
from chiplog_broker.ports.documents import UrlDocument
from chiplog_broker.security.oauth.bearer import TokenVerifier
from chiplog_broker.security.oauth.settings import TokenSettings
from chiplog_broker.security.oauth.signing_keys import KeySource, SigningKeys, UrlKeys
from chiplog_broker.security.sasl import Attempt


def begin(
    listener: str, settings: TokenSettings, api_server_keys: KeySource | None, clock: Clock
) -> tuple[Callable[[], Attempt], asyncio.Task[None]]:
    """What begins a login with a token on a listener, and the task that fetches the keys of its
    issuer, to be cancelled at the end. `api_server_keys` are those for tokens of ServiceAccounts;
    None for a standalone broker. Raises `CannotStart`."""
    source: KeySource
    if not settings.are_of_kubernetes:
        document = UrlDocument(settings.jwks_url, settings.truststore)
        source = UrlKeys(settings.issuer, document)
    elif api_server_keys is not None:
        source = api_server_keys
    else:
        raise CannotStart(
            f"the listener {listener} accepts tokens of ServiceAccounts, which needs a broker with "
            "--cluster: set sasl.oauthbearer.jwks.endpoint.url to an https URL"
        )
    keys = SigningKeys(source, clock, listener)
    fetching = asyncio.get_running_loop().create_task(keys.run())
    verifier = TokenVerifier(keys, settings.rules, lambda: clock.now_ms() / 1000)
    return verifier.attempt, fetching
