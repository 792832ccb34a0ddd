"""Planted bugs of users: what brokers keep too long, and steps of a CA that wait for nobody.

Each function replaces one of the brokers' or of the operator's.
"""

import asyncio
import ssl
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from chiplog_broker.metadata.kubernetes.access import NOT_READ, RETRY_S, AccessWatch
from chiplog_broker.security.authorization import Authorization
from chiplog_broker.security.sasl import ANONYMOUS, Login
from chiplog_broker.security.tls import Content, Generation, TlsFiles, certificates_of
from chiplog_broker.security.users import Change, UserLogins
from chiplog_broker.security.x509 import distinguished_name
from chiplog_broker.server import listening
from chiplog_broker.server.connection import AnyRequest, Started
from chiplog_broker.server.gate import TimedService
from chiplog_broker.server.peer import Peer
from chiplog_core.certificates import authority, servers
from chiplog_core.certificates.authority import Authority
from chiplog_wire.protocol.apis import ApiKey
from chiplog_wire.protocol.requests import Request
from e2e.sim.faults import Mix
from e2e.sim.mutants.mutant import Mutant, mix, plant
from e2e.sim.users.habits import UserHabits


def _with_users(*faults: str, every_s: float = 2.0, faults_s: float = 15.0, **habits: Any) -> Mix:
    """A mix with users and these faults, in a cluster of one broker with few other clients."""
    return replace(
        mix(1, every_s, *faults, faults_s=faults_s),
        producers=1,
        consumers=0,
        pause_s=10.0,
        users=UserHabits(**{"pause_s": 0.5, **habits}),
    )


def _kept_for_ever(authorization: Authorization) -> Any:
    """Keep decisions also when the ACLs change."""
    return authorization._kept  # noqa: SLF001


def _ends_changed_logins(change: Change, principal: str, login: Login | None) -> bool:
    """End the connections of users with other passwords, but not those of deleted users."""
    is_changed = login is not None and not change.is_current(login)
    return is_changed and principal not in change.deleted_principals


def _trust_also(files: TlsFiles, content: Content, found: Generation) -> None:
    """Add the CAs of the new files to the context that there is."""
    context = files._current.context  # noqa: SLF001
    if added := certificates_of(content.trusted):
        context.load_verify_locations(cadata=b"".join(added))
    files._content = content  # noqa: SLF001
    files._current = replace(found, context=context)  # noqa: SLF001


def _of_the_certificate(connection: ssl.SSLObject | None, _now_s: float) -> str:
    """The principal of a client, whenever its certificate expires."""
    certificate = None if connection is None else connection.getpeercert(binary_form=True)
    return ANONYMOUS if certificate is None else f"User:{distinguished_name(certificate)}"


def _never_expired(service: TimedService, request: AnyRequest, peer: Peer) -> Started:
    """Serve connections whose login has expired."""
    if isinstance(request, Request) and request.header.api_key is ApiKey.SASL_HANDSHAKE:
        return service._gate.renew(request, peer)  # noqa: SLF001
    return service._service.start(request, peer)  # noqa: SLF001


def _may_issue_at_once(ca: Authority, now: datetime, _checked_by: object = None) -> bool:
    """Issue certificates of a new CA before anybody trusts it."""
    return ca.current(now) is not None


def _is_unread(watch: AccessWatch) -> bool:
    """Read the Secret with the verifiers once, and not when it changes."""
    return watch._compiled is not None and watch._digest == NOT_READ  # noqa: SLF001


async def _in_turn(watch: AccessWatch) -> None:
    """Use a list when the Secret of the one before was read."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S if watch._is_behind else None):  # noqa: SLF001
                await watch._due.wait()  # noqa: SLF001
        watch._due.clear()  # noqa: SLF001
        if watch._manifest is not None:  # noqa: SLF001
            await watch._apply(watch._manifest)  # noqa: SLF001
        now = watch._compiled  # noqa: SLF001
        if now is None or not watch._is_behind:  # noqa: SLF001
            continue
        if await watch._read(watch._digest_of(now)):  # noqa: SLF001
            watch._use(now)  # noqa: SLF001


MUTANTS: Final = (
    Mutant(
        "what was allowed stays allowed after a deny",
        _with_users("user denied", "rules removed"),
        frozenset({"allowed-although-denied", "late-change"}),
        plant(Authorization, "_known", _kept_for_ever),
    ),
    Mutant(
        "the connections of a deleted user are kept",
        _with_users("user deleted"),
        frozenset({"kept-connection"}),
        plant(Change, "ends", _ends_changed_logins),
    ),
    Mutant(
        "a CA that was removed is still trusted",
        _with_users("clients CA lost", every_s=10.0, faults_s=60.0),
        frozenset({"removed-ca-accepted"}),
        plant(TlsFiles, "_use", _trust_also),
    ),
    Mutant(
        "a login that has expired is served",
        _with_users("connections broken", every_s=10.0, reauth_s=4.0),
        frozenset({"expired-login"}),
        plant(TimedService, "start", _never_expired),
    ),
    Mutant(
        "a saved session outlives the certificate",
        _with_users("certificates expired", every_s=5.0),
        frozenset({"expired-certificate-accepted"}),
        plant(listening, "principal_of", _of_the_certificate),
    ),
    Mutant(
        "the clients CA is removed while users need it",
        _with_users("clients CA replaced", every_s=10.0, faults_s=60.0),
        frozenset({"lost-certificate"}),
        plant(authority, "may_remove_old", lambda *_: True),
    ),
    Mutant(
        "users get certificates of a CA that brokers do not trust",
        _with_users("clients CA replaced", every_s=10.0, faults_s=60.0),
        frozenset({"lost-certificate"}),
        plant(servers, "may_issue", _may_issue_at_once),
    ),
    Mutant(
        "a login goes on with a password that was just changed",
        _with_users(
            "password changed",
            "slow network",
            every_s=1.0,
            with_certificates=0,
            reconnect_share=0.5,
        ),
        frozenset({"kept-connection"}),
        plant(UserLogins, "_current", lambda _, login: login),
    ),
    Mutant(
        "passwords are not read again",
        _with_users("password changed"),
        frozenset({"late-change", "user-unserved"}),
        plant(AccessWatch, "_is_behind", property(_is_unread)),
    ),
    Mutant(
        "a deny waits until a Secret is read",
        _with_users("denied while a Secret is read", every_s=3.0),
        frozenset({"allowed-although-denied"}),
        plant(AccessWatch, "run", _in_turn),
    ),
)
