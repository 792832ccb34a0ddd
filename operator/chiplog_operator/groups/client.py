"""What a cluster's brokers are asked in one pass: all of them at once, each one thing by
another."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from chiplog_core.ids import BrokerId
from chiplog_core.model.group_exchange import (
    FACTS_PATH,
    POSITIONS_PATH,
    RESET_PATH,
    RETENTION_PATH,
    GroupsAnswer,
    GroupsRequest,
    Positions,
    PositionsRequest,
    ResetAnswer,
    ResetRequest,
    RetentionAnswer,
    RetentionRequest,
    answer_from_body,
    to_body,
)
from chiplog_core.observed.processes import Identity
from chiplog_core.problems import InvalidManifest
from chiplog_operator.caches import ClusterKey
from chiplog_operator.clock import Clock
from chiplog_operator.groups.password import Passwords
from chiplog_operator.groups.port import GroupsPort, NoAnswer, WrongSecret

logger = logging.getLogger(__name__)
A = TypeVar("A")
Q = TypeVar("Q")
T = TypeVar("T")

MAX_PAGES: Final = 1_000
FIRST_BACKOFF_S: Final = 0.2
LAST_BACKOFF_S: Final = 5.0
KEPT_ANSWERS: Final = 1_000
_TIME: Final = b',"timeMs":'


class GroupsClient:
    """Sends requests to brokers; one that did not answer is asked again after a backoff."""

    def __init__(
        self, key: ClusterKey, port: GroupsPort, passwords: Passwords, clock: Clock
    ) -> None:
        self._key = key
        self._port = port
        self._passwords = passwords
        self._clock = clock
        self._failures: dict[Identity, tuple[int, float]] = {}
        """Failures in a row, and the monotonic second at which the backoff ends."""
        self._kept: dict[tuple[Identity, str, bytes], tuple[bytes, object]] = {}
        """By process, path and request: the last answer without its time, raw and parsed."""

    def not_in_backoff(self, processes: Sequence[Identity]) -> dict[BrokerId, Identity]:
        """The given processes that are not in a backoff, by broker id. Answers and failures of all
        other processes are forgotten."""
        now_s = self._clock.monotonic_s()
        self._failures = {
            process: self._failures[process] for process in processes if process in self._failures
        }
        present = set(processes)
        self._kept = {key: kept for key, kept in self._kept.items() if key[0] in present}
        return {
            process.broker_id: process
            for process in processes
            if self._failures.get(process, (0, 0.0))[1] <= now_s
        }

    async def facts(
        self,
        brokers: Mapping[BrokerId, Identity],
        requests: Mapping[BrokerId, Sequence[GroupsRequest]],
    ) -> dict[BrokerId, list[GroupsAnswer]]:
        """Ask brokers about groups. Returns the answers of each broker that answered all of its
        requests. An answer may have several pages, which are listed one after another."""

        async def all_pages(process: Identity, request: GroupsRequest) -> list[GroupsAnswer]:
            pages: list[GroupsAnswer] = []
            while len(pages) < MAX_PAGES:
                pages.append(await self._ask(process, FACTS_PATH, request, GroupsAnswer))
                after = pages[-1].next_after
                if after is None:
                    return pages
                request = replace(request, after=after)
            raise NoAnswer(f"the broker returns more than {MAX_PAGES} pages of groups")

        found = await self._each(brokers, requests, all_pages)
        return {
            broker_id: [page for pages in answers for page in pages]
            for broker_id, answers in found.items()
        }

    async def positions(
        self,
        brokers: Mapping[BrokerId, Identity],
        requests: Mapping[BrokerId, Sequence[PositionsRequest]],
    ) -> list[Positions]:
        """Ask brokers about offsets in partitions that they lead. Returns the answers of those that
        answered all of their requests."""

        async def one(process: Identity, request: PositionsRequest) -> Positions:
            return await self._ask(process, POSITIONS_PATH, request, Positions)

        found = await self._each(brokers, requests, one)
        return [answer for answers in found.values() for answer in answers]

    async def retention(
        self, brokers: Mapping[BrokerId, Identity], requests: Mapping[BrokerId, RetentionRequest]
    ) -> list[tuple[RetentionRequest, RetentionAnswer]]:
        """Set the retention of groups' offsets. Returns each request that was answered, with its
        answer."""

        async def one(
            process: Identity, request: RetentionRequest
        ) -> tuple[RetentionRequest, RetentionAnswer]:
            return request, await self._ask(process, RETENTION_PATH, request, RetentionAnswer)

        by_broker = {broker_id: [request] for broker_id, request in requests.items()}
        found = await self._each(brokers, by_broker, one)
        return [answer for answers in found.values() for answer in answers]

    async def reset(
        self, brokers: Mapping[BrokerId, Identity], coordinator: BrokerId, request: ResetRequest
    ) -> ResetAnswer | None:
        """Request a reset from a group's coordinator. Returns its answer; None if it did not
        answer, which does not mean that it did nothing."""

        async def one(process: Identity, request: ResetRequest) -> ResetAnswer:
            return await self._ask(process, RESET_PATH, request, ResetAnswer)

        found = await self._each(brokers, {coordinator: [request]}, one)
        return found[coordinator][0] if coordinator in found else None

    async def _each(
        self,
        brokers: Mapping[BrokerId, Identity],
        requests: Mapping[BrokerId, Sequence[Q]],
        ask: Callable[[Identity, Q], Awaitable[A]],
    ) -> dict[BrokerId, list[A]]:
        """Call `ask` for each request, all brokers at the same time and each broker's requests one
        by one. Returns the answers of brokers that answered everything; others get a backoff."""
        found: dict[BrokerId, list[A]] = {}

        async def of_broker(broker_id: BrokerId) -> None:
            process = brokers[broker_id]
            try:
                found[broker_id] = [await ask(process, request) for request in requests[broker_id]]
            except NoAnswer as error:
                self._failed(process, error)
            else:
                self._failures.pop(process, None)

        await asyncio.gather(
            *(of_broker(broker_id) for broker_id in sorted(requests) if broker_id in brokers)
        )
        return found

    async def _ask(self, process: Identity, path: str, request: object, answer: type[T]) -> T:
        """Send one request to a broker, and parse the answer as `answer`. Raises `NoAnswer`."""
        access = await self._passwords.access(self._key, process)
        body = to_body(request)
        try:
            answer_body = await self._port.ask(process, access, path, body)
        except WrongSecret:
            self._passwords.forget(self._key)
            raise
        return self._read(process, path, body, answer_body, answer)

    def _read(
        self, process: Identity, path: str, body: bytes, received: bytes, answer: type[T]
    ) -> T:
        """The parsed answer. An answer that differs from the last one only in its time is not
        parsed again."""
        without_time, _, _ = received.rpartition(_TIME)
        known = self._kept.get((process, path, body))
        if without_time and known is not None and known[0] == without_time:
            _, parsed = known
            if isinstance(parsed, answer):
                return parsed
        try:
            found = answer_from_body(answer, received)
        except InvalidManifest as error:
            raise NoAnswer(f"the answer cannot be parsed: {error}") from error
        if len(self._kept) >= KEPT_ANSWERS:
            self._kept.clear()
        self._kept[process, path, body] = (without_time, found)
        return found

    def _failed(self, process: Identity, error: NoAnswer) -> None:
        """Start the backoff of a broker after a failure. It doubles with each failure in a row, up
        to `LAST_BACKOFF_S`."""
        times = self._failures.get(process, (0, 0.0))[0]
        wait_s = min(FIRST_BACKOFF_S * 2.0**times, LAST_BACKOFF_S)
        self._failures[process] = (min(times + 1, 10), self._clock.monotonic_s() + wait_s)
        facts = {"cluster": str(self._key), "broker": process.broker_id, "reason": str(error)}
        level = logging.DEBUG if times else logging.INFO
        logger.log(level, "broker_not_asked", extra=facts)


@dataclass(frozen=True, slots=True)
class ReachableBrokers:
    """The brokers that are not in a backoff, for resets."""

    client: GroupsClient
    brokers: Mapping[BrokerId, Identity]

    async def positions(
        self, requests: Mapping[BrokerId, Sequence[PositionsRequest]]
    ) -> Sequence[Positions]:
        """The offsets that the reachable brokers answered. Others are left out."""
        return await self.client.positions(self.brokers, requests)

    async def reset(self, broker_id: BrokerId, asked: ResetRequest) -> ResetAnswer | None:
        return await self.client.reset(self.brokers, broker_id, asked)
