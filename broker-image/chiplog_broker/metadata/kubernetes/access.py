"""Follows the AccessList of a cluster and the Secret with its users' verifiers.

The AccessList says who exists and who may do what. A change of its `credentialsDigest` has the
Secret read again, by name: brokers may not list Secrets. What cannot be read changes nothing, but a
user that the AccessList has no more cannot log in, be the Secret readable or not.
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from chiplog_broker.metadata.kubernetes.store_parts import StoreParts
from chiplog_broker.metadata.kubernetes.watching import watch
from chiplog_broker.security.cluster_access import ClusterAccess
from chiplog_broker.security.sasl import ANONYMOUS
from chiplog_broker.security.users import Verifiers
from chiplog_core.authorizer.decision import Authorizer
from chiplog_core.client_quotas.listed import listed_quotas
from chiplog_core.client_quotas.table import QuotaTable
from chiplog_core.model.access_list import AccessList, AccessListSpec
from chiplog_core.model.principals import USER_TYPE
from chiplog_core.naming import names
from chiplog_core.problems import InvalidManifest
from chiplog_core.validate.user import why_no_login_name
from chiplog_kube.api import ApiError, Manifest
from chiplog_kube.kinds import ACCESS_LISTS, SECRETS
from chiplog_wire.verifiers import UNREADABLE, read_verifier

logger = logging.getLogger(__name__)

RETRY_S: Final = 1.0
READ_TIMEOUT_S: Final = 10.0
NOT_READ: Final = "not read"
"""In place of a digest: the Secret was not read yet."""


class Compiled(NamedTuple):
    """An AccessList in the form in which it is used."""

    spec: AccessListSpec
    authorizer: Authorizer
    principals: frozenset[str]
    quotas: QuotaTable
    usernames: Mapping[str, str]
    """The name of each user's object, which its verifier has, too, -> the name to log in with."""


class AccessWatch:
    """Keeps the ACLs, users and quotas of this broker as the operator has written them."""

    def __init__(self, parts: StoreParts, access: ClusterAccess) -> None:
        self._parts = parts
        self._access = access
        self.reflector = watch(parts, ACCESS_LISTS, self._changed, name=parts.process.cluster)
        self._manifest: Manifest | None = None
        self._due = asyncio.Event()
        self._applied = asyncio.Event()
        self._compiled: Compiled | None = None
        self._verifiers: Verifiers = {}
        """All of the Secret, as it was read last."""
        self._digest: str | None = NOT_READ
        """The digest with which it was read."""
        self._is_logged = False
        self.known = asyncio.Event()
        """Set when ACLs and users are known."""

    async def run(self) -> None:
        """Apply changes until cancelled. A list does not wait for the Secret of an earlier one:
        a request to the API server may take long, and a deny must not."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_list())
            group.create_task(self._follow_secret())

    async def _follow_list(self) -> None:
        """Use each AccessList as soon as it is there."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._manifest is not None:
                await self._apply(self._manifest)

    async def _follow_secret(self) -> None:
        """Read the Secret when it has changed, by the digest in the AccessList."""
        while True:
            await self._wait()
            if self._compiled is None or not self._is_behind:
                continue
            if await self._read(self._digest_of(self._compiled)):
                self._use(self._compiled)

    def _changed(self, _before: Manifest | None, after: Manifest | None) -> None:
        """The AccessList changed. One that is deleted stays in force until there is another one."""
        if after is None:
            cluster = self._parts.process.cluster
            logger.warning("access_list_missing", extra={"cluster": cluster})
        else:
            self._manifest = after
            self._due.set()

    async def _wait(self) -> None:
        """Wait until a list was applied, or to read the Secret again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRY_S if self._is_behind else None):
                await self._applied.wait()
        self._applied.clear()

    @property
    def _is_behind(self) -> bool:
        """Whether the Secret has to be read."""
        compiled = self._compiled
        return compiled is not None and self._digest_of(compiled) != self._digest

    def _digest_of(self, now: Compiled) -> str | None:
        """The digest of the Secret; None if there is none, or if nobody logs in here: then this
        broker may not read it."""
        return now.spec.credentials_digest if self._access.has_logins else None

    async def _apply(self, manifest: Manifest) -> None:
        """Use the ACLs and users of an AccessList."""
        self._manifest = None
        try:
            # In another thread: a list may have ten thousand ACLs.
            self._compiled = await asyncio.to_thread(compiled, manifest)
        except InvalidManifest as invalid:
            logger.error("access_list_unreadable", extra={"reason": str(invalid)})
            return
        self._access.use_acls(self._compiled.authorizer, self._compiled.quotas)
        if self._digest != NOT_READ:
            # With the verifiers that are known now.
            self._use(self._compiled)
        self._applied.set()

    def _use(self, now: Compiled) -> None:
        listed = {
            (mechanism, now.usernames[name]): credential
            for (mechanism, name), credential in self._verifiers.items()
            if name in now.usernames
        }
        self._access.use_users(listed, now.principals)
        if not self.known.is_set():
            self.known.set()
            logger.info("users_known", extra={"users": len(now.principals)})

    async def _read(self, digest: str | None) -> bool:
        """Read the Secret; returns whether that succeeded. Without a digest there is none."""
        try:
            content = {} if digest is None else await self._content()
        except (ApiError, TimeoutError) as error:
            if not self._is_logged:
                self._is_logged = True
                reason = f"{type(error).__name__}: {error}"
                logger.warning("credentials_not_read", extra={"reason": reason})
            return False
        self._is_logged = False
        self._verifiers = await asyncio.to_thread(decoded_verifiers, content)
        self._digest = digest
        return True

    async def _content(self) -> Mapping[str, str]:
        """The entries of the Secret, in base64. Raises `ApiError` or `TimeoutError`."""
        process = self._parts.process
        async with asyncio.timeout(READ_TIMEOUT_S):
            secret = await self._parts.api.get(
                SECRETS, process.namespace, names.scram_credentials(process.cluster)
            )
        found: Mapping[str, str] = secret.get("data") or {}
        return found


def compiled(manifest: Manifest) -> Compiled:
    """An AccessList in the form in which it is used. Raises `InvalidManifest`."""
    spec = AccessList.from_manifest(manifest).spec
    authorizer = Authorizer(
        (acl for user in spec.users for acl in user.kafka_acls()),
        spec.super_users,
        allow_everyone_if_no_acl_found=spec.allow_everyone_if_no_acl_found,
    )
    usernames = {user.name: user.principal.removeprefix(USER_TYPE) for user in spec.users}
    return Compiled(
        spec,
        authorizer,
        # Who does not log in is not disconnected when its rules are deleted.
        frozenset(user.principal for user in spec.users) - {ANONYMOUS},
        # A user who has a certificate now may have had a password before.
        listed_quotas(spec),
        {name: one for name, one in usernames.items() if not why_no_login_name(one)},
    )


def decoded_verifiers(content: Mapping[str, Any]) -> Verifiers:
    """The verifiers in the entries of a Secret. Users whose entry cannot be read cannot log in."""
    found: dict[Any, Any] = {}
    unreadable = []
    for name, encoded in content.items():
        try:
            verifier = read_verifier(b64decode(encoded, validate=True))
        except UNREADABLE:
            unreadable.append(name)
        else:
            found |= {(mechanism, name): one for mechanism, one in verifier.items()}
    if unreadable:
        logger.error("credentials_unreadable", extra={"users": first_of(unreadable)})
    return found


def first_of(unreadable: Iterable[str]) -> str:
    """Some names, for a line of the log."""
    return ", ".join(sorted(unreadable)[:10])
