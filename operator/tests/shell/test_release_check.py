"""What `helm test` runs in the operator's image."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from chiplog_core.naming import names
from chiplog_core.telemetry.build_info import BUILD_INFO
from chiplog_core.telemetry.findings import Finding
from chiplog_kube import kinds
from chiplog_kube.api import NotFound, Unavailable
from chiplog_operator import release_check
from chiplog_operator.release_check import Job, check_metrics, check_operator, repeat_checks

SELECTOR = "app.kubernetes.io/name=chiplog-operator"
JOB = Job("job", {"app.kubernetes.io/name": "chiplog-operator"})


def deployment(**status: int) -> dict[str, Any]:
    about = {"namespace": "system", "name": "operator", "generation": 2}
    return {"metadata": about, "spec": {"replicas": 2}, "status": status}


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 2}, ""),
        ({"observedGeneration": 1, "readyReplicas": 2, "updatedReplicas": 2}, "has not handled"),
        ({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 1}, "1 are up to date"),
        ({"observedGeneration": 2, "updatedReplicas": 2}, "0 are ready"),
        ({}, "has not handled"),
    ],
)
def test_a_deployment(status: dict[str, int], problem: str) -> None:
    found = release_check.of_deployment(deployment(**status))
    assert found.what == "Deployment operator has 2 ready pods"
    assert (problem in found.problem) if problem else not found.problem


def lease(holder: str, renewed: str) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"holderIdentity": holder, "renewTime": renewed}}


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (lease("a", "1"), lease("a", "2"), ""),
        (lease("a", "1"), lease("b", "2"), ""),
        (lease("a", "1"), lease("a", "1"), "a does not renew it"),
        (lease("a", "1"), lease("", "2"), "no operator holds it"),
    ],
)
def test_a_lease(before: dict[str, Any], after: dict[str, Any], problem: str) -> None:
    assert release_check.of_lease(before, after).problem == problem


def test_kinds_that_are_not_served_are_named() -> None:
    every = [{"name": kind.plural} for kind in release_check.OWN_KINDS]
    status = {"name": "topics/status"}
    assert release_check.of_kinds({"resources": [*every, status]}).problem == ""
    without = [one for one in every if one["name"] not in ("topics", "brokers")]
    told = release_check.of_kinds({"resources": [*without, status]})
    assert told == Finding("9 kinds of chiplog.dev are served", "missing: brokers, topics")


class Release:
    """An API server that has the objects of a release, whose Lease is renewed by every look."""

    renewals = 0

    async def get(self, kind: Any, namespace: str, name: str) -> Any:
        if kind is release_check.DISCOVERY:
            return {"resources": [{"name": one.plural} for one in release_check.OWN_KINDS]}
        if (kind, name) == (kinds.LEASES, names.OPERATOR_LEASE):
            self.renewals += 1
            return lease("pod", str(self.renewals))
        if (kind, namespace, name) == (kinds.DEPLOYMENTS, "system", "operator"):
            return deployment(observedGeneration=2, readyReplicas=2, updatedReplicas=2)
        raise NotFound(name)


def test_an_operator_that_works(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "RENEWED_WITHIN_S", 0.01)
    api: Any = Release()
    findings = asyncio.run(check_operator(api, "system", "operator"))
    assert release_check.report(findings) == 0
    assert capsys.readouterr().out.splitlines() == [
        "yes  Deployment operator has 2 ready pods",
        "yes  the Lease chiplog-operator is held",
        "yes  9 kinds of chiplog.dev are served",
    ]


def test_it_waits_until_all_is_in_order_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(release_check, "RETRY_S", 0.01)
    answers = [[], [Finding("pods", "none")], [Finding("pods")]]

    async def look() -> list[Finding]:
        if not (answer := answers.pop(0)):
            raise Unavailable("starting")
        return answer

    assert asyncio.run(repeat_checks(look, 60)) == [Finding("pods")]

    async def fails() -> list[Finding]:
        raise Unavailable("no route")

    findings = asyncio.run(repeat_checks(fails, 0.0))
    assert release_check.report(findings) == 1
    assert capsys.readouterr().out == "no   the API server answers: no route\n"


@asynccontextmanager
async def pods(*texts: str) -> AsyncIterator[Any]:
    """An API server with a pod for each, which answers with this text."""
    listed: list[dict[str, Any]] = []
    runners: list[web.AppRunner] = []
    for number, text in enumerate(texts):

        async def scrape(_: web.Request, text: str = text) -> web.Response:
            return web.Response(text=text, status=200 if text else 500)

        app = web.Application()
        app.router.add_get("/metrics", scrape)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = {"name": "metrics", "containerPort": runner.addresses[0][1]}
        listed.append(
            {
                "metadata": {"namespace": "system", "name": f"pod-{number}"},
                "spec": {"containers": [{"ports": [port]}]},
                "status": {"phase": "Running", "podIP": "127.0.0.1"},
            }
        )
    listed.append({"metadata": {"namespace": "system", "name": "old"}, "status": {}})

    class Pods:
        async def list_(self, kind: Any, namespace: str, *, labels: str) -> Any:
            assert (kind, labels) == (kinds.PODS, SELECTOR)
            found = [one for one in listed if namespace in ("", one["metadata"]["namespace"])]
            return type("Listed", (), {"items": found})

    try:
        yield Pods()
    finally:
        for runner in runners:
            await runner.cleanup()


def test_pods_are_asked_for_their_metrics() -> None:
    async def scenario() -> None:
        good = f'# HELP x\n{BUILD_INFO}{{version="1"}} 1.0\n'
        async with pods(good, "something 1\n", "") as api:
            operator, brokers = JOB, replace(JOB, may_be_none=True)
            found = await check_metrics(api, operator, "*")
            problems = [one.problem for one in found]
            assert problems[:3] == ["", "", f"the metric {BUILD_INFO} is missing"]
            assert "500" in problems[3]
            assert found[0].what == "job job has 3 pods"
            none = await check_metrics(api, brokers, "elsewhere,nowhere")
            assert none == [Finding("job job has 0 pods")]
            (missing,) = await check_metrics(api, operator, "elsewhere")
            assert missing.problem == f"no running pod matches {SELECTOR} and has a port metrics"

    asyncio.run(scenario())


def test_a_pod_with_an_ipv6_address() -> None:
    port = {"name": "metrics", "containerPort": 9404}
    pod = {
        "spec": {"containers": [{"ports": [port]}]},
        "status": {"phase": "Running", "podIP": "fd00::1"},
    }
    assert release_check.metrics_address(pod) == "[fd00::1]:9404"
