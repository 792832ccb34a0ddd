"""An operator's side of the signed questions, and a health port that answers them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp

from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.credentials import Credentials, FixedCredentials
from chiplog_broker.server.health import Health
from chiplog_broker.server.http import serve_health
from chiplog_broker.server.inquiries import InquiryServer
from chiplog_core.ids import Incarnation
from chiplog_core.model.group_exchange import answer_from_body, to_body
from chiplog_core.signature import (
    SIGNATURE_HEADER,
    Message,
    is_answer,
    request_headers,
)

ME = Incarnation("0123456789abcdef" * 2)
SECRET = "of the internal listener"  # noqa: S105 - of these tests
HOST = "127.0.0.1"

T = TypeVar("T")


def inquiry_server() -> InquiryServer:
    return InquiryServer(ME, SystemClock(), FixedCredentials(Credentials("chiplog", SECRET)))


@dataclass
class Asker:
    """Asks as the operator does, or, with other values, as somebody else would."""

    session: aiohttp.ClientSession
    port: int
    secret: str = SECRET
    incarnation: Incarnation = ME
    clock_ms: Callable[[], int] = field(default=SystemClock().now_ms)

    def message(self, path: str, body: bytes) -> Message:
        return Message(
            method="POST",
            path=path,
            incarnation=self.incarnation,
            time_ms=self.clock_ms(),
            body=body,
        )

    async def post(
        self, path: str, body: Any, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, bool]:
        """The status, the body, and whether they are signed for this request."""
        if headers is None:
            headers = request_headers(self.secret, self.message(path, body))
        url = f"http://{HOST}:{self.port}{path}"
        async with self.session.post(url, data=body, headers=headers) as answer:
            found = await answer.read()
            signature = answer.headers.get(SIGNATURE_HEADER, "")
            request = headers.get(SIGNATURE_HEADER, "")
            return (
                answer.status,
                found,
                is_answer(self.secret, request, answer.status, found, signature),
            )

    async def ask(self, path: str, asked: object, answer: type[T]) -> T:
        """What is answered with 200, signed."""
        status, body, is_signed = await self.post(path, to_body(asked))
        assert (status, is_signed) == (200, True), body
        return answer_from_body(answer, body)


@asynccontextmanager
async def served(inquiries: InquiryServer, health: Health | None = None) -> AsyncIterator[Asker]:
    """A health port on the loopback."""
    runner = await serve_health(health or Health(incarnation=ME), HOST, 0, inquiries)
    try:
        async with aiohttp.ClientSession() as session:
            yield Asker(session, int(runner.addresses[0][1]))
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking(kit: Any, **config: str) -> AsyncIterator[tuple[Any, Asker]]:
    """A whole broker: a Kafka client of it, and the operator's side of its health port."""
    config = {"group_initial_rebalance_delay_ms": "0", **config}
    broker = kit.new_broker({key.replace("_", "."): value for key, value in config.items()})
    broker.inquiries = inquiry_server()
    await broker.start()
    try:
        async with served(broker.inquiries, broker.health) as asker:
            yield await kit.client(), asker
    finally:
        kit.disk.may_sync.set()
        kit.close_clients()
        await broker.stop()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(limited())
