"""Observes what brokers know of users, without side effects.

What a broker's process has got from the API server or from its kubelet is in force for it at once:
only what it does then takes a moment. So connections that must end are looked at soon after.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from chiplog_broker.security.tls import certificates_of
from chiplog_core.naming import names
from chiplog_kube import kinds
from chiplog_kube.api import EventType, Manifest
from chiplog_kube.kinds import Kind
from chiplog_operator.certificates.issuing import key_id
from chiplog_operator.resources.volumes import CLIENTS_CA_PATH
from chiplog_operator.users.secret import CERTIFICATE as USER_CERTIFICATE
from chiplog_operator.users.verifiers import Verifier
from e2e.sim.api_server import ApiServer
from e2e.sim.api_store import Change
from e2e.sim.kubelet import CLUSTER, NAMESPACE, Node
from e2e.sim.loop import PROCESS
from e2e.sim.mounts import Mounts
from e2e.sim.network import Transport
from e2e.sim.tls import is_issued_by, read_certificate
from e2e.sim.users.accounts import CERTIFICATE, OPERATIONS, TOPICS, Accounts, entry, implied
from e2e.sim.users.history import (
    Kept,
    Listed,
    LostCertificate,
    Right,
    Trusted,
    UserHistory,
    Verifiable,
)

MOMENT_S: Final = 0.05
"""A running broker has closed connections, and decides by what it has got, within this time."""
CA_ENTRY: Final = "ca.crt"


@dataclass(eq=False, slots=True, kw_only=True)
class Logged:
    """A connection of a user that is logged in."""

    client: str
    user: str
    principal: str
    password: str
    login_s: float
    server_end: Transport


class UserWatch:
    """Notes in the history of users what brokers have got, and what they have not closed."""

    def __init__(
        self,
        server: ApiServer,
        nodes: Mapping[int, Node],
        accounts: Accounts,
        history: UserHistory,
    ) -> None:
        self._server = server
        self._loop = server.loop
        self._nodes = nodes
        self._accounts = accounts
        self._history = history
        self.logged: dict[Logged, None] = {}
        """The connections that clients have not closed themselves."""
        self.authorities: dict[bytes, None] = {}
        """All CAs of clients that were ever published, in DER."""
        self._trusted: dict[int, frozenset[bytes]] = {}
        """Broker -> the CAs in its pod's files, in DER."""
        self._listed: dict[str, Listed] = {}
        """Process -> the last AccessList that it got."""
        self._verifiable: dict[str, Verifiable] = {}
        """Process -> the last verifiers that it got."""
        server.on_delivery.append(self._delivered)
        server.store.on_change.append(self._changed)

    def opened(self, one: Logged) -> None:
        """A client has logged in. If its user was changed meanwhile, the broker ends that, too."""
        self.logged[one] = None
        process = one.server_end.process.name
        listed, verifiable = self._listed.get(process), self._verifiable.get(process)
        if not one.password or listed is None or verifiable is None:
            return
        if one.principal not in listed.rights:
            self._look_later([(one, "its user was deleted during the login")])
        elif verifiable.passwords.get(one.user) != one.password:
            self._look_later([(one, "its password was changed during the login")])

    def mounts_of(self, number: int, root: Path, chance: random.Random) -> Mounts:
        """The mounted Secrets of one broker's pod; what brokers trust is noted."""

        def changed(path: str, content: bytes) -> None:
            if path == f"{CLIENTS_CA_PATH}/{CA_ENTRY}":
                found = frozenset(certificates_of(content))
                self._trusted[number] = found
                keys = frozenset(map(key_of, found))
                self._history.trusted.append(Trusted(self._loop.time(), number, keys))

        store = self._server.store
        return Mounts(root / f"broker-{number}", store, NAMESPACE, chance, changed)

    # -- what brokers get from the API server

    def _delivered(self, kind: Kind, manifest: Manifest) -> None:
        """A process got an object."""
        process = PROCESS.get()
        if process is None or not process.name.startswith("broker-"):
            return
        now_s = self._loop.time()
        if kind is kinds.ACCESS_LISTS:
            before = self._listed.get(process.name, Listed(now_s, process.name, {}))
            listed = Listed(now_s, process.name, rights_in(manifest))
            self._listed[process.name] = listed
            self._history.listed.append(listed)
            deleted = before.rights.keys() - listed.rights.keys()
            self._look_soon(
                process.name,
                lambda one: "its user was deleted" if one.principal in deleted else "",
            )
        elif kind is kinds.SECRETS and (
            manifest["metadata"]["name"] == names.scram_credentials(CLUSTER)
        ):
            passwords = self._passwords_in(manifest)
            verifiable = self._verifiable[process.name] = Verifiable(now_s, process.name, passwords)
            self._history.verifiable.append(verifiable)
            self._look_soon(
                process.name,
                lambda one: (
                    "its password was changed"
                    if one.password and passwords.get(one.user) != one.password
                    else ""
                ),
            )

    def _look_soon(self, process: str, why_ended: Callable[[Logged], str]) -> None:
        """Note the connections to this process that it should close now, and does not."""
        due = [
            (one, why)
            for one in self.logged
            if one.server_end.process.name == process and (why := why_ended(one))
        ]
        if due:
            self._look_later(due)

    def _look_later(self, due: Iterable[tuple[Logged, str]]) -> None:
        """Note these connections if they are still open in a moment."""
        at_s, context = self._loop.time(), self._server.network.context
        self._loop.call_later(MOMENT_S, self._look, due, at_s, context=context)

    def look_at(self, user: str, since_s: float, why: str) -> None:
        """Note the connections of a user from before this time that are still open."""
        due = [one for one in self.logged if one.user == user and one.login_s < since_s]
        self._look([(one, why) for one in due], since_s)

    def _look(self, due: Iterable[tuple[Logged, str]], since_s: float) -> None:
        """Note those that are open, unless their broker did not run since then."""
        for one, why in due:
            process = one.server_end.process
            was_running = not process.is_paused and process.resumed_s < since_s
            if one.server_end.is_open and was_running:
                now_s = self._loop.time()
                self._history.kept.append(Kept(now_s, process.name, one.client, one.principal, why))

    def _passwords_in(self, secret: Manifest) -> dict[str, str]:
        """User -> its password, by the verifiers in the Secret; those of nobody are left out."""
        found = {}
        for name, account in self._accounts.all.items():
            text = entry(secret, name).decode()
            for password in reversed(account.passwords) if text else ():
                if fits(text, password):
                    found[name] = password
                    break
        return found

    # -- certificates of users

    def _changed(self, change: Change) -> None:
        """A Secret has changed: find users who can no longer log in by what the operator did."""
        if change.kind is not kinds.SECRETS:
            return
        name = change.object["metadata"]["name"]
        if name == names.clients_ca_certificate(CLUSTER):
            found = certificates_of(entry(change.object, CA_ENTRY))
            self.authorities.update(dict.fromkeys(found))
            if change.before is not None:
                self._check_removal(change)
        elif name in self._accounts.all and change.before is not None:
            self._check_issue(name, change)

    def _check_removal(self, change: Change) -> None:
        """CAs that are published no more must have been nobody's."""
        before, after = (
            certificates_of(entry(one, CA_ENTRY)) for one in (change.before, change.object)
        )
        if change.type is EventType.DELETED or set(before) <= set(after):
            return
        store = self._server.store
        for account in self._accounts.all.values():
            own = entry(store.peek(kinds.SECRETS, NAMESPACE, account.name), USER_CERTIFICATE)
            if account.type != CERTIFICATE or not account.exists or not own:
                continue
            (certificate, *_) = certificates_of(own)
            if not any(is_issued_by(certificate, one) for one in after) and any(
                is_issued_by(certificate, one) for one in before
            ):
                self._lost(account.name, "the CA of its certificate was removed")

    def _check_issue(self, user: str, change: Change) -> None:
        """A user that had a certificate must get one that all running brokers accept."""
        old, new = (
            certificates_of(entry(one, USER_CERTIFICATE)) for one in (change.before, change.object)
        )
        if not old or not new or old == new:
            return
        published = self._server.store.peek(
            kinds.SECRETS, NAMESPACE, names.clients_ca_certificate(CLUSTER)
        )
        authorities = certificates_of(entry(published, CA_ENTRY))
        if not any(is_issued_by(old[0], one) for one in authorities):
            return
        for number, node in self._nodes.items():
            trusted = self._trusted.get(number, frozenset())
            was_accepted, is_accepted = (
                any(is_issued_by(one[0], authority) for authority in trusted) for one in (old, new)
            )
            if node.process is not None and was_accepted and not is_accepted:
                self._lost(user, f"broker {number} does not trust the CA of its new certificate")

    def _lost(self, user: str, why: str) -> None:
        self._history.lost_certificates.append(LostCertificate(self._loop.time(), user, why))


