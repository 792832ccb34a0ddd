"""The process: what it is told, and what it says when that does not work."""

import asyncio
import operator
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import pytest

from chiplog_core.version import VERSION
from chiplog_kube import kinds
from chiplog_kube.connection import Connection
from chiplog_operator import kopf_events, kopf_settings
from chiplog_operator.caches import Caches, ClusterKey
from chiplog_operator.http import CannotStart, Health, serve_health, serve_metrics
from chiplog_operator.main import options
from chiplog_operator.metrics import Metrics


class Deaf:
    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def test_what_is_not_said_has_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "here")
    monkeypatch.setenv("CHIPLOG_BROKER_IMAGE", "chiplog/broker:7")
    found = options([])
    assert (found.namespace, found.broker_image) == ("here", "chiplog/broker:7")
    assert (found.kubeconfig, found.watch_namespaces) == (None, ())


def test_what_is_said_counts() -> None:
    found = options(["--watch-namespaces", "a, b,", "--namespace=x", "--kubeconfig", "f"])
    assert found.watch_namespaces == ("a", "b")
    assert (found.namespace, found.kubeconfig) == ("x", Path("f"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no image for brokers"),
        (["--broker-image=x"], "KUBERNETES_SERVICE_HOST"),
        (["--broker-image=x", "--kubeconfig=/nowhere/at/all"], "No such file"),
    ],
)
def test_what_it_cannot_start_with_is_said_in_a_line(arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "chiplog_operator", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={})
    assert ended.returncode == 2
    assert message in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_its_folder_does_not_shadow_pythons_own_module() -> None:
    assert "chiplog" not in str(operator.__file__)
    assert operator.add(1, 2) == 3


def test_a_standby_loads_no_kopf() -> None:
    program = "import sys, chiplog_operator.main; sys.exit('kopf' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


async def asked(port_of: Any, path: str) -> tuple[int, str]:
    (address,) = port_of.addresses
    url = f"http://127.0.0.1:{address[1]}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def test_probes_and_metrics() -> None:
    async def scenario() -> None:
        health, metrics = Health(), Metrics()
        probes = await serve_health(health, "127.0.0.1:0")
        scraped = await serve_metrics(metrics, "127.0.0.1:0")
        assert await asked(probes, "/healthz") == (200, "standby\n")
        assert (await asked(probes, "/readyz"))[0] == 503
        health.is_ready = True
        assert await asked(probes, "/readyz") == (200, "standby\n")
        health.is_leader = True
        assert await asked(probes, "/readyz") == (200, "active\n")
        metrics.planned(ClusterKey("shop", "demo"), 0.2, is_ok=True)
        status, text = await asked(scraped, "/metrics")
        assert status == 200
        labels = '{kind="BrokerCluster",name="demo",namespace="shop"}'
        assert f"chiplog_operator_reconciliations_successful_total{labels} 1.0" in text
        for runner in (probes, scraped):
            await runner.cleanup()

    asyncio.run(scenario())


@pytest.mark.parametrize("address", ["8080", "host:port", "127.0.0.1:99999"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(CannotStart, match="write HOST:PORT"):
        asyncio.run(serve_health(Health(), address))


def test_an_address_that_is_taken() -> None:
    async def scenario() -> None:
        first = await serve_health(Health(), "127.0.0.1:0")
        (address,) = first.addresses
        with pytest.raises(CannotStart, match="cannot be used"):
            await serve_health(Health(), f"127.0.0.1:{address[1]}")
        await first.cleanup()

    asyncio.run(scenario())


def test_kopf_hears_of_users_kinds_and_writes_nothing() -> None:
    registry = kopf_settings.registry(
        Connection(server="http://127.0.0.1:1"), Caches(Deaf(), Deaf())
    )
    watched = {
        str(handler.selector.any_name or handler.selector.plural)
        for handler in registry._watching.get_all_handlers()
        if handler.selector is not None
    }
    assert watched == {
        "brokerclusters",
        "topics",
        "consumergroups",
        "users",
        "verifications",
        "rebalances",
    }
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())
    settings = kopf_settings.settings()
    assert settings.posting.enabled is False
    # Kopf puts it into a query, where the API server reads whole numbers only.
    assert isinstance(settings.watching.server_timeout, int)


def test_an_event_goes_into_the_cache_as_a_copy() -> None:
    caches = Caches(Deaf(), Deaf())
    body: Any = {"metadata": {"namespace": "shop", "name": "t", "uid": "u", "resourceVersion": "1"}}
    kopf_events.take(caches, kinds.TOPICS, kopf.RawEvent(type=None, object=body))
    body["metadata"]["name"] = "changed by kopf"
    assert caches[kinds.TOPICS].get("shop", "t")
    body["metadata"]["name"] = "t"
    kopf_events.take(caches, kinds.TOPICS, kopf.RawEvent(type="DELETED", object=body))
    assert len(caches[kinds.TOPICS]) == 0


def test_a_part_of_kopf_that_fails_is_told_though_another_never_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fails() -> None:
        raise RuntimeError("404 page not found")

    async def scenario() -> None:
        released, told = asyncio.Event(), asyncio.Event()

        async def never_ends() -> None:
            while not released.is_set():
                with suppress(asyncio.CancelledError):
                    await released.wait()

        async def spawn(**_: object) -> list[asyncio.Task[None]]:
            return [asyncio.create_task(fails()), asyncio.create_task(never_ends())]

        monkeypatch.setattr(kopf, "spawn_tasks", spawn)
        connection = Connection(server="http://127.0.0.1:1")
        running = asyncio.create_task(
            kopf_settings.run(connection, Caches(Deaf(), Deaf()), (), lambda: None, told.set)
        )
        await asyncio.wait_for(told.wait(), 5)
        assert not running.done()
        released.set()
        with pytest.raises(RuntimeError, match="404"):
            await running

    asyncio.run(scenario())


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        options(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"chiplog-operator {VERSION}\n"
