"""All users of a run: their clients, the changes of their objects, and the proof at the end."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from chiplog_core.naming import labels, names
from chiplog_kube import kinds
from chiplog_kube.manifests import ObjectKey, annotations_of
from e2e.sim.history import broker_of
from e2e.sim.kubelet import CLUSTER, NAMESPACE
from e2e.sim.users.accounts import CERTIFICATE, PASSWORD, RIGHTS, Account, Accounts
from e2e.sim.users.client import SCRAM_PORT, TLS_PORT, Surroundings, UserClient
from e2e.sim.users.habits import UserHabits
from e2e.sim.users.history import Calm, Right
from e2e.sim.users.watch import UserWatch
from e2e.sim.wire import PORT, TopicPartition
from e2e.sim.world import World

BOUND_S: Final = 2.0
"""All brokers follow a change of a User within this time, if nothing is wrong: the connections of a
deleted one are closed, and a new one can log in."""
STEP_S: Final = 4.0
"""Time between two changes of a user in the proof, for several requests after the bound."""
SERVED_WITHIN_S: Final = 60.0
"""In the end, all users must be served by all brokers within this time."""
COLLECTED_S: Final = 3.0
"""The longest time until the Secret of a deleted User is deleted, too."""
VALIDITY_DAYS: Final = 2
"""How long certificates of users are valid: clocks of brokers may be wrong by more."""
SPEC: Final[dict[str, Any]] = {
    "listeners": [
        {"name": "plain", "type": "internal", "port": PORT},
        {
            "name": "tls",
            "type": "internal",
            "port": TLS_PORT,
            "tls": True,
            "authentication": {"type": CERTIFICATE},
        },
        {
            "name": "scram",
            "type": "internal",
            "port": SCRAM_PORT,
            "tls": True,
            "authentication": {"type": PASSWORD},
        },
    ],
    "authorization": {"type": "simple", "superUsers": ["ANONYMOUS"]},
    "clientsCa": {"validityDays": VALIDITY_DAYS, "renewalDays": 1},
}
"""The fields of the spec of a cluster with users. Clients without a login are super users."""
REAUTH: Final = "connections.max.reauth.ms"


def config_of(habits: UserHabits) -> dict[str, Any]:
    """The entries of `spec.config`."""
    return {REAUTH: int(habits.reauth_s * 1000)} if habits.reauth_s else {}


class Users:
    """The users of a run."""

    def __init__(self, world: World, habits: UserHabits) -> None:
        """To be created before `World.begin`."""
        self._world = world
        self._habits = habits
        self._chance = world.own_chance()
        history = world.notebook.history.users
        self.accounts = Accounts(world.store, world.loop.time, history.intents)
        self._watch = UserWatch(world.server, world.nodes, self.accounts, history)
        self._history = history
        self._clients: dict[str, UserClient] = {}
        world.serve_users(self._watch.mounts_of)

    # -- the beginning

    def create(self) -> None:
        """Create the User objects."""
        for number in range(1, self._habits.with_passwords + 1):
            self.accounts.add(f"writer-{number}", PASSWORD)
        for number in range(1, self._habits.with_certificates + 1):
            self.accounts.add(f"reader-{number}", CERTIFICATE)

    def start(self) -> None:
        """Start a client for each user."""
        world = self._world
        around = Surroundings(
            nodes=world.nodes,
            store=world.store,
            notebook=world.notebook,
            watch=self._watch,
            habits=self._habits,
            partitions=lambda: world.used_partitions,
            leader=self._leader,
        )
        for account in self.accounts.all.values():
            client = UserClient(account, around, world.own_chance())
            self._clients[account.name] = client
            world.as_client(client.name, client.run())

    def _leader(self, partition: TopicPartition) -> int:
        known = self._world.trace_of_decisions.known.get(str(partition))
        return broker_of(known.leader) if known is not None and known.leader else -1

    # -- changes

    def delete(self, account: Account) -> None:
        """Delete a User; its Secret follows."""
        uid = self.accounts.uid(account)
        self.accounts.delete(account)
        delay_s = self._chance.uniform(0.0, COLLECTED_S)
        collect = partial(self.accounts.collect, uid, account.name)
        self._world.loop.call_later(delay_s, collect, context=self._world.network.context)

    def set_rights(
        self, account: Account, *, allowed: frozenset[Right], denied: frozenset[Right]
    ) -> None:
        """Replace the rules of a User."""
        account.allowed, account.denied = allowed, denied
        if account.exists:
            self.accounts.change(account)

    def restore(self, account: Account) -> None:
        """Let a user exist, with all rights."""
        account.allowed, account.denied, account.quotas = RIGHTS, frozenset(), {}
        if account.exists:
            self.accounts.change(account)
        else:
            self.accounts.create(account)

    def annotate(self, secret: str, **annotations: str) -> None:
        """Annotate a Secret, if it exists."""
        if self._world.store.peek(kinds.SECRETS, NAMESPACE, secret) is not None:
            patch = {"metadata": {"annotations": annotations}}
            self._world.store.patch(kinds.SECRETS, ObjectKey(NAMESPACE, secret), patch)

    def renew(self, secret: str) -> None:
        """Ask for new certificates in place of those in a Secret."""
        self.annotate(secret, **{labels.FORCE_RENEW: "true"})

    def replace_ca(self) -> None:
        """Ask for another key of the clients CA, and for the removal of the old one when that is
        due. Nothing happens while an earlier removal is asked for."""
        published = names.clients_ca_certificate(CLUSTER)
        found = self._world.store.peek(kinds.SECRETS, NAMESPACE, published) or {"metadata": {}}
        if annotations_of(found).get(labels.REMOVE_OLD_CA) == "true":
            return
        self.annotate(names.clients_ca_key(CLUSTER), **{labels.FORCE_REPLACE: "true"})
        self.annotate(published, **{labels.REMOVE_OLD_CA: "true"})

    def lose_ca(self) -> None:
        """Delete the clients CA: the operator makes another one, and nobody waits for anything."""
        for name in (names.clients_ca_key(CLUSTER), names.clients_ca_certificate(CLUSTER)):
            if self._world.store.peek(kinds.SECRETS, NAMESPACE, name) is not None:
                self._world.store.delete(kinds.SECRETS, ObjectKey(NAMESPACE, name))

    # -- the end

    async def prove(self) -> None:
        """Change users while all is well, and note when: brokers must follow in time. At the end
        all users exist with all rights, and must be served."""
        loop, accounts = self._world.loop, list(self.accounts.all.values())
        for account in accounts:
            self.restore(account)
        await asyncio.sleep(STEP_S)
        if self._habits.proves:
            from_s = loop.time()
            for step in self._steps(accounts):
                step()
                await asyncio.sleep(STEP_S)
            self._history.calm.append(Calm(from_s, loop.time()))
        restored_s = loop.time()
        while why := self._why_unserved(restored_s):
            if loop.time() - restored_s > SERVED_WITHIN_S:
                self._history.unserved.append(why)
                return
            await asyncio.sleep(0.5)

    def stop(self) -> None:
        """Let all clients end after their present request."""
        for client in self._clients.values():
            client.is_stopping = True

    def _steps(self, accounts: list[Account]) -> list[Callable[[], None]]:
        """The changes of the proof, one after the other."""
        chance = self._chance
        one, other = chance.sample(accounts, 2)
        with_password = next(one for one in accounts if one.type == PASSWORD)
        (right,) = chance.sample(sorted(RIGHTS), 1)

        def delete() -> None:
            for account in (one, other):
                self.delete(account)
                loop, context = self._world.loop, self._world.network.context
                why = f"its User was deleted {BOUND_S:g} s ago"
                look = partial(self._watch.look_at, account.name, loop.time(), why)
                loop.call_later(BOUND_S, look, context=context)

        def restore() -> None:
            for account in (one, other):
                self.restore(account)

        return [
            lambda: self.set_rights(one, allowed=RIGHTS, denied=frozenset({right})),
            lambda: self.set_rights(other, allowed=RIGHTS - {right}, denied=frozenset()),
            restore,
            lambda: self.accounts.change_password(with_password),
            delete,
            restore,
        ]

    def _why_unserved(self, since_s: float) -> str:
        """The first user that a broker has not served since then, as text."""
        for name, client in self._clients.items():
            for number in self._world.nodes:
                if client.served_s.get(number, 0.0) < since_s and self._is_serving(number):
                    return f"{name} by broker {number}"
        return ""

    def _is_serving(self, number: int) -> bool:
        broker = self._world.nodes[number].broker
        return broker is not None and broker.health.readiness()[0]