def rights_in(access_list: Manifest) -> dict[str, frozenset[Right]]:
    """Principal -> what the ACLs of an AccessList allow it."""
    return {
        one["principal"]: _rights_of(one.get("acls") or ())
        for one in access_list["spec"].get("users") or ()
    }


def _rights_of(acls: Iterable[Mapping[str, Any]]) -> frozenset[Right]:
    """What these entries allow: what one of them allows, and none denies."""
    allowed: set[Right] = set()
    denied: set[Right] = set()
    for one in acls:
        of_type = denied if one.get("permission") == "deny" else allowed
        of_type.update(
            (operation, topic)
            for topic in TOPICS
            if one["resourceType"] == "topic" and _matches(one, topic)
            for operation in (OPERATIONS if "All" in one["operations"] else one["operations"])
        )
    return implied(allowed) - denied


def _matches(acl: Mapping[str, Any], topic: str) -> bool:
    """Whether the entry is about this topic."""
    if acl.get("patternType") == "prefixed":
        return topic.startswith(acl["name"])
    return acl["name"] in {topic, "*"}


@lru_cache(maxsize=4096)
def fits(verifier: str, password: str) -> bool:
    """Whether this is the verifier of the password."""
    return Verifier.read(verifier).fits(password)


@lru_cache(maxsize=1024)
def key_of(authority: bytes) -> str:
    """What identifies a CA: its key, of which it may have several certificates."""
    return key_id(read_certificate(authority).public_key())
