"""Answers the operator's question what this broker's disk knows beyond the maps there are (R6).

The operator names every look it takes at all PartitionMaps. A broker that sees a new name lists
them, after that and by itself, and compares each with what it has applied: a watch may still
tell of what was before etcd was restored. Its answer stands in the status beside the reports of
all that it knows better; until it is there, nothing is decided about its partitions.
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
    """Compares what is applied with all maps, each time the operator asks."""

    def __init__(
        self,
        maps: Maps,
        reflector: Reflector,
        clock: Clock,
        outages: Outages,
        answered: Callable[[], None],
    ) -> None:
        """`reflector` is the one of the maps; `answered` is called when `answer` is another."""
        self._maps = maps
        self._reflector = reflector
        self._clock = clock
        self._outages = outages
        self._notify = answered
        self._requested = ""
        self._news = asyncio.Event()
        self.answer = ""
        """The last name for which all was compared."""

    def requested(self, name: str | None) -> None:
        """The operator wants to know, by this name."""
        if name and name != self._requested:
            self._requested = name
            self._news.set()

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            name = self._requested
            await self._compare()
            if name == self._requested:
                self.answer = name
                logger.info("maps_compared", extra={"check": name, "behind": self._behind()})
                self._notify()

    async def _compare(self) -> None:
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                async with asyncio.timeout(LIST_TIMEOUT_S):
                    listed = await self._reflector.look()
                self._outages.worked()
                self._maps.listed(listed.items)
                await self._maps.idle()
                if self._maps.has_compared_all(listed.items):
                    return
            except (ApiError, TimeoutError) as error:
                self._outages.failed(error)
            await self._clock.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LAST_BACKOFF_S)

    def _behind(self) -> int:
        return len(self._maps.regressed)
