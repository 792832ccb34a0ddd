"""Kopf as a part of our process: it watches what users write, and does nothing else.

No Events, no annotations, no finalizers, no progress in a status, no peering: everything that
Kopf would write is off, either by a setting here or because there are only `on.event` handlers.
It logs in with what our own client found, so no other Kubernetes library is needed. It logs in
again where the server does not know who we are (401).
"""

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable, Sequence

import aiohttp
import kopf

from chiplog_kube.connection import Connection, Login, NoConnection
from chiplog_operator import kopf_events
from chiplog_operator.caches import Caches

WATCH_S = 300  # the API server takes no fractions
SILENCE_S = 120.0
"""The server sends a bookmark every minute; a watch without one is dead."""


def settings() -> kopf.OperatorSettings:
    """The settings of Kopf. It only watches: it creates no Events, has no peers, and sends no
    requests of its own that could wait for each other."""
    chosen = kopf.OperatorSettings()
    chosen.posting.enabled = False
    chosen.posting.level = logging.CRITICAL
    chosen.peering.standalone = True
    chosen.watching.server_timeout = WATCH_S
    chosen.watching.inactivity_timeout = SILENCE_S
    chosen.watching.connect_timeout = 5.0
    chosen.networking.request_timeout = 30.0
    chosen.networking.error_backoffs = (0.2, 0.5, 1.0, 2.0, 3.0, 3.0, 3.0)
    # Only events of the same object wait for each other.
    chosen.queueing.worker_limit = None
    chosen.queueing.idle_timeout = 1.0
    # This process ends itself, and decides how long that may take.
    chosen.process.ultimate_exiting_timeout = None
    return chosen


def registry(connection: Connection, caches: Caches) -> kopf.OperatorRegistry:
    """The registry with our event handlers. Kopf logs in with our connection."""
    made = kopf.OperatorRegistry()
    kopf_events.register(made, caches)

    @kopf.on.login(registry=made)
    async def log_in(**_: object) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(
            server=connection.server,
            default_namespace=connection.namespace or None,
            aiohttp_session=_session(connection),
        )

    return made


def _session(connection: Connection) -> aiohttp.ClientSession:
    """An HTTP session like our own client's, with the present token in every request.

    A client certificate is the one at the time of the login. Kopf logs in again when it has
    expired.
    """

    async def authorize(
        request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        if connection.server_name:
            request.server_hostname = connection.server_name
        if connection.login is None:
            request.headers.update(connection.headers())
            return await handler(request)
        return await _logged_in(connection, connection.login, request, handler)

    context: ssl.SSLContext | bool = connection.ssl_context() or True
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=context),
        middlewares=(authorize,),
        proxy=connection.proxy or None,
    )


async def _logged_in(
    connection: Connection,
    login: Login,
    request: aiohttp.ClientRequest,
    handler: aiohttp.ClientHandlerType,
) -> aiohttp.ClientResponse:
    """Send a request with the identity that the kubeconfig's login returned. After a 401, log in
    again and send it once more, if that returns a new identity."""
    try:
        version = await login.fresh()
        request.headers.update(connection.headers())
        answer = await handler(request)
        if answer.status != 401 or not await login.refused(version):
            return answer
    except NoConnection as error:
        # Kopf tries again without a limit.
        raise aiohttp.ClientConnectionError(str(error)) from error
    answer.close()
    request.headers.update(connection.headers())
    return await handler(request)


async def run(
    connection: Connection,
    caches: Caches,
    namespaces: Sequence[str],
    on_signal: Callable[[], None],
    on_end: Callable[[], None],
) -> None:
    """Watch until cancelled. Signals are handled by `on_signal`, because Kopf would handle them
    itself.

    `on_end` is called when one of Kopf's own tasks ends. Kopf then stops the others, which may take
    forever: a watch that wants to log in again waits for a login that has been stopped.
    """
    before = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry(connection, caches),
        settings=settings(),
        standalone=True,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
    )
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, on_signal)
    for task in tasks:
        task.add_done_callback(lambda _: on_end())
    await kopf.run_tasks(tasks, ignored=before)
