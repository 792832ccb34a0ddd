"""Keeps the caches current: a reflector for each kind that the operator watches on its own, and
consistent lists of what users write, which Kopf watches.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence

from chiplog_core.model.broker_cluster import ALL_NAMESPACES
from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Forbidden, KubeApi
from chiplog_kube.kinds import Kind
from chiplog_kube.reflector import CacheListener, Pace, Reflector, Scope
from chiplog_operator.caches import (
    DECIDED_KINDS,
    LABELLED_KINDS,
    USER_KINDS,
    Caches,
    scopes,
)
from chiplog_operator.clock import Clock
from chiplog_operator.liveness import Liveness
from chiplog_operator.maps_checks import MapsChecks

logger = logging.getLogger(__name__)

LIST_USERS_S = 60.0
"""This often users' objects are listed although Kopf watches them: its stream may lose a
deletion."""


class Watching:
    """All lists and watches of one operator process."""

    def __init__(  # noqa: PLR0913 - what it connects
        self,
        api: KubeApi,
        caches: Caches,
        liveness: Liveness,
        checks: MapsChecks,
        *,
        clock: Clock,
        namespaces: Sequence[str],
        spread: Callable[[], float],
        watched_users: Sequence[Kind] = (),
        listed_users: Sequence[Kind] = USER_KINDS,
        unwatched: Sequence[Kind] = (),
    ) -> None:
        """`watched_users`: users' kinds that are watched here (in the simulator, which has no
        Kopf). `listed_users`: users' kinds that any part of the operator reads. `unwatched`:
        labelled kinds that this operator does not need."""
        self._listed_users = listed_users
        self._clock = clock
        self._caches = caches
        self._api = api
        self._namespaces = scopes(namespaces)
        self._users_listed: set[str] = set()
        """Namespaces where users' objects were listed since the start."""
        self._refusing: set[str] = set()
        self._reflectors: list[Reflector] = []
        pace = Pace(spread=spread)
        labelled = [kind for kind in LABELLED_KINDS if kind not in unwatched]
        for scope in self._scopes(watched_users, labelled):
            listener: CacheListener | None = None
            if scope.kind is kinds.LEASES:
                listener = liveness.listener_for(scope.namespace)
            elif scope.kind is kinds.PARTITION_MAPS:
                listener = checks.listener_for(scope.namespace)
            cache = caches[scope.kind]
            self._reflectors.append(
                Reflector(api, scope, cache, clock=clock, listener=listener, pace=pace)
            )

    def _scopes(self, watched_users: Sequence[Kind], labelled: Sequence[Kind]) -> list[Scope]:
        """What to list and watch here: nodes, the given users' kinds, the planner's kinds, and of
        the `labelled` kinds only objects with the label of a cluster."""
        found = [Scope(kind=kinds.NODES)]
        for namespace in self._namespaces:
            found += [
                Scope(kind=kind, namespace=namespace) for kind in (*DECIDED_KINDS, *watched_users)
            ]
            found += [
                Scope(kind=kind, namespace=namespace, labels=labels.CLUSTER) for kind in labelled
            ]
        return found

    def is_complete(self, namespaces: Collection[str]) -> bool:
        """Whether every kind was listed since the start, in these namespaces or in all (`*`).

        Namespaces that the operator does not watch do not count.
        """
        missing = self._incomplete_namespaces() | (set(self._namespaces) - self._users_listed)
        if ALL_NAMESPACES in namespaces:
            return not missing
        return missing.isdisjoint({"", *namespaces})

    def _incomplete_namespaces(self) -> set[str]:
        """The namespaces in which a watched kind was not listed yet; empty if everything was."""
        return {
            reflector.scope.namespace
            for reflector in self._reflectors
            if not reflector.synced.is_set()
        }

    async def list_users(self) -> None:
        """Read consistent lists of all users' objects into the caches. Raises `ApiError`s.

        A named namespace whose list is refused is left out, and the refusal is logged: the
        namespace may be gone, and the others must continue.
        """
        for namespace in self._namespaces:
            if namespace and namespace in self._incomplete_namespaces():
                # The objects that were created for users' objects must be known first.
                continue
            try:
                for kind in self._listed_users:
                    await self._list(kind, namespace)
            except Forbidden as refusal:
                if not namespace:
                    raise
                # Log one line when it begins.
                level = logging.DEBUG if namespace in self._refusing else logging.WARNING
                self._refusing.add(namespace)
                facts = {"namespace": namespace, "error": str(refusal)}
                logger.log(level, "users_not_listed", extra=facts)
            else:
                self._refusing.discard(namespace)
                self._users_listed.add(namespace)

    async def list_topics(self) -> None:
        """Read a consistent list of all Topics into the cache. Raises `ApiError`s."""
        for namespace in self._namespaces:
            await self._list(kinds.TOPICS, namespace)

    async def _list(self, kind: Kind, namespace: str) -> None:
        """Read a consistent list of one kind into its cache. Raises `ApiError`s."""
        cache = self._caches[kind]
        since = cache.now()
        cache.replace(await self._api.list_(kind, namespace), namespace, since=since)

    async def wait_until_complete(self) -> None:
        """Wait until every kind was listed, or refused in a named namespace.

        Users' objects are listed last, so that the objects which were created for them before are
        known by then.
        """
        for reflector in self._reflectors:
            await (reflector.answered if reflector.scope.namespace else reflector.synced).wait()
        while True:
            try:
                await self.list_users()
            except ApiError as error:
                logger.warning("users_not_listed", extra={"error": str(error)})
                await self._clock.sleep(1.0)
            else:
                return

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                name = f"watch {reflector.scope.kind.plural} {reflector.scope.namespace}"
                group.create_task(reflector.run(), name=name)
            group.create_task(self._list_users_often(), name="list users' objects")

    async def _list_users_often(self) -> None:
        """List users' objects from time to time, in case the watch missed something."""
        while True:
            await self._clock.sleep(LIST_USERS_S)
            try:
                await self.list_users()
            except ApiError as error:
                logger.warning("users_not_listed", extra={"error": str(error)})
