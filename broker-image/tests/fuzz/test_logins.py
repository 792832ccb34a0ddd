"""Mutated frames before a login: they cost little, and log nobody in.

`make fuzz` is the long form. Each part has its own seed, named in the test's id.
"""

import logging
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.server.listening import Acceptor
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.framing import UNAUTHENTICATED_MAX_BYTES
from chiplog_wire.scram import Mechanism, ScramClient
from e2e.kafka.messages import response
from tests.fuzz.costs import (
    CPU_LIMIT_S,
    FRAMES,
    MEMORY_LIMIT_BYTES,
    REPEATS,
    Stranger,
    Worst,
    cost_of,
    framed,
    measuring,
    turns,
)
from tests.fuzz.requests import frame, of_logins, of_users_and_acls
from tests.mutations import inflated, mutated_frame, mutated_token
from tests.security.logins_kit import ALICE, EVERY, OK, asking, by_scram
from tests.server.tls_kit import until

if TYPE_CHECKING:
    from tests.conftest import Kit

WHAT = "mutated frames before a login"
ALL = FRAMES // 2
PARTS = max(1, ALL // 5_000)
WAITED_FOR = 50
"""One connection in so many is left open until its login has an outcome."""
PASSWORD = "alice-secret"  # noqa: S105 - of the user `ALICE`
PLAIN_TOKEN = f"\0alice\0{PASSWORD}".encode()
SIZES = (64, 1_000, 4_000, 4_096, 5_000, UNAUTHENTICATED_MAX_BYTES - 40, UNAUTHENTICATED_MAX_BYTES)
HEAD_BYTES = 8
"""Before the body of an answer: its length and the correlation id."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A connection in some state of its login, and the mutated frame that it sends next."""

    stranger: Stranger
    frame: bytes
    right: bytes = b""
    """The token that completes the login in this state; empty if none does."""

    def check(self) -> None:
        """Nobody has logged in without the right token."""
        if self.stranger.principal != ANONYMOUS:
            assert self.right, self.frame
            assert self.right in self.frame
            assert self.stranger.principal == "User:alice"


class Attacker:
    """Makes connections that send mutated frames."""

    def __init__(self, acceptor: Acceptor, chance: random.Random) -> None:
        self.acceptor, self.chance = acceptor, chance
        self.first_requests = [*of_logins(EVERY), *of_users_and_acls()]

    async def measured(self, worst: Worst) -> Attempt:
        """Make an attempt; one that seems to cost too much is made again."""
        state = self.chance.getstate()
        attempt = await self._attempt()
        cpu_s, memory_bytes = await cost_of(attempt.stranger, attempt.frame)
        for _ in range(REPEATS):
            if cpu_s <= CPU_LIMIT_S and memory_bytes <= MEMORY_LIMIT_BYTES:
                break
            attempt.stranger.leave()
            self.chance.setstate(state)
            attempt = await self._attempt()
            again_s, again_bytes = await cost_of(attempt.stranger, attempt.frame)
            cpu_s, memory_bytes = min(cpu_s, again_s), min(memory_bytes, again_bytes)
        worst.add(attempt.frame, cpu_s, memory_bytes)
        return attempt

    async def _attempt(self) -> Attempt:
        stranger = Stranger(self.acceptor)
        is_bare = self.chance.random() < 0.3
        match self.chance.randrange(4):
            case 0:
                return Attempt(stranger, self._changed(self.chance.choice(self.first_requests)))
            case 1:
                await self._choose(stranger, "PLAIN", is_bare=is_bare)
                return self._with_token(stranger, PLAIN_TOKEN, PLAIN_TOKEN, is_bare=is_bare)
        mechanism = self.chance.choice(list(Mechanism))
        await self._choose(stranger, mechanism.value, is_bare=is_bare)
        scram = ScramClient(mechanism, "alice", PASSWORD, b"nonce")
        if self.chance.random() < 0.5:
            return self._with_token(stranger, scram.first(), b"", is_bare=is_bare)
        sent = scram.first() if is_bare else authenticate(scram.first())
        answer = await stranger.ask(framed(sent))
        proof = scram.final(answer[4:] if is_bare else token_in(answer))
        return self._with_token(stranger, proof, proof, is_bare=is_bare)

    async def _choose(self, stranger: Stranger, mechanism: str, *, is_bare: bool) -> None:
        version = 0 if is_bare else 1
        asked = frame(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)
        assert await stranger.ask(framed(asked))

    def _with_token(
        self, stranger: Stranger, token: bytes, right: bytes, *, is_bare: bool
    ) -> Attempt:
        changed = self._changed_token(token)
        if is_bare:
            return Attempt(stranger, changed, right)
        sent = authenticate(changed)
        if self.chance.random() < 0.2:
            sent = mutated_frame(sent, self.chance)
        return Attempt(stranger, sent, right)

    def _changed(self, sent: bytes) -> bytes:
        if self.chance.random() < 0.2:
            return inflated(sent, self.chance, self.chance.choice(SIZES))
        return mutated_frame(sent, self.chance)

    def _changed_token(self, token: bytes) -> bytes:
        if self.chance.random() < 0.7:
            return mutated_token(token, self.chance)
        return inflated(token, self.chance, self.chance.choice(SIZES))


def authenticate(token: bytes) -> bytes:
    return frame(ApiKey.SASL_AUTHENTICATE, 1, auth_bytes=token)


def token_in(answer: bytes) -> bytes:
    """The token in an answer to `authenticate`."""
    found = response(ApiKey.SASL_AUTHENTICATE, 1, memoryview(answer)[HEAD_BYTES:])
    return bytes(found.auth_bytes)


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_logins(
    part: int, kit: "Kit", worst: Worst, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with asking(kit, ALICE, ALICE.replace("512", "256")):
            acceptor = kit.broker.acceptors[1]
            attacker = Attacker(acceptor, random.Random(part))  # noqa: S311 - reproducible
            waiting: list[Attempt] = []
            with measuring():
                for number in range(ALL // PARTS):
                    attempt = await attacker.measured(worst)
                    attempt.check()
                    if number % WAITED_FOR:
                        attempt.stranger.leave()
                        await turns(1)
                    else:
                        waiting.append(attempt)
            strangers = [one.stranger for one in waiting]
            await until(lambda: all(one.is_closed or one.connection.idle for one in strangers))
            for attempt in waiting:
                attempt.check()
                attempt.stranger.leave()
            await turns()
            assert not acceptor._connections
            client = await kit.client("sasl")
            assert await by_scram(client, "alice", PASSWORD) is OK

    kit.run(scenario)
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == []
    worst.check()
