"""Has the operator change User objects for this broker's clients.

Each request to the operator is about one user. It names ACLs, not filters: those that this broker
knows and that match. So it can be repeated, and deletes nothing else. A success is reported when
this broker has seen the change. Of a password the operator gets only what verifies it, encrypted:
statuses of brokers are read by more people than Secrets.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from chiplog_broker.bounded_gather import bounded_gather
from chiplog_broker.metadata.kubernetes.admin_requests import SEEN_WITHIN_S, AdminRequests
from chiplog_broker.metadata.kubernetes.process import Process
from chiplog_broker.ports.rng import Rng
from chiplog_broker.security.authorization import (
    MAX_MATCHES,
    TOO_MANY_MATCHES,
    Creation,
    Deletions,
)
from chiplog_broker.security.cluster_access import ClusterAccess
from chiplog_broker.security.credentials import CredentialSource
from chiplog_broker.security.no_logins import NO_PASSWORDS
from chiplog_broker.security.refusal import Refusal
from chiplog_broker.security.scram_store import CredentialChange
from chiplog_core.admin.operations import AlterAcls, AlterQuotas, AlterScram, OfUser
from chiplog_core.admin.request_keys import credential_place, request_key
from chiplog_core.authorizer.acls import WILDCARD, Acl
from chiplog_core.authorizer.filters import AclFilter
from chiplog_core.client_quotas.entities import DEFAULT, Entity
from chiplog_core.client_quotas.listed import value_in_user
from chiplog_core.client_quotas.table import QuotaChange
from chiplog_core.limits import MAX_ACLS_PER_USER
from chiplog_core.model.acl_rules import entries_of, why_not_a_rule
from chiplog_core.model.principals import USER_TYPE
from chiplog_core.validate.user import why_no_login_name
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.scram import Mechanism
from chiplog_wire.sealing import NONCE_BYTES, seal
from chiplog_wire.verifiers import verifier_text

K = TypeVar("K")

MAX_CHUNK_LENGTH: Final = 48_000
"""Characters of the ACLs in one request to the operator, as JSON. The longest principal and the
rest of the request fit beside them."""
FIELDS_LENGTH: Final = 250
"""Characters of an entry besides its name and host."""
MAX_SALT_BYTES: Final = 64
"""All verifiers of a cluster are in one Secret. Kafka's clients make salts of 26 bytes, librdkafka
of 64."""
STORED: Final = Mechanism.SCRAM_SHA_512
OTHER_MECHANISM: Final = Refusal(
    ErrorCode.unsupported_sasl_mechanism,
    "users of this cluster have passwords for SCRAM-SHA-512 only: use that",
)
OF_NO_USER: Final = Refusal(
    ErrorCode.policy_violation,
    "quotas of this cluster are in User objects in Kubernetes: name one user, and no default, no "
    "client id and not *",
)
LONG_SALT: Final = Refusal(
    ErrorCode.unacceptable_credential, f"The salt needs 1 to {MAX_SALT_BYTES} bytes"
)


class OperatorsUsers:
    """The `UserChanges` of a broker."""

    def __init__(
        self,
        access: ClusterAccess,
        admin: AdminRequests,
        process: Process,
        rng: Rng,
        internal: CredentialSource | None,
    ) -> None:
        """`internal` has the secret that the operator knows, too."""
        self._access = access
        self._admin = admin
        self._process = process
        self._rng = rng
        self._internal = internal

    async def create(self, acls: Sequence[Acl], principal: str) -> list[Creation]:
        """Add ACLs; one result for each."""
        known = self._access.authorizer.acls
        new = {acl: acl not in known for acl in acls}
        refused = await self._alter_acls(acls, principal, is_deletion=False)
        return [Creation(refused.get(acl), is_new=new[acl]) for acl in acls]

    async def delete(self, filters: Sequence[AclFilter], principal: str) -> Deletions:
        """Delete the known ACLs that the filters match. Raises `ValueError` for too many."""
        known = tuple(self._access.authorizer.acls)
        # In another thread, as each filter reads all ACLs.
        matches = await asyncio.to_thread(
            lambda: [[acl for acl in known if one.matches(acl)] for one in filters]
        )
        if sum(map(len, matches)) > MAX_MATCHES:
            raise ValueError(TOO_MANY_MATCHES)
        found = dict.fromkeys(acl for matched in matches for acl in matched)
        return Deletions(matches, await self._alter_acls(found, principal, is_deletion=True))

    async def alter(
        self, changes: Sequence[CredentialChange], principal: str
    ) -> Mapping[str, Refusal]:
        """Store and delete credentials; returns those that were refused, by user."""
        return await refusals(
            (change.username, self._alter(change, principal)) for change in changes
        )

    async def alter_quotas(
        self, changes: Sequence[QuotaChange], principal: str, *, validate_only: bool
    ) -> Mapping[Entity, Refusal]:
        """Set and remove quotas; returns those that were refused, by entity."""
        return await refusals(
            (change.entity, self._alter_quotas(change, principal, validate_only=validate_only))
            for change in changes
        )

    # -- ACLs

    async def _alter_acls(
        self, acls: Iterable[Acl], principal: str, *, is_deletion: bool
    ) -> Mapping[Acl, Refusal]:
        """Create or delete these; returns those that were refused."""
        refused: dict[Acl, Refusal] = {}
        valid: list[Acl] = []
        for acl in acls:
            if why := why_not_a_rule(acl):
                refused[acl] = Refusal(ErrorCode.policy_violation, why)
            else:
                valid.append(acl)

        async def one(chunk: list[Acl]) -> None:
            refusal = await self._alter_chunk(chunk, principal, is_deletion=is_deletion)
            if refusal is not None:
                refused.update(dict.fromkeys(chunk, refusal))

        await bounded_gather(one(chunk) for chunk in chunks(valid))
        return refused

    async def _alter_chunk(
        self, acls: Sequence[Acl], principal: str, *, is_deletion: bool
    ) -> Refusal | None:
        """Create or delete ACLs of one principal."""

        def is_seen() -> bool:
            known = self._access.authorizer.acls
            return all((acl in known) is not is_deletion for acl in acls)

        operation = AlterAcls(
            name=acls[0].principal, acls=entries_of(acls), is_deletion=is_deletion
        )
        return await self._carry_out(operation, principal, self._admin.new_id(), is_seen)

    # -- credentials

    async def _alter(self, change: CredentialChange, principal: str) -> Refusal | None:
        """Store a credential, or delete it."""
        key, wanted = (change.mechanism, change.username), change.credential
        before = self._access.verifiers.get(key)
        if (refusal := self._why_not(change)) is not None:
            return refusal
        request_id, sealed = self._admin.new_id(), None
        if wanted is not None:
            sealed = await self._sealed(change, request_id)
        operation = AlterScram(username=change.username, sealed=sealed)
        return await self._carry_out(
            operation,
            principal,
            request_id,
            lambda: self._access.verifiers.get(key) == wanted,
            is_replaced=lambda: self._access.verifiers.get(key) != before,
        )

    def _why_not(self, change: CredentialChange) -> Refusal | None:
        if not self._access.has_logins or self._internal is None:
            return NO_PASSWORDS
        if change.mechanism is not STORED:
            return OTHER_MECHANISM
        if change.credential is not None and len(change.credential.salt) > MAX_SALT_BYTES:
            return LONG_SALT
        if why := why_no_login_name(change.username):
            return Refusal(ErrorCode.unacceptable_credential, f"The name {why}")
        return None

    async def _sealed(self, change: CredentialChange, request_id: str) -> str:
        """What verifies the password, encrypted for the operator and this one request."""
        assert change.credential is not None, "there is something to store"
        assert self._internal is not None, "it was checked"
        process = self._process
        place = credential_place(
            process.namespace,
            process.cluster,
            request_key(process.incarnation, request_id),
            change.username,
        )
        text = verifier_text({change.mechanism: change.credential})
        secret = self._internal.accepted()[0].password
        # In another thread: the first time, a large package is imported.
        return await asyncio.to_thread(seal, secret, place, text, self._rng.token(NONCE_BYTES))

    # -- quotas

    async def _alter_quotas(
        self, change: QuotaChange, principal: str, *, validate_only: bool
    ) -> Refusal | None:
        """Set and remove quotas of one entity, which must be a user."""
        entity, values = change
        if entity.client_id is not None or entity.user in (None, DEFAULT, WILDCARD):
            return OF_NO_USER
        assert entity.user is not None, "it was checked"

        def is_seen() -> bool:
            known = self._access.quotas.table.entities.get(entity, {})
            return validate_only or all(
                known.get(quota) == (None if value is None else value_in_user(quota, value))
                for quota, value in values.items()
            )

        operation = AlterQuotas(username=entity.user, values=values, validate_only=validate_only)
        return await self._carry_out(operation, principal, self._admin.new_id(), is_seen)

    # -- requests

    async def _carry_out(
        self,
        operation: OfUser,
        principal: str,
        request_id: str,
        is_seen: Callable[[], bool],
        is_replaced: Callable[[], bool] = lambda: False,
    ) -> Refusal | None:
        """Have the operator carry out an operation, and wait until this broker sees its effect.
        Another client may change the same at once, and then it is never seen here: so after a
        while `is_replaced` is enough."""

        async def seen() -> None:
            try:
                async with asyncio.timeout(SEEN_WITHIN_S):
                    await self._access.until(is_seen)
            except TimeoutError:
                await self._access.until(lambda: is_seen() or is_replaced())

        outcome = await self._admin.submit(operation, principal, request_id, seen)
        if outcome.code is ErrorCode.none:
            return None
        why = outcome.message or ""
        if outcome.code is ErrorCode.request_timed_out:
            user = operation.name.removeprefix(USER_TYPE)
            why = f"{why}: see the conditions of User {user} in kubectl get users.chiplog.dev"
        return Refusal(outcome.code, why)


async def refusals(
    parts: Iterable[tuple[K, Coroutine[Any, Any, Refusal | None]]],
) -> dict[K, Refusal]:
    """Carry out the parts of a request; returns what was refused, by the keys of the parts."""
    keys, changes = [], []
    for key, change in parts:
        keys.append(key)
        changes.append(change)
    found = await bounded_gather(changes)
    return {key: refusal for key, refusal in zip(keys, found, strict=True) if refusal is not None}


def chunks(acls: Iterable[Acl]) -> Iterator[list[Acl]]:
    """The ACLs of each principal, in lists that fit into one request. Those that differ only in
    operations are together, because they share an entry."""
    of_principal: dict[str, dict[tuple[object, ...], list[Acl]]] = {}
    for acl in acls:
        pattern = acl.resource_type, acl.name, acl.pattern_type, acl.host, acl.permission
        of_principal.setdefault(acl.principal, {}).setdefault(pattern, []).append(acl)
    for of_pattern in of_principal.values():
        chunk: list[Acl] = []
        length = count = 0
        for same in of_pattern.values():
            size = FIELDS_LENGTH + len(json.dumps(same[0].name)) + len(json.dumps(same[0].host))
            if chunk and (length + size > MAX_CHUNK_LENGTH or count == MAX_ACLS_PER_USER):
                yield chunk
                chunk, length, count = [], 0, 0
            chunk += same
            length, count = length + size, count + 1
        if chunk:
            yield chunk
