"""HTTP: probes and `/incarnation` on one port, `/metrics` on another, and the operator's signed
inquiries on a third one with TLS. Without certificates they are on the first one."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from chiplog_broker.errors import CannotStart
from chiplog_broker.server.guarded import Bounds, Guards, Handler
from chiplog_broker.server.health import Health
from chiplog_broker.server.incarnation import Incarnation

if TYPE_CHECKING:
    from aiohttp import web

    from chiplog_broker.server.exposition.scrape import Exposition
    from chiplog_broker.server.inquiries import InquiryServer
    from chiplog_broker.server.operator_tls import OperatorTls

METRICS_CONNECTIONS: Final = 16
PROBE_CONNECTIONS: Final = 64
OPERATOR_CONNECTIONS: Final = 16

Answer = Callable[[], tuple[bool, str]]
"""Returns whether a probe passes, and a text."""


async def serve_health(
    health: Health, host: str, port: int, inquiries: "InquiryServer | None" = None
) -> "web.AppRunner":
    """Answer probes and inquiries until the returned runner is cleaned up.

    Without `inquiries` there are only probes. Raises `CannotStart`.
    """
    body_bytes = 0 if inquiries is None else inquiries.max_body_bytes
    guards = Guards(Bounds(PROBE_CONNECTIONS, body_bytes))
    app = application(guards)
    for path, answer in (
        ("/startupz", health.startup),
        ("/readyz", health.readiness),
        ("/livez", health.liveness),
    ):
        app.router.add_get(path, probe(answer))
    Incarnation(health).serve_in(app)
    if inquiries is not None:
        inquiries.serve_in(app)
    return await start(app, guards, host, port)


async def serve_inquiries(
    inquiries: "InquiryServer", tls: "OperatorTls", host: str, port: int
) -> "web.AppRunner":
    """Answer inquiries of the operator, which must show its certificate, until the returned runner
    is cleaned up. Raises `CannotStart`."""
    guards = Guards(Bounds(OPERATOR_CONNECTIONS, inquiries.max_body_bytes))
    app = application(guards)
    inquiries.serve_in(app)
    return await start(app, guards, host, port, tls)


async def serve_metrics(exposition: "Exposition", host: str, port: int) -> "web.AppRunner":
    """Answer Prometheus until the returned runner is cleaned up."""
    from aiohttp import web  # noqa: PLC0415
    from prometheus_client import CONTENT_TYPE_LATEST  # noqa: PLC0415

    async def scrape(_: web.Request) -> web.Response:
        body = await exposition.scraped()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    guards = Guards(Bounds(METRICS_CONNECTIONS))
    app = application(guards)
    app.router.add_get("/metrics", scrape)
    return await start(app, guards, host, port)


def probe(answer: Answer) -> "Callable[[web.Request], Awaitable[web.Response]]":
    """An aiohttp handler of a probe: status 200 if it passes, else 503, with the probe's text."""
    from aiohttp import web  # noqa: PLC0415

    async def handler(_: web.Request) -> web.Response:
        passed, text = answer()
        return web.Response(status=200 if passed else 503, text=text + "\n")

    return handler


def application(guards: Guards) -> "web.Application":
    """An aiohttp application without routes. Before each request it notifies the guard of the
    connection, which limits how long and how large a request may be."""
    from aiohttp import web  # noqa: PLC0415

    @web.middleware
    async def notify_guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await guards.notify_guard(request, handler)

    # A body of size 0 would mean any size.
    return web.Application(
        client_max_size=guards.bounds.body_bytes or 1, middlewares=[notify_guard]
    )


async def start(
    app: "web.Application", guards: Guards, host: str, port: int, tls: "OperatorTls | None" = None
) -> "web.AppRunner":
    """Serve an application on an address. Raises `CannotStart` if the address cannot be used."""
    from aiohttp import web  # noqa: PLC0415

    from chiplog_broker.server.guarded_site import GuardedSite  # noqa: PLC0415
    from chiplog_broker.server.operator_site import OperatorSite  # noqa: PLC0415

    # `/incarnation` never completes its answer: cancel its handler when the client disconnects.
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    site: web.BaseSite
    if tls is None:
        site = GuardedSite(runner, guards, host, port)
    else:
        site = OperatorSite(runner, guards, tls, host, port)
    try:
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise CannotStart(
            f"{host}:{port} cannot be used: {error.strerror or error}; stop the program that uses "
            "it, or choose another address for it"
        ) from error
    return runner
