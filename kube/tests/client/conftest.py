"""A server on loopback that answers as a test says, and a client that speaks to it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from chiplog_kube.connection import Connection, Credentials, NoToken
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.http_transport import Limits
from chiplog_kube.request_meter import About

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]

QUICK = Limits(connect_s=1.0, request_s=0.3, list_s=0.3, silence_s=0.3, page_items=2)


@dataclass
class Scripted:
    """Answers requests one after the other, the last answer again and again."""

    answers: list[Answer] = field(default_factory=list)
    requests: list[web.Request] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    counted: list[tuple[str, str, str]] = field(default_factory=list)
    """Verb, resource and code of each request, as the client counted it."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        body = await request.read()
        self.bodies.append(json.loads(body) if body else None)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    def then(self, answer: Answer) -> "Scripted":
        self.answers.append(answer)
        return self

    def then_json(self, value: Any, status: int = 200) -> "Scripted":
        async def answer(_: web.Request) -> web.Response:
            return web.json_response(value, status=status)

        return self.then(answer)

    def then_status(self, code: int, reason: str = "", message: str = "said so") -> "Scripted":
        value = {"kind": "Status", "code": code, "reason": reason, "message": message}
        return self.then_json(value, code)

    def then_lines(self, *lines: Any, ending: str = "end") -> "Scripted":
        """A watch; `ending`: the server ends it, drops the connection, or says no more."""

        async def answer(request: web.Request) -> web.StreamResponse:
            stream = web.StreamResponse()
            await stream.prepare(request)
            for line in lines:
                text = line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
                await stream.write(text)
            if ending == "drop":
                assert request.transport is not None
                request.transport.abort()
            if ending == "silence":
                await asyncio.sleep(3)
            return stream

        return self.then(answer)

    def answered(self, about: About, code: str, seconds: float) -> None:
        assert seconds > 0
        self.counted.append((about.verb, about.resource, code))

    @asynccontextmanager
    async def client(
        self, limits: Limits = QUICK, credentials: Credentials | None = None
    ) -> AsyncIterator[HttpKubeApi]:
        async with self.serving() as address:
            connection = Connection(server=address, credentials=credentials or NoToken())
            async with HttpKubeApi(connection, limits, self) as api:
                yield api

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Its address, while it answers."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        server = TestServer(app)
        await server.start_server(shutdown_timeout=0.1)
        try:
            yield str(server.make_url("")).rstrip("/")
        finally:
            await server.close()


@pytest.fixture
def server() -> Scripted:
    return Scripted()
