"""Writes this broker's status, until the object has the desired status.

The parts of the broker only notify it of changes. It then computes the whole status, and writes a
merge patch of the fields that differ. Changes during a write are covered by the next one.

Every patch names the version of the object that it was computed from (uid and resourceVersion).
Otherwise a late patch of an old process could overwrite the status of a new one, or a patch could
be applied to an object that was restored from a backup, and the result would lack fields that the
restored object does not have.
"""

import asyncio
import logging
from collections.abc import Callable

from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.metadata.kubernetes.process import FIELD_MANAGER, Process
from chiplog_broker.ports.clock import Clock
from chiplog_core.manifest.writing import write
from chiplog_core.model.broker import Broker
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_kube.api import ApiError, Conflict, Invalid, KubeApi
from chiplog_kube.cache import ObjectCache
from chiplog_kube.kinds import BROKERS

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 2.0
WRITE_TIMEOUT_S = 10.0


class StatusWriter:
    """Keeps `Broker.status` equal to what `desired` returns."""

    def __init__(
        self,
        api: KubeApi,
        process: Process,
        clock: Clock,
        outages: Outages,
        desired: Callable[[], BrokerStatus | None],
        cache: ObjectCache,
    ) -> None:
        """`desired` returns None if this process must not write any more. `cache` gets the objects
        of watches and the answers to writes. It decides which of two is the newer, and then calls
        `observed`."""
        self._api = api
        self._process = process
        self._clock = clock
        self._outages = outages
        self._desired = desired
        self._cache = cache
        self._known: dict[str, object] = {}
        """The status in the object, as it was read or written last."""
        self._identity: dict[str, str] = {}
        """uid and resourceVersion of the object at that time."""
        self._due = asyncio.Event()
        self._written = asyncio.Event()
        self._refusal = ""

    def changed(self) -> None:
        """A part of the status may have changed: `run` writes the difference soon."""
        self._written.clear()
        self._due.set()

    def observed(self, broker: Broker) -> None:
        """This broker's object, as read at or after the last write. After a restored backup it may
        be an older one; then its status is written again."""
        self._known = write(broker.status)
        meta = broker.metadata
        self._identity = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        self.changed()

    async def written(self, timeout_s: float) -> bool:
        """Wait until all changes so far are written; returns False after a timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._written.wait()
        except TimeoutError:
            return False
        return True

    async def run(self) -> None:
        """Write until cancelled."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                async with asyncio.timeout(WRITE_TIMEOUT_S):
                    await self._write_or_read()
            except (ApiError, TimeoutError) as error:
                self._failed(error)
                self._due.set()
                await self._clock.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)
            else:
                backoff_s = FIRST_BACKOFF_S
                if not self._due.is_set():
                    self._written.set()

    def _failed(self, error: Exception) -> None:
        """Report a failed write: as an outage of the API server, or as a status that it refused."""
        if not isinstance(error, Invalid):
            self._outages.failed(error)
        elif str(error) != self._refusal:
            # The CRD has another version, or the status is wrong. Each message is logged once,
            # because the write is retried until it succeeds.
            self._refusal = str(error)
            logger.error("status_refused", extra={"reason": str(error)})

    async def _write_or_read(self) -> None:
        """Write the status; after a conflict read the object and write once more. Raises `Conflict`
        if another process wrote in between again."""
        try:
            await self._write()
        except Conflict:
            # The operator wrote first, or the object was replaced. `since` is taken before the
            # read, so that the cache knows that the result is at least as new as that moment.
            since, process = self._cache.now(), self._process
            found = await self._api.get(BROKERS, process.namespace, process.broker_name)
            self._cache.put(found, since=since)
            await self._write()

    async def _write(self) -> None:
        """Patch the fields of the status that differ from the known ones, if there are any."""
        desired = self._desired()
        if desired is None:
            return
        wanted, known = write(desired), self._known
        patch: dict[str, object] = {
            name: wanted.get(name)
            for name in wanted.keys() | known.keys()
            if wanted.get(name) != known.get(name)
        }
        if not patch:
            return
        since = self._cache.now()
        answer = await self._api.patch(
            BROKERS,
            self._process.namespace,
            self._process.broker_name,
            {"metadata": self._identity, "status": patch},
            field_manager=FIELD_MANAGER,
            subresource="status",
        )
        self._outages.worked()
        self._refusal = ""
        self._cache.put(answer, since=since)
