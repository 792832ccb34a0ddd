"""The port for the operator's inquiries, over real sockets: only the operator gets through."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import uvloop

from chiplog_broker.errors import CannotStart
from chiplog_broker.ports.clock import SystemClock
from chiplog_broker.security.listener_security import ClientAuth, TlsSettings
from chiplog_broker.server import operator_site, tls_accepting
from chiplog_broker.server.health import Health
from chiplog_broker.server.http import serve_health, serve_inquiries
from chiplog_broker.server.inquiries import Inquiry
from chiplog_broker.server.operator_tls import OperatorTls
from chiplog_core.ids import BrokerId
from chiplog_core.model.group_exchange import (
    GroupRetention,
    RetentionAnswer,
    RetentionRequest,
    RetentionStored,
    to_body,
)
from chiplog_core.naming.peers import broker_host, is_operator, operator_host
from chiplog_core.signature import request_headers
from e2e.kafka.certificates import Authority, Issued
from tests.server.inquiry_kit import HOST, ME, SECRET, Asker, inquiry_server

PATH = "/groups/retention"
ASKED = RetentionRequest(groups=(GroupRetention(group_id="g", retention_ms=5),))
ANSWER = RetentionAnswer(groups=(RetentionStored(group_id="g"),))
ONE, OPERATOR = broker_host("demo", "shop", BrokerId(1)), operator_host("demo", "shop")


@dataclass
class Port:
    """A broker's port, and clients of it."""

    ca: Authority
    directory: Path
    tls: OperatorTls
    number: int = 0

    def context(self, shown: Issued | None, trusted: Authority | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=(trusted or self.ca).pem.decode())
        if shown is not None:
            file = self.directory / "client.pem"
            file.write_bytes(shown.both)
            context.load_cert_chain(file)
        return context

    async def ask(self, context: ssl.SSLContext) -> int:
        """The status of an answer. Raises `aiohttp.ClientError` without one."""
        async with aiohttp.ClientSession() as session:
            asker, body = Asker(session, self.number), to_body(ASKED)
            headers = request_headers(SECRET, asker.message(PATH, body))
            url = f"https://{HOST}:{self.number}{PATH}"
            async with session.post(
                url, data=body, headers=headers, ssl=context, server_hostname=ONE
            ) as answer:
                await answer.read()
                return answer.status

    async def is_refused(self, context: ssl.SSLContext) -> bool:
        try:
            await self.ask(context)
        except (aiohttp.ClientError, OSError):
            return True
        return False


@pytest.fixture
def port(tmp_path: Path) -> Port:
    ca = Authority.create("cluster")
    place = ca.write(ca.peer(ONE).write(tmp_path / "broker"))
    admitted = partial(is_operator, cluster="demo", namespace="shop")
    settings = TlsSettings(place, place, ClientAuth.REQUIRED, is_admitted=admitted)
    return Port(ca, tmp_path, OperatorTls.of(settings, SystemClock()))


@asynccontextmanager
async def served(port: Port) -> AsyncIterator[None]:
    async def answer(_: RetentionRequest) -> RetentionAnswer:
        return ANSWER

    inquiries = inquiry_server()
    inquiries.open({PATH: Inquiry(RetentionRequest, answer)})
    runner = await serve_inquiries(inquiries, port.tls, HOST, 0)
    port.number = int(runner.addresses[0][1])
    try:
        yield
    finally:
        await runner.cleanup()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(limited())


def test_the_operator_is_answered(port: Port) -> None:
    async def scenario() -> None:
        async with served(port):
            assert await port.ask(port.context(port.ca.peer(OPERATOR))) == 200

    run(scenario)


@pytest.mark.parametrize("who", ["nobody", "another CA", "a broker", "of another cluster"])
def test_others_are_not(port: Port, who: str) -> None:
    async def scenario() -> None:
        shown = {
            "nobody": None,
            "another CA": Authority.create("cluster").peer(OPERATOR),
            "a broker": port.ca.peer(ONE),
            "of another cluster": port.ca.peer(operator_host("demo", "other")),
        }[who]
        async with served(port):
            assert await port.is_refused(port.context(shown))
            assert await port.ask(port.context(port.ca.peer(OPERATOR))) == 200

    run(scenario)


def test_plain_text_is_refused(port: Port) -> None:
    async def scenario() -> None:
        async with served(port):
            reader, writer = await asyncio.open_connection(HOST, port.number)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in await reader.read()
            writer.close()

    run(scenario)


def test_the_health_port_answers_no_inquiries_then() -> None:
    async def scenario() -> None:
        runner = await serve_health(Health(incarnation=ME), HOST, 0, None)
        async with aiohttp.ClientSession() as session:
            asker = Asker(session, int(runner.addresses[0][1]))
            assert (await asker.post(PATH, to_body(ASKED)))[0] == 404
        await runner.cleanup()

    run(scenario)


def test_who_begins_no_handshake_keeps_nobody_out(
    port: Port, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_accepting, "HANDSHAKE_TIMEOUT_S", 60.0)

    async def scenario() -> None:
        async with served(port):
            strangers = [
                await asyncio.open_connection(HOST, port.number)
                for _ in range(2 * operator_site.MAX_HANDSHAKES)
            ]
            assert await port.ask(port.context(port.ca.peer(OPERATOR))) == 200
            for _, writer in strangers:
                writer.close()

    run(scenario)


def test_the_ca_is_replaced(port: Port) -> None:
    async def scenario() -> None:
        async with served(port):
            old, new = port.context(port.ca.peer(OPERATOR)), Authority.create("cluster")
            assert await port.ask(old) == 200
            new.write(new.peer(ONE).write(port.directory / "broker"))
            port.tls.files._read_s -= 2.0
            assert await port.ask(port.context(new.peer(OPERATOR), new)) == 200
            assert await port.is_refused(port.context(port.ca.peer(OPERATOR), new))

    run(scenario)


def test_an_address_in_use_is_named(port: Port) -> None:
    async def scenario() -> None:
        async with served(port):
            with pytest.raises(CannotStart, match=str(port.number)):
                await serve_inquiries(inquiry_server(), port.tls, HOST, port.number)

    run(scenario)
