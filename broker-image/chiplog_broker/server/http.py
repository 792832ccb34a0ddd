"""Probes, `/incarnation` and signed inquiries on one port, `/metrics` on another."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from chiplog_broker.errors import CannotStart
from chiplog_broker.server.health import Health
from chiplog_broker.server.incarnation import Incarnation

if TYPE_CHECKING:
    from aiohttp import web

    from chiplog_broker.server.exposition.scrape import Exposition
    from chiplog_broker.server.inquiries import InquiryServer

Answer = Callable[[], tuple[bool, str]]


async def serve_health(
    health: Health, host: str, port: int, inquiries: "InquiryServer | None" = None
) -> "web.AppRunner":
    """Answer probes, and inquiries, until the returned runner is cleaned up.

    Raises `CannotStart`.
    """
    from aiohttp import web  # noqa: PLC0415 - a tenth of a second that the log's start need not wait

    app = web.Application()
    if inquiries is not None:
        app = web.Application(client_max_size=inquiries.max_body_bytes)
    for path, answer in (
        ("/startupz", health.startup),
        ("/readyz", health.readiness),
        ("/livez", health.liveness),
    ):
        app.router.add_get(path, probe(answer))
    Incarnation(health).serve_in(app)
    if inquiries is not None:
        inquiries.serve_in(app)
    return await start(app, host, port)


async def serve_metrics(exposition: "Exposition", host: str, port: int) -> "web.AppRunner":
    """Answer Prometheus until the returned runner is cleaned up."""
    from aiohttp import web  # noqa: PLC0415
    from prometheus_client import CONTENT_TYPE_LATEST  # noqa: PLC0415

    async def scrape(_: web.Request) -> web.Response:
        body = await exposition.text()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return await start(app, host, port)


def probe(answer: Answer) -> "Callable[[web.Request], Awaitable[web.Response]]":
    """An aiohttp handler that turns (passed, text) into 200 or 503."""
    from aiohttp import web  # noqa: PLC0415

    async def handler(_: web.Request) -> web.Response:
        passed, text = answer()
        return web.Response(status=200 if passed else 503, text=text + "\n")

    return handler


async def start(app: "web.Application", host: str, port: int) -> "web.AppRunner":
    from aiohttp import web  # noqa: PLC0415

    # An answer that goes on for ever ends when nobody reads it any more.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        raise CannotStart(
            f"{host}:{port} cannot be used: {error.strerror or error}; stop what uses it, or "
            "name another address for probes and metrics"
        ) from error
    return runner
