"""Answers whether this broker's disk knows more than the present PartitionMaps (R6).

Each time the operator reads all PartitionMaps, it writes the name of this check. A broker that sees
a new name lists the maps itself after that, and compares each with the one it has applied: a watch
may still deliver the state from before a restore of etcd. The answer is written to the status
together with the reports of all maps that have gone back; before that the operator decides nothing
about this broker's partitions.
"""

import asyncio
import logging
from collections.abc import Callable

from chiplog_broker.metadata.kubernetes.maps import Maps
from chiplog_broker.metadata.kubernetes.outages import Outages
from chiplog_broker.ports.clock import Clock
from chiplog_kube.api import ApiError
from chiplog_kube.reflector import Reflector

logger = logging.getLogger(__name__)

FIRST_BACKOFF_S = 0.05
LAST_BACKOFF_S = 2.0
LIST_TIMEOUT_S = 10.0


class MapsCheck:
    """Compares the applied maps with all maps, each time the operator asks."""

    def __init__(
        self,
        maps: Maps,
        reflector: Reflector,
        clock: Clock,
        outages: Outages,
        answered: Callable[[], None],
    ) -> None:
        """`reflector` is that of the maps; `answered` is called when `answer` has changed."""
        self._maps = maps
        self._reflector = reflector
        self._clock = clock
        self._outages = outages
        self._notify = answered
        self._requested = ""
        self._new_request = asyncio.Event()
        self.answer = ""
        """The name of the last check that was completed."""

    def requested(self, name: str | None) -> None:
        """The operator has started the check with this name: compare the applied maps with those in
        the API, which may have gone back by a restored backup. None if no check was started yet."""
        if name and name != self._requested:
            self._requested = name
            self._new_request.set()

    async def run(self) -> None:
        """Answer checks until cancelled."""
        while True:
            await self._new_request.wait()
            self._new_request.clear()
            name, began_s = self._requested, self._clock.monotonic_s()
            await self._compare()
            # A check that began in the meantime needs another list.
            if name == self._requested:
                self.answer = name
                took_ms = round((self._clock.monotonic_s() - began_s) * 1000)
                facts = {"check": name, "behind": len(self._maps.regressed), "took_ms": took_ms}
                logger.info("maps_compared", extra=facts)
                self._notify()

    async def _compare(self) -> None:
        """List all maps in the API, again and again until each applied map was compared with such a
        list. A watch is not sufficient: it may still deliver the state from before a restore."""
        backoff_s = FIRST_BACKOFF_S
        while True:
            began_s = self._clock.monotonic_s()
            try:
                async with asyncio.timeout(LIST_TIMEOUT_S):
                    listed = await self._reflector.list_now()
                self._outages.worked()
                self._maps.all_listed(listed.items)
                await self._maps.idle()
                if self._maps.has_compared_all(listed.items):
                    return
            except (ApiError, TimeoutError) as error:
                self._outages.failed(error)
                pause_s, backoff_s = backoff_s, min(backoff_s * 2, LAST_BACKOFF_S)
            else:
                # Maps changed since the list. Elections wait for the answer, so the pause does not
                # grow; but at most half of the time is spent on lists.
                pause_s = max(self._clock.monotonic_s() - began_s, FIRST_BACKOFF_S)
                backoff_s = FIRST_BACKOFF_S
            await self._clock.sleep(min(pause_s, LAST_BACKOFF_S))
