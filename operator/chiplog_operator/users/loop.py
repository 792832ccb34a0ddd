"""A reconciliation loop for the users of each cluster.

Level-triggered: each pass looks at all Users in the caches, makes their Secrets what they should
be, and then writes what brokers read, once for all that changed. Of a deleted User nothing is left
in it; its own Secret is deleted by Kubernetes.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from chiplog_core.certificates.reports import Reporters
from chiplog_core.model.actions import Report
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.user import User, UserAuthenticationType, UserStatus
from chiplog_core.naming import api
from chiplog_core.observed.settings import paused
from chiplog_core.observed.world import Unreadable
from chiplog_core.problems import Problem, Reason
from chiplog_core.users.access import Admission, access_spec, admit
from chiplog_core.users.compiled import Compiled, compile_user
from chiplog_core.users.statuses import (
    Outcome,
    unreadable_status,
    user_status,
    without_cluster,
)
from chiplog_core.validate.user import needs_access_list
from chiplog_kube.api import ApiError, KubeApi
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.certificates.issued_to_users import UNKNOWN, IssuedToUsers
from chiplog_operator.certificates.reading import SecretsReader
from chiplog_operator.clock import Clock
from chiplog_operator.execute import Executor
from chiplog_operator.keyed_loops import KeyedLoops
from chiplog_operator.observe import Observer
from chiplog_operator.taken import Taken
from chiplog_operator.users.brokers_objects import BrokersObjects, digest_of
from chiplog_operator.users.clients_authority import ClientsAuthority
from chiplog_operator.users.credentials import Credentials
from chiplog_operator.waking import Wake
from chiplog_operator.writes import AGAIN, Authority, NotActive

logger = logging.getLogger(__name__)

COALESCE_S = 0.1
"""Changes within this time are written together."""
RESYNC_S = 30.0
AFTER_WAIT_S = 2.0
AFTER_FAULT_S = 10.0
WHILE_CA_CHANGES_S = 10.0
"""Users get certificates of a new CA when all brokers trust it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersParts:
    """What the loops of one operator process work with."""

    api: KubeApi
    caches: Caches
    observer: Observer
    executor: Executor
    authority: Authority
    clock: Clock
    issued: IssuedToUsers


