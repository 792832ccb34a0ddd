"""`/healthz` and `/readyz` on one port, `/metrics` on another."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, disable_created_metrics

from chiplog_operator.metrics import Metrics

MAX_PORT = 65_535


class CannotStart(Exception):  # noqa: N818 - named for what it says
    """An option of the operator is wrong. `str()` says which one and what to do."""


@dataclass(slots=True)
class Health:
    """What the probes answer. A standby that waits for the Lease is healthy and ready. One that
    conflicts with an operator of another Lease is not ready, because a user must resolve that."""

    is_ready: bool = False
    is_leader: bool = False
    conflict: str = ""
    """The conflict with another operator, for the user; empty if there is none."""

    def live(self) -> tuple[bool, str]:
        """Whether the liveness probe succeeds, which it always does, and the text it returns."""
        return True, "active" if self.is_leader else "standby"

    def ready(self) -> tuple[bool, str]:
        """Whether the readiness probe succeeds, and the text it returns."""
        if self.conflict:
            return False, self.conflict
        return self.is_ready, self.live()[1] if self.is_ready else "starting"


async def serve_health(health: Health, address: str) -> web.AppRunner:
    """Answer probes until the returned runner is cleaned up. Raises `CannotStart`."""
    app = web.Application()
    app.router.add_get("/healthz", _probe(health.live))
    app.router.add_get("/readyz", _probe(health.ready))
    return await _start(app, "--health-address", address)


async def serve_metrics(metrics: Metrics, address: str) -> web.AppRunner:
    """Answer Prometheus until the returned runner is cleaned up. Raises `CannotStart`."""
    # Nobody uses the start times of counters, and they double the size of a scrape.
    disable_created_metrics()  # type: ignore[no-untyped-call]

    async def scrape(_: web.Request) -> web.Response:
        body = await metrics.text()
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", scrape)
    return await _start(app, "--metrics-address", address)


def _probe(
    answer: Callable[[], tuple[bool, str]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """The HTTP handler of one probe: status 200 or 503, with a text."""

    async def handler(_: web.Request) -> web.Response:
        passed, text = answer()
        return web.Response(status=200 if passed else 503, text=text + "\n")

    return handler


async def _start(app: web.Application, option: str, address: str) -> web.AppRunner:
    """Serve an application on the address that an option gives. Raises `CannotStart`."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > MAX_PORT:
        raise CannotStart(f"{option} {address!r} is not an address: write HOST:PORT")
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, int(port)).start()
    except OSError as error:
        await runner.cleanup()
        raise CannotStart(
            f"{option} {address} cannot be used: {error.strerror or error}; stop the program that "
            "uses it, or choose another address"
        ) from error
    return runner
