"""Changes of the users who log in, and of the CA of their certificates."""

import asyncio
from typing import Final

from chiplog_core.naming import names
from e2e.sim.faults.stage import Act, Stage
from e2e.sim.kubelet import CLUSTER
from e2e.sim.users.accounts import PASSWORD, RIGHTS, Account
from e2e.sim.users.crowd import VALIDITY_DAYS, Users

DAY_S: Final = 24 * 3600.0
LONGEST_S: Final = 15.0
"""The longest time until a user is what it was before."""
QUOTAS: Final = ("producerByteRate", "consumerByteRate", "requestPercentage")
SMALL_QUOTA: Final = 60
"""Bytes per second, or percent of a processor's core. Some requests exceed it."""


def _users(stage: Stage) -> Users:
    assert stage.users is not None, "only seeds with users draw this"
    return stage.users


def _somebody(stage: Stage) -> Account:
    """A random user, which may be deleted at the moment."""
    all_ = _users(stage).accounts.all
    return all_[stage.chance.choice(sorted(all_))]


async def _restore(stage: Stage, account: Account) -> None:
    """After a while, let the user have all rights again, unless it is deleted."""
    await asyncio.sleep(stage.chance.uniform(0.5, LONGEST_S))
    if account.exists:
        _users(stage).restore(account)


async def deny(stage: Stage) -> None:
    """Deny a user some of what it may do."""
    account, count = _somebody(stage), stage.chance.randint(1, len(RIGHTS))
    denied = frozenset(stage.chance.sample(sorted(RIGHTS), count))
    _users(stage).set_rights(account, allowed=RIGHTS, denied=denied)
    await _restore(stage, account)


async def take(stage: Stage) -> None:
    """Remove some rules that allow something."""
    account, count = _somebody(stage), stage.chance.randrange(len(RIGHTS))
    allowed = frozenset(stage.chance.sample(sorted(RIGHTS), count))
    _users(stage).set_rights(account, allowed=allowed, denied=frozenset())
    await _restore(stage, account)


async def delete(stage: Stage) -> None:
    """Delete a user; after a while, create it again."""
    account, users = _somebody(stage), _users(stage)
    if not account.exists:
        return
    users.delete(account)
    await asyncio.sleep(stage.chance.uniform(0.0, LONGEST_S))
    users.restore(account)


async def change_password(stage: Stage) -> None:
    """Give a user another password."""
    users = _users(stage)
    chosen = [one for one in users.accounts.all.values() if one.type == PASSWORD and one.exists]
    if chosen:
        users.accounts.change_password(stage.chance.choice(chosen))


async def limit(stage: Stage) -> None:
    """Let a quota hold for a user, for a while."""
    account = _somebody(stage)
    if account.exists:
        account.quotas = {stage.chance.choice(QUOTAS): SMALL_QUOTA}
        _users(stage).accounts.change(account)
        await _restore(stage, account)


async def replace_ca(stage: Stage) -> None:
    """Replace the key of the clients CA, step by step."""
    _users(stage).replace_ca()


async def lose_ca(stage: Stage) -> None:
    """Delete the Secrets of the clients CA."""
    _users(stage).lose_ca()


async def renew_servers(stage: Stage) -> None:
    """Ask for new certificates of all brokers."""
    _users(stage).renew(names.broker_certificates(CLUSTER))


async def renew_ca(stage: Stage) -> None:
    """Ask for a new certificate of the clients CA, with the same key."""
    _users(stage).renew(names.clients_ca_certificate(CLUSTER))


async def expire(stage: Stage) -> None:
    """Let the clock of a broker be days ahead for a while: all certificates of users have expired
    for it, also those of sessions that clients have saved."""
    node = stage.node()
    stage.world.watch.observe()
    node.clock.skew_s = (VALIDITY_DAYS + 1) * DAY_S
    try:
        await asyncio.sleep(stage.chance.uniform(3.0, LONGEST_S))
    finally:
        stage.world.watch.observe()
        node.clock.skew_s = 0.0


ACTS: Final[dict[str, Act]] = {
    "user denied": deny,
    "rules removed": take,
    "user deleted": delete,
    "password changed": change_password,
    "user limited": limit,
    "clients CA replaced": replace_ca,
    "clients CA lost": lose_ca,
    "server certificates renewed": renew_servers,
    "clients CA renewed": renew_ca,
    "certificates expired": expire,
}
