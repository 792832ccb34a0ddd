"""An aiohttp site with guarded connections. In its own module, because importing aiohttp takes
long."""

import asyncio

from aiohttp import web

from chiplog_broker.server.guarded import Guard, Guards

BACKLOG = 128


class GuardedSite(web.BaseSite):
    """A TCP site with a `Guard` for each connection."""

    def __init__(self, runner: web.AppRunner, guards: Guards, host: str, port: int) -> None:
        super().__init__(runner, backlog=BACKLOG)
        self._guards = guards
        self._host, self._port = host, port

    @property
    def name(self) -> str:
        """The URL, which aiohttp requires of a site."""
        return f"http://{self._host}:{self._port}"

    async def start(self) -> None:
        """Listen on the address. Raises `OSError` if the address cannot be used."""
        await super().start()
        server = self._runner.server
        assert server is not None, "the runner was set up"
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Guard(self._guards, server()), self._host, self._port, backlog=BACKLOG
        )
