"""Kopf with a login that lasts for a while only, as an operator outside of a pod has it."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from chiplog_kube.connection import Connection
from chiplog_kube.finding import find
from chiplog_operator import kopf_settings

API_VERSION = "client.authentication.k8s.io/v1"


def kubeconfig(folder: Path, server: str) -> Path:
    """Of somebody whose login program gives t1 at its first run, and so on; none after t2."""
    credential = {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": {"token": "tN"}}
    program = folder / "cloud"
    program.write_text(
        f"#!/bin/sh\ncd {folder}; echo >>runs; n=$(wc -l <runs); [ $n -le 2 ] || exit 1\n"
        f"echo '{json.dumps(credential)}' | sed s/tN/t$n/\n"
    )
    program.chmod(0o700)
    path = folder / "config"
    named = {"name": "c"}
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "clusters": [{**named, "cluster": {"server": server}}],
                "contexts": [{**named, "context": {"cluster": "c", "user": "c"}}],
                "users": [
                    {
                        **named,
                        "user": {"exec": {"apiVersion": API_VERSION, "command": str(program)}},
                    }
                ],
            }
        )
    )
    return path


def test_kopf_logs_in_again_by_the_program_of_a_kubeconfig(tmp_path: Path) -> None:
    good = {"Bearer t1"}

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers["Authorization"] in good else 401)

    async def asked(connection: Connection) -> int:
        async with (
            kopf_settings._session(connection) as session,
            session.get(f"{connection.server}/apis") as response,
        ):
            return response.status

    async def scenario() -> None:
        app = web.Application()
        app.router.add_get("/apis", answer)
        async with TestServer(app) as server:
            path = kubeconfig(tmp_path, str(server.make_url("")).rstrip("/"))
            connection = await asyncio.to_thread(find, path)
            assert await asked(connection) == 200
            good.clear()
            good.add("Bearer t2")
            assert await asked(connection) == 200
            good.clear()
            with pytest.raises(aiohttp.ClientConnectionError, match=r"login program .*cloud"):
                await asked(connection)

    asyncio.run(scenario())
    assert len((tmp_path / "runs").read_text().splitlines()) == 3
