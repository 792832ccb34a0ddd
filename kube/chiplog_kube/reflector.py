"""Keeps an `ObjectCache` of one kind current: list, then watch, then again.

A watch is never trusted alone. It may end before its time, break or fall silent: each of these
leads to a new list, and so does time. A server that ends its watches in good order is one that
stops, and what comes after it may know less: from a restored etcd a watch that continues where it
was would hear nothing until the versions have caught up. Between an error and the next complete
list the cache may be old, and a listener that draws conclusions from elapsed time is notified
(`CacheListener`).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from chiplog_kube.api import ApiError, EventType, Forbidden, Gone, KubeApi, ObjectList
from chiplog_kube.cache import ObjectCache
from chiplog_kube.clock import Clock
from chiplog_kube.kinds import Kind
from chiplog_kube.manifests import version_of

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.2
LAST_BACKOFF_S = 3.0
CALM_S = 10.0
"""A failure that comes this long after the last list counts as the first one in a row."""


class CacheListener(Protocol):
    """Is notified how current a cache is."""

    def listed(self) -> None:
        """The cache has the objects of a new list, and is kept current from now on."""

    def interrupted(self) -> None:
        """The watch broke. The cache may be outdated until `listed` is called."""


class _NoListener:
    def listed(self) -> None: ...

    def interrupted(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Which objects of a kind: of one namespace or of all, by label and field selectors."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often a reflector lists and watches."""

    relist_s: float = 600.0
    """A new list is read after this long, even if all watches worked."""
    watch_s: float = 295.0
    """A watch that lasted this long ended because its time was up (`Limits.watch_s`)."""
    spread: Callable[[], float] = lambda: 0.5
    """Draws from 0 to 1, so that many clients do not come back to a struggling server at once."""


class Reflector:
    """List and watch of one kind.

    `cache.put` and `cache.remove` are also for the answers to own writes.
    """

    def __init__(
        self,
        api: KubeApi,
        scope: Scope,
        cache: ObjectCache,
        *,
        clock: Clock,
        listener: CacheListener | None = None,
        pace: Pace | None = None,
    ) -> None:
        self.scope = scope
        self.cache = cache
        self.synced = asyncio.Event()
        """Set when the first list is complete."""
        self.answered = asyncio.Event()
        """Set when the first list is complete or was refused (`Forbidden`)."""
        self.last_contact_s: float | None = None
        """When the server last said anything, by the clock's monotonic time."""
        self._api = api
        self._clock = clock
        self._listener = listener or _NoListener()
        self._pace = pace or Pace()
        self._listed_s = 0.0
        self._failures = 0
        self._is_failing = False

    async def relist(self) -> str:
        """Read a consistent list into the cache and return its resource version. Raises
        `ApiError`s."""
        listed = await self.list_now()
        if self._is_failing:
            logger.info("watch_works_again", extra={"kind": self.scope.kind.kind})
            self._is_failing = False
        self.last_contact_s = self._listed_s = self._clock.monotonic_s()
        self.synced.set()
        self.answered.set()
        self._listener.listed()
        return listed.resource_version

    async def list_now(self) -> ObjectList:
        """Read a consistent list into the cache, independently of `run`. Raises `ApiError`s."""
        scope, since = self.scope, self.cache.now()
        listed = await self._api.list_(
            scope.kind, scope.namespace, labels=scope.labels, fields=scope.fields
        )
        self.cache.replace(listed, scope.namespace, since=since)
        return listed

    async def run(self) -> None:
        """Keep the cache current until cancelled."""
        while True:
            try:
                await self._watch(await self.relist())
            except Gone:
                logger.info("watch_too_old", extra={"kind": self.scope.kind.kind})
                self._listener.interrupted()
            except ApiError as error:
                if isinstance(error, Forbidden):
                    self.answered.set()
                self._listener.interrupted()
                await self._back_off(error)

    async def _watch(self, version: str) -> None:
        """Follow the changes after a resource version until it is time for a new list.

        That is after `relist_s`, or when the server ends a watch before its time: it may be
        stopping, and another server may know less. Raises `ApiError`s.
        """
        scope = self.scope
        while self._clock.monotonic_s() - self._listed_s < self._pace.relist_s:
            began_s = self._clock.monotonic_s()
            async for event in self._api.watch(
                scope.kind,
                scope.namespace,
                resource_version=version,
                labels=scope.labels,
                fields=scope.fields,
            ):
                self.last_contact_s = self._clock.monotonic_s()
                version = version_of(event.object) or version
                if event.type is not EventType.BOOKMARK:
                    self.cache.apply(event)
            if self._clock.monotonic_s() - began_s < 1.0:
                # Without a pause, a server that ends every watch immediately would be asked again
                # and again.
                await self._clock.sleep(1.0)
            if self._clock.monotonic_s() - began_s < self._pace.watch_s:
                return

    async def _back_off(self, error: ApiError) -> None:
        """Wait after a failure, a little longer each time. Only the first failure in a row is
        logged as a warning."""
        if self._clock.monotonic_s() - self._listed_s > CALM_S:
            self._failures = 0
        delay_s = min(FIRST_BACKOFF_S * 2.0**self._failures, LAST_BACKOFF_S) * (
            0.5 + self._pace.spread()
        )
        self._failures = min(self._failures + 1, 10)
        # One line when it begins to fail, and one when it works again.
        level = logging.DEBUG if self._is_failing else logging.WARNING
        self._is_failing = True
        logger.log(
            level,
            "watch_failed",
            extra={
                "kind": self.scope.kind.kind,
                "namespace": self.scope.namespace,
                "error": f"{type(error).__name__}: {error}",
                "retry_in_s": round(delay_s, 3),
            },
        )
        await self._clock.sleep(delay_s)
