"""Kubeconfigs with TLS as it is out there, against real servers on loopback."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from chiplog_kube import kinds
from chiplog_kube.api import Manifest, Unavailable
from chiplog_kube.connection import NoConnection
from chiplog_kube.http_api import HttpKubeApi
from chiplog_kube.kubeconfig import connect
from tests.client.kubeconfigs import LoginProgram, kubeconfig, written
from tests.client.servers import Certificate, Proxy, serving_tls
from tests.client.test_kubeconfig import id_token, oidc

NAME = "kubernetes.example"
TOPIC = {"metadata": {"name": "orders"}}


def answering() -> web.Application:
    """Says in `spec` by which certificate the client is known."""

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert") or {}
        names = [value for ((_, value),) in peer.get("subject", ())]
        return web.json_response({**TOPIC, "spec": {"client": names}})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    return app


async def ask(path: Path, times: int = 1) -> Manifest:
    connection = await asyncio.to_thread(connect, [path])
    async with HttpKubeApi(connection) as api:
        for _ in range(times):
            found = await api.get(kinds.TOPICS, "shop", "orders")
        return found


def test_names_of_servers(tmp_path: Path) -> None:
    """A certificate of another name is believed by `tls-server-name`, or by force, and only so."""
    server = Certificate.made(tmp_path, NAME)

    async def scenario() -> None:
        async with serving_tls(answering(), server.for_server()) as port:
            own = {"server": f"https://127.0.0.1:{port}"}
            ca = {"certificate-authority": server.path.name}
            for more in ({**ca, "tls-server-name": NAME}, {"insecure-skip-tls-verify": True}):
                await ask(written(tmp_path, kubeconfig(cluster={**own, **more})))
            for more in (ca, {"tls-server-name": NAME}):
                with pytest.raises(Unavailable, match="ertificate"):
                    await ask(written(tmp_path, kubeconfig(cluster={**own, **more})))

    asyncio.run(scenario())


def test_by_a_proxy(tmp_path: Path) -> None:
    """Which alone knows the server's name."""
    server = Certificate.made(tmp_path, NAME)

    async def scenario() -> list[str]:
        async with serving_tls(answering(), server.for_server()) as port:
            proxy = Proxy(port)
            async with proxy.serving() as address:
                cluster = {
                    "server": f"https://{NAME}:6443",
                    "certificate-authority": server.path.name,
                    "proxy-url": address,
                }
                await ask(written(tmp_path, kubeconfig(cluster=cluster)))
            return proxy.asked

    assert asyncio.run(scenario()) == [f"CONNECT {NAME}:6443 HTTP/1.1"]


def test_a_login_program_renews_a_certificate(tmp_path: Path) -> None:
    """The next request after its expiry is made by the new one, on a new connection."""
    folder = tmp_path / "program"
    folder.mkdir()
    server, one = Certificate.made(tmp_path, NAME), Certificate.made(tmp_path, "one")
    given = {
        "clientCertificateData": one.path.read_text(),
        "clientKeyData": one.key_path.read_text(),
    }
    program = LoginProgram(folder)
    # Expired long ago: asked again before each request.
    program.gives({**given, "expirationTimestamp": "2020-01-01T00:00:00Z"})

    async def scenario() -> Manifest:
        context = server.for_server(clients=one)
        async with serving_tls(answering(), context) as port:
            cluster = {
                "server": f"https://127.0.0.1:{port}",
                "certificate-authority": str(server.path),
                "tls-server-name": NAME,
            }
            return await ask(written(tmp_path, kubeconfig(program.user(), cluster)), times=2)

    assert asyncio.run(scenario())["spec"]["client"] == ["one"]
    assert program.runs == 3


def identity_provider(token: str, requests: list[dict[str, Any]]) -> web.Application:
    """An issuer that gives one token for the refresh token r1."""

    async def discover(request: web.Request) -> web.Response:
        return web.json_response({"token_endpoint": f"https://{request.host}/token"})

    async def give(request: web.Request) -> web.Response:
        requests.append(dict(await request.post()))
        return web.json_response(
            {"access_token": "a", "id_token": token, "refresh_token": "r2", "token_type": "Bearer"}
        )

    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", discover)
    app.router.add_post("/token", give)
    return app


def test_an_oidc_token_is_renewed_and_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh token is good once, so that kubectl needs the new one. An issuer without a CA of
    its own is checked against the system's, and nothing of that is written."""
    server = Certificate.made(tmp_path, "localhost")
    requests: list[dict[str, Any]] = []
    token = id_token(4_000_000_000)

    async def scenario() -> None:
        app = identity_provider(token, requests)
        async with serving_tls(app, server.for_server()) as port:
            user = oidc(id_token(0), f"https://localhost:{port}")
            path = written(tmp_path, kubeconfig(user))
            with pytest.raises(NoConnection, match=r"(?s)OIDC failed.*CERTIFICATE_VERIFY_FAILED"):
                await asyncio.to_thread(connect, [path])
            assert requests == [], "no secret goes to somebody whom nobody vouches for"
            monkeypatch.setenv("SSL_CERT_FILE", str(server.path))
            found = await asyncio.to_thread(connect, [path])
            assert found.headers() == {"Authorization": f"Bearer {token}"}
            user["auth-provider"]["config"].update({"id-token": token, "refresh-token": "r2"})
            assert yaml.safe_load(path.read_text()) == json.loads(json.dumps(kubeconfig(user)))

    asyncio.run(scenario())
    assert [one["refresh_token"] for one in requests] == ["r1"]
