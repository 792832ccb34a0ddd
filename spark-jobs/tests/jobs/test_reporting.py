"""How a result is written: to whom, how often, and when not again."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from chiplog_core.model.spark_result import Result, ResultState
from chiplog_core.spark.requests import JobKind, Request, ResultPlace
from chiplog_core.spark.signing import KEY_NAME, SIGNATURE_KEY, is_signed
from chiplog_kube.connection import Connection, Token
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.http_transport import Limits
from chiplog_spark.jobs import reporting
from chiplog_spark.jobs.reporting import NotReported

REQUEST = Request(
    kind=JobKind.EXPORT,
    application="daily-1",
    namespace="shop",
    bootstrap="demo:9092",
    result=ResultPlace(config_map="daily-1-result"),
)
RESULT = Result(application="daily-1", state=ResultState.SUCCEEDED, reason="Exported")
MERGE_PATCH = "application/merge-patch+json"


@dataclass
class Server:
    """An API server that answers with these codes, one after the other, the last one for ever.

    0 is no answer at all.
    """

    codes: list[int]
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append((request.method, request.path_qs, request.headers.copy()))
        self.bodies.append(await request.json())
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if code == 0:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"kind": "Status", "message": f"said {code}"}, status=code or 200)


@dataclass
class Clock:
    """Waiting costs no time, and is written down."""

    slept_s: list[float] = field(default_factory=list)

    def monotonic_s(self) -> float:
        return sum(self.slept_s)

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)


def write(server: Server, key: str = "") -> Clock:
    async def within() -> Clock:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.handle)
        listening = TestServer(app)
        await listening.start_server(shutdown_timeout=0.1)
        connection = Connection(
            server=str(listening.make_url("")).rstrip("/"), credentials=Token("secret-token")
        )
        clock = Clock()
        try:
            async with HttpKubeApi(connection, Limits()) as api:
                await reporting.write(api, clock, REQUEST, RESULT.to_json(), key)
        finally:
            await listening.close()
        return clock

    return asyncio.run(within())


def test_the_result_is_patched_into_the_config_map_of_the_request() -> None:
    server = Server([200])
    assert write(server).slept_s == []
    ((method, path, headers),) = server.asked
    assert method == "PATCH"
    assert path == ("/api/v1/namespaces/shop/configmaps/daily-1-result?fieldManager=chiplog-spark")
    assert headers["Content-Type"] == MERGE_PATCH
    assert headers["Authorization"] == "Bearer secret-token"
    assert server.bodies == [{"data": {"result.json": RESULT.to_json()}}]


def test_the_result_is_signed_with_the_key_that_the_operator_mounts(tmp_path: Path) -> None:
    assert reporting.own_key(tmp_path) == ""
    (tmp_path / KEY_NAME).write_text("secret")
    server = Server([200])
    write(server, reporting.own_key(tmp_path))
    text = RESULT.to_json()
    (body,) = server.bodies
    assert set(body["data"]) == {"result.json", SIGNATURE_KEY}
    assert body["data"]["result.json"] == text
    assert is_signed("secret", REQUEST.application, text, body["data"][SIGNATURE_KEY])


@pytest.mark.parametrize("code", [0, 409, 429, 500, 503])
def test_requests_to_an_unavailable_api_server_are_retried(code: int) -> None:
    server = Server([code, code, 200])
    assert write(server).slept_s == list(reporting.PAUSES_S[:2])
    assert len(server.asked) == 3


def test_one_that_stays_away_is_given_up_after_minutes() -> None:
    server = Server([503])
    with pytest.raises(NotReported, match="said 503"):
        write(server)
    assert len(server.asked) == len(reporting.PAUSES_S) + 1
    assert 120 < sum(reporting.PAUSES_S) < 300


@pytest.mark.parametrize("code", [401, 403, 404, 422])
def test_what_will_not_become_true_is_not_requested_again(code: int) -> None:
    server = Server([code])
    with pytest.raises(NotReported, match=r"shop/daily-1-result: .*said"):
        write(server)
    assert len(server.asked) == 1


def test_outside_of_kubernetes_progress_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NotReported, match="it is not known how to connect to the API server"):
        asyncio.run(reporting.to_config_map(REQUEST, RESULT))


def test_a_file_takes_the_result_in_its_place(tmp_path: Path) -> None:
    reporting.to_file(tmp_path / "result.json", RESULT)
    text = (tmp_path / "result.json").read_text()
    assert Result.from_json(text, application="daily-1") == RESULT
    with pytest.raises(NotReported, match="No such file"):
        reporting.to_file(tmp_path / "none" / "result.json", RESULT)
