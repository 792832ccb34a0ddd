"""The keys of one issuer, fetched in the background.

They are fetched again every few minutes, and when a token names a key that is not known: issuers
publish a new key before they use it, or at that moment. The last keys stay in use while the issuer
cannot be reached, for a day at most. Clients cannot cause more than one fetch in `MIN_INTERVAL_S`.
"""

import asyncio
import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from chiplog_broker.ports.clock import Clock
from chiplog_broker.security.oauth.jwk_set import KeySet, SigningKey, read_key_set
from chiplog_core.token_claims import TokenRefused
from chiplog_wire.protocol.errors import ProtocolViolation

logger = logging.getLogger(__name__)

REFRESH_S: Final = 300.0
MIN_INTERVAL_S: Final = 10.0
"""Between two fetches, also failed ones."""
MAX_AGE_S: Final = 86_400.0
"""Keys that were fetched longer ago are not used."""
FETCH_TIMEOUT_S: Final = 5.0
"""Less than a login may take."""
MAX_DOCUMENT_BYTES: Final = 256 * 1024
LONGEST_REASON: Final = 500
NOT_KNOWN: Final = "the keys of the issuer of tokens are not known now"


class Published(NamedTuple):
    """What an issuer publishes."""

    issuer: str
    document: Mapping[str, Any]
    """A JSON Web Key Set."""


class KeySource(Protocol):
    """Fetches what an issuer publishes."""

    async def fetch(self) -> Published:
        """What is published now. Raises `OSError` or `ValueError`."""


class FetchDocument(Protocol):
    """Fetches a document of at most `max_bytes`. Raises `OSError` or `ValueError`."""

    async def __call__(self, max_bytes: int, /) -> bytes: ...


class UrlKeys:
    """The `KeySource` of an issuer whose keys are at a URL."""

    def __init__(self, issuer: str, fetch: FetchDocument) -> None:
        self._issuer = issuer
        self._fetch = fetch

    async def fetch(self) -> Published:
        """As in `KeySource`."""
        document = json_object(await self._fetch(MAX_DOCUMENT_BYTES))
        return Published(self._issuer, document)


class Known(NamedTuple):
    """What is known of an issuer."""

    issuer: str
    keys: KeySet
    at_s: float
    """The monotonic time of the fetch."""


class SigningKeys:
    """Keeps the keys of one issuer; `run` is its task."""

    def __init__(self, source: KeySource, clock: Clock, listener: str) -> None:
        """`listener` is its name, for the log."""
        self._source = source
        self._clock = clock
        self._listener = listener
        self._known: Known | None = None
        self._is_fetching = True
        self._has_failed = False
        self._next_s = float("-inf")
        """No fetch begins before this monotonic time."""
        self._wanted = asyncio.Event()
        self._fetched = asyncio.Event()
        """Set after the present or the next fetch."""

    async def run(self) -> None:
        """Fetch the keys until cancelled."""
        while True:
            self._is_fetching = True
            self._wanted.clear()
            await self._fetch()
            self._is_fetching = False
            self._next_s = self._clock.monotonic_s() + MIN_INTERVAL_S
            fetched, self._fetched = self._fetched, asyncio.Event()
            fetched.set()
            await self._clock.sleep(MIN_INTERVAL_S)
            if not self._has_failed:
                with suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_S - MIN_INTERVAL_S):
                        await self._wanted.wait()

    async def find(self, key_id: str) -> tuple[str, SigningKey]:
        """The issuer, and its key with this id. Waits for a fetch if that may help. Raises
        `TokenRefused`, and `ProtocolViolation` if no keys are known: then the connection is closed,
        because clients give up after an answer that a login has failed."""
        found = self._found(key_id)
        if found is None and (self._is_fetching or self._clock.monotonic_s() >= self._next_s):
            if not self._is_fetching:
                self._wanted.set()
            await self._fetched.wait()
            found = self._found(key_id)
        if found is not None:
            return found
        if self._fresh() is None:
            raise ProtocolViolation(NOT_KNOWN)
        raise TokenRefused("the issuer has no key with the id in the token")

    def _fresh(self) -> Known | None:
        """What is known and not too old."""
        known = self._known
        if known is None or self._clock.monotonic_s() - known.at_s > MAX_AGE_S:
            return None
        return known

    def _found(self, key_id: str) -> tuple[str, SigningKey] | None:
        """The issuer and its key with an id. A token without an id is of the only key."""
        known = self._fresh()
        if known is None:
            return None
        key = known.keys.get(key_id)
        if key is None and not key_id and len(known.keys) == 1:
            (key,) = known.keys.values()
        return None if key is None else (known.issuer, key)

    async def _fetch(self) -> None:
        """Fetch the keys once. If that fails, what is known stays."""
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                published = await self._source.fetch()
            # In another thread: a set may have a hundred keys.
            keys = await asyncio.to_thread(read_key_set, published.document)
        except Exception as problem:  # noqa: BLE001 - without this task nobody could log in
            if not self._has_failed:
                reason = f"{type(problem).__name__}: {problem}"
                logger.warning(
                    "signing_keys_not_fetched",
                    extra={"listener": self._listener, "reason": reason[:LONGEST_REASON]},
                )
            self._has_failed = True
            return
        known = self._known
        if known is None or known.issuer != published.issuer or known.keys.keys() != keys.keys():
            facts = {"listener": self._listener, "issuer": published.issuer, "keys": len(keys)}
            logger.info("signing_keys_fetched", extra=facts)
        self._has_failed = False
        self._known = Known(published.issuer, keys, self._clock.monotonic_s())


def json_object(text: bytes) -> dict[str, Any]:
    """The JSON object in a text. Raises `ValueError`."""
    try:
        found = json.loads(text)
    except RecursionError as error:
        raise ValueError("the answer is nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError("the answer is not a JSON object")
    return found