class UsersLoop:
    """Reconciles the users of one cluster."""

    def __init__(self, key: ClusterKey, parts: UsersParts) -> None:
        self._key = key
        self._parts = parts
        self._authority = ClientsAuthority(SecretsReader(parts.api), parts.clock)
        self._credentials = Credentials(parts.api, parts.authority, parts.clock)
        self._objects = BrokersObjects(parts.api, parts.authority, parts.clock)
        self._compiled: dict[str, Compiled] = {}
        self._cluster: BrokerCluster | None = None
        self._woken = Wake(parts.clock)

    def wake(self) -> None:
        """A spec changed: reconcile soon."""
        self._woken.set()

    async def run(self) -> None:
        """Reconcile until cancelled, or until no object names the cluster any more."""
        while self._key in self._parts.caches.clusters():
            self._woken.clear()
            wait_s = await self._pass()
            await self._woken.within(wait_s)
            await self._parts.clock.sleep(COALESCE_S)
        self._parts.issued.forget(self._key)

    async def _pass(self) -> float:
        """Reconcile once. Returns the seconds to the next pass if nothing changes."""
        try:
            return await self._reconcile()
        except NotActive:
            raise
        except (ApiError, Taken) as error:
            facts = {"cluster": str(self._key), "error": str(error)}
            logger.warning("users_again", extra=facts)
            return AFTER_WAIT_S
        except Exception:
            # An exception in the handling of users must not stop the handling of partitions.
            logger.exception("users_failed", extra={"cluster": str(self._key)})
            return AFTER_FAULT_S

    async def _reconcile(self) -> float:
        parts = self._parts
        if not parts.observer.is_known(self._key.namespace):
            return AFTER_WAIT_S
        metadata = parts.observer.metadata(self._key)
        cluster = self._last_readable(metadata)
        users, unreadable = parts.observer.users(self._key)
        if not metadata.uid:
            await self._report(self._without_cluster(users, unreadable))
            return RESYNC_S
        if cluster is None or paused(metadata) or metadata.deletion_timestamp is not None:
            return RESYNC_S
        admission = admit(cluster, self._compile(users))
        if not admission.admitted and not needs_access_list(cluster):
            parts.issued.show(self._key, (UNKNOWN,) * len(unreadable))
            if not await self._objects.has_access_list(cluster):
                await self._report(self._reports(cluster, users, unreadable, admission, ()))
                return RESYNC_S
        problems = await self._write(cluster, admission, unreadable)
        await self._report(self._reports(cluster, users, unreadable, admission, problems))
        return self._next_pass_s(has_problems=bool(problems))

    def _next_pass_s(self, *, has_problems: bool) -> float:
        """The seconds to the next pass if nothing changes."""
        if self._credentials.are_pending:
            return 0.0
        if self._credentials.are_waiting or has_problems:
            return AFTER_WAIT_S
        return WHILE_CA_CHANGES_S if self._authority.waits_for_brokers else RESYNC_S

    def _last_readable(self, metadata: Metadata) -> BrokerCluster | None:
        """The BrokerCluster. While it cannot be parsed, that is what it was before, because deleted
        users must lose their permissions; None if this process has never parsed it."""
        now = self._parts.observer.cluster(self._key)
        if now is not None:
            self._cluster = now
        elif self._cluster is not None and self._cluster.metadata.uid != metadata.uid:
            self._cluster = None
        return self._cluster

    def _compile(self, users: Sequence[User]) -> list[Compiled]:
        """The Users with their entries, each compiled once."""
        known, self._compiled = self._compiled, {}
        for user in users:
            before = known.get(user.metadata.uid)
            if before is None or before.user.spec != user.spec:
                compiled = compile_user(user)
            else:
                compiled = replace(before, user=user)
            self._compiled[user.metadata.uid] = compiled
        return list(self._compiled.values())

    async def _write(
        self, cluster: BrokerCluster, admission: Admission, unreadable_users: Sequence[Unreadable]
    ) -> tuple[Problem, ...]:
        """Make the Secrets of the admitted Users, and then what brokers read. Returns why brokers
        have not got it. Raises `NotActive` and `ApiError`s."""
        users = [one.user for one in admission.admitted]
        try:
            stored = await self._objects.stored_verifiers(cluster)
        except (Taken, ApiError) as error:
            if isinstance(error, AGAIN):
                raise
            await self._write_list_only(cluster, admission)
            return (_not_written(str(error)),)
        brokers, unreadable = self._parts.observer.brokers(self._key)
        reporters = Reporters.of(brokers, unreadable=unreadable)
        ca = await self._authority.read(cluster, reporters)
        await self._credentials.update(cluster, users, ca, stored)
        issued = self._credentials.issued(users)
        if issued is not None:
            # Nobody knows whether those that cannot be parsed have certificates.
            self._parts.issued.show(self._key, (*issued, *(UNKNOWN,) * len(unreadable_users)))
        verifiers = self._verifiers(users, stored)
        failure: Taken | ApiError | None = None
        try:
            if verifiers or stored:
                await self._objects.write_verifiers(cluster, verifiers)
        except (Taken, ApiError) as error:
            # Permissions must not wait for passwords.
            failure, verifiers = error, stored
        spec = access_spec(cluster, admission.admitted, digest_of(verifiers))
        try:
            await self._objects.write_access_list(cluster, spec)
        except (Taken, ApiError) as error:
            failure = failure or error
        if failure is None:
            return ()
        if isinstance(failure, AGAIN):
            raise failure
        return (_not_written(str(failure)),)

    async def _write_list_only(self, cluster: BrokerCluster, admission: Admission) -> None:
        """Write the AccessList although nobody knows which verifiers brokers have: permissions, and
        above all the loss of them, must not wait for passwords. Raises `NotActive` and errors that
        another attempt may resolve."""
        try:
            digest = await self._objects.listed_digest(cluster)
            spec = access_spec(cluster, admission.admitted, digest)
            await self._objects.write_access_list(cluster, spec)
        except (Taken, ApiError) as error:
            if isinstance(error, AGAIN):
                raise
            logger.warning("users_again", extra={"cluster": str(self._key), "error": str(error)})

    def _verifiers(self, users: Sequence[User], stored: dict[str, str]) -> dict[str, str]:
        """The verifiers that brokers should have. A user keeps the one that they have until its
        credentials are known, unless that is of an earlier User with its name."""
        found = {}
        for user in users:
            if user.spec.authentication_type is not UserAuthenticationType.SCRAM_SHA_512:
                continue
            name, held = user.metadata.name, self._credentials.of(user)
            if held.verifier is not None:
                found[name] = held.verifier.text()
            elif name in stored and held.keeps_stored:
                found[name] = stored[name]
        return found

    def _reports(
        self,
        cluster: BrokerCluster,
        users: Sequence[User],
        unreadable: Sequence[Unreadable],
        admission: Admission,
        problems: tuple[Problem, ...],
    ) -> Iterator[Report]:
        """The statuses that changed."""
        now = self._parts.clock.now()
        for user in users:
            if user.metadata.deletion_timestamp is not None:
                continue
            refused = admission.problems.get(user.metadata.uid)
            if refused is not None:
                outcome = Outcome(problems=refused, secret=user.status.secret)
            elif not self._credentials.is_known(user) and not problems:
                continue
            else:
                outcome = self._credentials.of(user).outcome
                if problems and not outcome.problems:
                    outcome = replace(outcome, problems=problems)
            yield from _changed(
                user.metadata, user.status, user_status(user, cluster, outcome, now)
            )
        yield from self._unreadable(unreadable)

    def _without_cluster(
        self, users: Sequence[User], unreadable: Sequence[Unreadable]
    ) -> Iterator[Report]:
        now = self._parts.clock.now()
        for user in users:
            status = without_cluster(user, self._key.name, self._key.namespace, now)
            yield from _changed(user.metadata, user.status, status)
        yield from self._unreadable(unreadable)

    def _unreadable(self, unreadable: Sequence[Unreadable]) -> Iterator[Report]:
        now = self._parts.clock.now()
        for one in unreadable:
            status = unreadable_status(one, now)
            yield Report(kind=api.USER, metadata=one.metadata, status=status)

    async def _report(self, reports: Iterator[Report]) -> None:
        found = list(reports)
        if found:
            await self._parts.executor.execute(self._key, found)


def _changed(metadata: Metadata, before: UserStatus, after: UserStatus) -> Iterator[Report]:
    if after != before:
        yield Report(kind=api.USER, metadata=metadata, status=after)


def _not_written(error: str) -> Problem:
    return Problem(
        "spec", f"is not known to the brokers: {error}", "correct that", Reason.INTERNAL_ERROR
    )


class UsersLoops:
    """A loop for every cluster that somebody names."""

    def __init__(self, parts: UsersParts, loops: KeyedLoops[ClusterKey, UsersLoop]) -> None:
        self._parts = parts
        self._loops = loops

    async def run(self) -> None:
        """Run the loops until cancelled."""
        async with self._loops.running(lambda key: UsersLoop(key, self._parts)):
            # Changes before now woke nobody, because no loop could run.
            for key in sorted(self._parts.caches.clusters()):
                if (loop := self._loops.of(key)) is not None:
                    loop.wake()
            await asyncio.Event().wait()
