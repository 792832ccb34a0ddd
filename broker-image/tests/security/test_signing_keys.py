"""The keys of an issuer: fetched in the background, kept while it cannot be reached."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.oauth import signing_keys
from chiplog_broker.security.oauth.signing_keys import SigningKeys, UrlKeys
from chiplog_core.token_claims import TokenRefused
from chiplog_wire.protocol.errors import ProtocolViolation
from tests.security.tokens_kit import ISSUER, Issuer, jwk, rsa_key

HANG_S = 20
ONE, TWO = jwk(rsa_key("a"), "one"), jwk(rsa_key("b"), "two")


class Clock(SystemClock):
    """A clock that can be put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches follow each other at once, and only when they are wanted."""
    monkeypatch.setattr(signing_keys, "MIN_INTERVAL_S", 0.01)
    monkeypatch.setattr(signing_keys, "REFRESH_S", 600.0)


@asynccontextmanager
async def keys_of(source: Any, clock: Clock | None = None) -> AsyncIterator[SigningKeys]:
    keys = SigningKeys(source, clock or Clock(), "tokens")
    task = asyncio.get_running_loop().create_task(keys.run())
    try:
        async with asyncio.timeout(HANG_S):
            yield keys
    finally:
        task.cancel()
        await asyncio.wait({task})


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


async def becomes(holds: Callable[[], bool]) -> None:
    while not holds():
        await SystemClock().sleep(0.005)


async def finds(keys: SigningKeys, key_id: str) -> bool:
    """Whether there is such a key, after all that may still be fetched for it."""
    try:
        assert (await keys.find(key_id))[0] == ISSUER
    except TokenRefused:
        return False
    return True


def test_a_login_waits_for_the_first_keys() -> None:
    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer) as keys:
            assert await finds(keys, "one")
            assert issuer.fetches == 1

    run(scenario)


def test_a_new_key_is_fetched_when_a_token_names_it_and_an_old_one_goes() -> None:
    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer) as keys:
            assert await finds(keys, "one")
            issuer.publish(TWO)
            await asyncio.sleep(0.02)
            assert await finds(keys, "two")
            assert not await finds(keys, "one")

    run(scenario)


def test_keys_are_fetched_again_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "REFRESH_S", 0.02)

    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer):
            await becomes(lambda: issuer.fetches >= 3)

    run(scenario)


def test_unknown_ids_do_not_cause_many_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_keys, "MIN_INTERVAL_S", 600.0)

    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer) as keys:
            assert await finds(keys, "one")
            for number in range(100):
                assert not await finds(keys, f"unknown-{number}")
            assert issuer.fetches == 1

    run(scenario)


def test_many_logins_at_once_share_one_fetch() -> None:
    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer) as keys:
            found = await asyncio.gather(*(finds(keys, "one") for _ in range(50)))
            assert found == [True] * 50
            assert issuer.fetches == 1

    run(scenario)


def test_the_last_keys_stay_while_the_issuer_is_down_but_not_for_ever(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        issuer, clock = Issuer(ONE), Clock()
        async with keys_of(issuer, clock) as keys:
            assert await finds(keys, "one")
            issuer.error = OSError("no route")
            await asyncio.sleep(0.02)
            assert not await finds(keys, "two")
            assert await finds(keys, "one")
            await becomes(lambda: issuer.fetches >= 4)
            clock.ahead_s += signing_keys.MAX_AGE_S
            with pytest.raises(ProtocolViolation):
                await keys.find("one")
            issuer.error = None
            await becomes(lambda: keys._fresh() is not None)
            assert await finds(keys, "one")

    with caplog.at_level(logging.WARNING):
        run(scenario)
    (line,) = [one for one in caplog.records if one.message == "signing_keys_not_fetched"]
    assert line.__dict__["reason"] == "OSError: no route"


def test_without_keys_nobody_is_refused_for_good() -> None:
    """Clients give up after an answer that the login has failed; they try again after a close."""

    async def scenario() -> None:
        issuer = Issuer(ONE)
        issuer.error = ValueError("not found")
        async with keys_of(issuer) as keys:
            with pytest.raises(ProtocolViolation):
                await keys.find("one")
            issuer.error = None
            await becomes(lambda: keys._fresh() is not None)
            assert await finds(keys, "one")

    run(scenario)


def test_a_token_without_an_id_is_of_the_only_key() -> None:
    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer) as keys:
            assert await finds(keys, "")
            issuer.publish(ONE, TWO)
            await asyncio.sleep(0.02)
            assert await finds(keys, "two")
            assert not await finds(keys, "")

    run(scenario)


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"[" * 100_000, b'{"keys": 1}', b"\xff"])
def test_an_answer_that_is_no_key_set_changes_nothing(text: bytes) -> None:
    async def answer(_: int) -> bytes:
        return text

    async def scenario() -> None:
        async with keys_of(UrlKeys(ISSUER, answer)) as keys:
            with pytest.raises(ProtocolViolation):
                await keys.find("one")

    run(scenario)


def test_an_issuer_may_withdraw_all_keys() -> None:
    async def scenario() -> None:
        issuer = Issuer(ONE)
        async with keys_of(issuer) as keys:
            assert await finds(keys, "one")
            issuer.publish()
            await asyncio.sleep(0.02)
            assert not await finds(keys, "two")
            assert not await finds(keys, "one")

    run(scenario)
