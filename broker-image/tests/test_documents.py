"""Documents at URLs: bounded, and from servers that are trusted."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from chiplog_broker.ports.documents import UrlDocument
from e2e.kafka.certificates import Authority

LOOPBACK = "127.0.0.1"


async def answer(request: web.Request) -> web.StreamResponse:
    match request.path:
        case "/keys":
            return web.Response(body=b"x" * 1_000)
        case "/moved":
            raise web.HTTPFound("/keys")
        case "/endless":
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(1_000):
                await response.write(b"x" * 1_000)
            return response
    raise web.HTTPNotFound


@asynccontextmanager
async def server(directory: Path, authority: Authority) -> AsyncIterator[str]:
    """Yields the URL of a server with TLS."""
    issued = authority.server().write(directory / "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued / "tls.crt", issued / "tls.key")
    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, 0, ssl_context=context)
        await site.start()
        yield f"https://{LOOPBACK}:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_a_document_is_fetched_from_a_server_that_is_trusted(tmp_path: Path) -> None:
    authority, other = Authority.create("a"), Authority.create("b")
    directory = authority.write(tmp_path / "cas")
    untrusted = other.write(tmp_path / "others") / "ca.crt"

    async def scenario() -> None:
        async with server(tmp_path, authority) as url:
            for trusted in (directory, directory / "ca.crt"):
                assert len(await UrlDocument(f"{url}/keys", trusted)(1_000)) == 1_000
            for wrong in (untrusted, None):
                with pytest.raises(OSError, match="certificate verify failed"):
                    await UrlDocument(f"{url}/keys", wrong)(1_000)
            with pytest.raises(ValueError, match="more than 999 bytes"):
                await UrlDocument(f"{url}/keys", directory)(999)
            with pytest.raises(ValueError, match="more than 5000 bytes"):
                await UrlDocument(f"{url}/endless", directory)(5_000)
            for path, status in (("moved", 302), ("nothing", 404)):
                with pytest.raises(ValueError, match=str(status)):
                    await UrlDocument(f"{url}/{path}", directory)(1_000)

    asyncio.run(scenario())


def test_what_cannot_be_reached_or_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "no.pem").write_text("nothing")

    async def scenario() -> None:
        with pytest.raises(OSError, match="Connect"):
            await UrlDocument(f"http://{LOOPBACK}:1/keys", None)(1_000)
        with pytest.raises(ValueError, match="no certificates"):
            await UrlDocument("https://127.0.0.1:1/", tmp_path / "empty")(1_000)
        for missing in ("no.pem", "nowhere"):
            with pytest.raises(OSError):  # noqa: PT011 - whatever OpenSSL says
                await UrlDocument("https://127.0.0.1:1/", tmp_path / missing)(1_000)

    asyncio.run(scenario())
