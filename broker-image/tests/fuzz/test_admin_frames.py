"""Mutated requests about ACLs and users, of clients that have logged in.

Who may not change anything does not, whatever it sends; who may does not stop the broker. No
request holds the event loop for long at a time.
"""

import logging
import random
from typing import TYPE_CHECKING, Any

import pytest

from chiplog_core.config.broker_keys import STANDARD_AUTHORIZER
from chiplog_wire.protocol.apis import APIS, ApiKey
from tests.fuzz.costs import (
    CPU_LIMIT_S,
    FRAMES,
    REPEATS,
    Stranger,
    Worst,
    longest_turn_of,
    measuring,
)
from tests.fuzz.requests import ACL, ANY_ACL, frame, of_users_and_acls, upsertion
from tests.mutations import mutated_frame

if TYPE_CHECKING:
    from tests.conftest import Kit

WHAT = "mutated requests about ACLs and users"
ALL = FRAMES // 4
PARTS = max(2, ALL // 2_000)
ADMIN, ALICE = "User:admin", "User:alice"
LOOKED_AT = 50
CLEARED_AFTER = 250
"""An administrator's frames, after which everything is deleted: each change writes all of it."""


class Attacker:
    """Sends mutated requests as one user, on one connection as long as that stays open."""

    def __init__(self, kit: "Kit", principal: str, chance: random.Random) -> None:
        self.kit, self.principal, self.chance = kit, principal, chance
        self.valid = of_users_and_acls()
        self.stranger = self.log_in()

    def log_in(self) -> Stranger:
        """A new connection, as if this user had logged in."""
        self.stranger = Stranger(self.kit.broker.acceptors[0])
        self.stranger.connection.peer.principal = self.principal
        return self.stranger

    async def send(self, worst: Worst) -> None:
        """Send a request; one that seems to hold the loop for too long is sent again."""
        sent = mutated_frame(self.chance.choice(self.valid), self.chance)
        cpu_s = await self._cost_of(sent)
        for _ in range(REPEATS):
            if cpu_s > CPU_LIMIT_S:
                cpu_s = min(cpu_s, await self._cost_of(sent))
        worst.add(sent, cpu_s, 0)

    async def _cost_of(self, sent: bytes) -> float:
        if self.stranger.is_closed:
            self.log_in()
        return await longest_turn_of(self.stranger, sent)


def state(kit: "Kit") -> tuple[Any, Any]:
    """The ACLs and the credentials."""
    acls = kit.broker._acls
    assert acls is not None
    return set(acls.authorizer.acls), dict(kit.broker.users.verifiers)


async def clear(attacker: Attacker) -> None:
    """Delete all ACLs, and all users but one."""
    names = {name for _, name in attacker.kit.broker.users.verifiers}
    deletions = [
        {"name": name, "mechanism": mechanism} for name in sorted(names) for mechanism in (1, 2)
    ]
    # One change of each user in a request.
    for sent in (
        newest(ApiKey.DELETE_ACLS, filters=[ANY_ACL]),
        newest(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=deletions[::2]),
        newest(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=deletions[1::2]),
        newest(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, upsertions=[upsertion("alice")]),
        newest(ApiKey.CREATE_ACLS, creations=[ACL]),
    ):
        await longest_turn_of(attacker.log_in(), sent)


def newest(key: ApiKey, **values: Any) -> bytes:
    return frame(key, APIS[key].max_version, **values)


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_requests(
    part: int, kit: "Kit", worst: Worst, caplog: pytest.LogCaptureFixture
) -> None:
    principal = (ADMIN, ALICE)[part % 2]
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": ADMIN}

    async def scenario() -> None:
        async with kit.running(**settings) as client:
            await client.metadata()
            chance = random.Random(part)  # noqa: S311 - reproducible, not secret
            admin, attacker = Attacker(kit, ADMIN, chance), Attacker(kit, principal, chance)
            await clear(admin)
            before, changes = state(kit), 0
            with measuring():
                for number in range(ALL // PARTS):
                    if principal == ADMIN and number % CLEARED_AFTER == CLEARED_AFTER - 1:
                        await clear(admin)
                    await attacker.send(worst)
                    changes += number % LOOKED_AT == 0 and state(kit) != before
            assert bool(changes) == (principal == ADMIN)
            assert principal == ADMIN or state(kit) == before
            await clear(admin)
            assert state(kit) == before

    kit.run(scenario)
    assert [one.message for one in caplog.records if one.levelno >= logging.ERROR] == []
    worst.check()
