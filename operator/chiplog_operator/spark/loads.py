"""Asks brokers for the load of the partitions that they lead."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from chiplog_core.ids import BrokerId
from chiplog_core.model.group_exchange import answer_from_body, to_body
from chiplog_core.model.load_exchange import LOADS_PATH, LoadsAnswer, LoadsRequest
from chiplog_core.observed.processes import Identity
from chiplog_core.problems import InvalidManifest
from chiplog_core.rebalance.brokers_load import Reading, reading_of
from chiplog_operator.caches import ClusterKey
from chiplog_operator.concurrency import run_concurrently
from chiplog_operator.groups.password import Passwords
from chiplog_operator.groups.port import GroupsPort, NoAnswer, WrongSecret

MAX_PAGES: Final = 1_000
MAX_CONCURRENT: Final = 8
"""How many brokers are asked at the same time: their answers are parsed on the event loop."""


@dataclass(slots=True)
class LoadsFound:
    """What the brokers of a cluster answered."""

    readings: dict[BrokerId, Reading] = field(default_factory=dict)
    unanswered: dict[BrokerId, str] = field(default_factory=dict)
    """Why a broker did not answer."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Asks the brokers for one operator process."""

    port: GroupsPort
    passwords: Passwords

    async def ask(self, key: ClusterKey, processes: Sequence[Identity]) -> LoadsFound:
        """The load that each of the cluster's processes reports."""
        found = LoadsFound()

        async def of_broker(process: Identity) -> None:
            try:
                pages = await self._pages(key, process)
            except NoAnswer as error:
                found.unanswered[process.broker_id] = str(error)
            else:
                found.readings[process.broker_id] = reading_of(process, pages)

        await run_concurrently(of_broker, processes, max_concurrent=MAX_CONCURRENT)
        return found

    async def _pages(self, key: ClusterKey, process: Identity) -> list[LoadsAnswer]:
        """All pages of a process's answer. Raises `NoAnswer`."""
        pages: list[LoadsAnswer] = []
        request = LoadsRequest()
        while len(pages) < MAX_PAGES:
            pages.append(await self._page(key, process, request))
            if pages[-1].next_after is None:
                return pages
            request = LoadsRequest(after=pages[-1].next_after)
        raise NoAnswer(f"it returns more than {MAX_PAGES} pages of partitions")

    async def _page(self, key: ClusterKey, process: Identity, request: LoadsRequest) -> LoadsAnswer:
        """One page. Raises `NoAnswer`."""
        access = await self.passwords.access(key, process)
        try:
            body = await self.port.ask(process, access, LOADS_PATH, to_body(request))
            return answer_from_body(LoadsAnswer, body)
        except WrongSecret:
            self.passwords.forget(key)
            raise
        except InvalidManifest as error:
            raise NoAnswer(f"its answer cannot be parsed: {error}") from error
