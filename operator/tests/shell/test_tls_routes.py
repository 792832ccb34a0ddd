"""TLSRoutes: kept where the Gateway API is installed, and no harm where it is not."""

from dataclasses import replace
from typing import Any

import pytest

from chiplog_kube import kinds
from chiplog_kube.api import Forbidden, Invalid, Unavailable
from chiplog_operator.apply import Applied
from chiplog_operator.certificates.keeper import READ_AGAIN_S
from chiplog_operator.tls_routes import AGAIN_S
from tests.shell.test_apply import IDS, Shell, broker
from tests.shell.test_certificates import GIVEN, kafka_tls

ROUTED: dict[str, Any] = {
    "name": "gw",
    "type": "tlsroute",
    "port": 9096,
    "tls": True,
    "configuration": {
        "hostTemplate": "broker-{nodeId}.example.com",
        "bootstrap": {"host": "kafka.example.com"},
        "parentRefs": [{"name": "kafka"}],
        "brokerCertChainAndKey": GIVEN,
    },
}
DONE = Applied(requeue_after_s=READ_AGAIN_S)
PLAIN = {"name": "plain", "type": "internal", "port": 9092}


@pytest.fixture
def shell(bench: Any) -> Shell:
    bench.run(bench.api.create(kinds.SECRETS, kafka_tls(bench), field_manager="them"))
    return Shell(bench)


def routes(bench: Any) -> dict[str, Any]:
    found = bench.api.all_of(kinds.TLS_ROUTES)
    return {one["metadata"]["name"]: one for one in found}


def requests(bench: Any) -> list[str]:
    return [call.verb for call in bench.api.calls if call.kind == "TLSRoute"]


def test_they_are_made_once_and_repaired_later(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[ROUTED])
        assert await shell.apply(cluster) == DONE
        assert set(routes(bench)) == {"demo-gw-ext", "demo-gw-ext-1", "demo-gw-ext-2"}
        bench.api.calls.clear()
        await shell.apply(cluster)
        assert requests(bench) == []
        changed = {"spec": {"hostnames": ["other.example.com"]}}
        name = "demo-gw-ext-1"
        await bench.api.patch(kinds.TLS_ROUTES, "shop", name, changed, field_manager="kubectl")
        bench.clock.jump(AGAIN_S)
        await shell.apply(cluster)

    bench.run(scenario())
    assert routes(bench)["demo-gw-ext-1"]["spec"]["hostnames"] == ["broker-1.example.com"]


def test_what_a_broker_and_a_listener_leave_behind_goes(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[PLAIN, ROUTED])
        brokers = {number: broker(number, retired=False) for number in IDS}
        await shell.apply(cluster, IDS, brokers)
        brokers[IDS[-1]] = broker(IDS[-1], retired=True)
        await shell.apply(cluster, IDS[:-1], brokers)
        assert set(routes(bench)) == {"demo-gw-ext", "demo-gw-ext-1"}
        without = replace(cluster.spec, listeners=cluster.spec.listeners[:1])
        theirs = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "TLSRoute",
            "metadata": {
                "name": "theirs",
                "namespace": "shop",
                "labels": {"chiplog.dev/cluster": "demo"},
            },
        }
        await bench.api.create(kinds.TLS_ROUTES, theirs, field_manager="kubectl")
        # Another process of the operator, which has never seen the listener.
        another = Shell(bench)
        await another.apply(replace(cluster, spec=without), IDS[:-1], brokers)
        bench.api.calls.clear()
        bench.clock.jump(AGAIN_S)
        await another.apply(replace(cluster, spec=without), IDS[:-1], brokers)
        assert requests(bench) == []

    bench.run(scenario())
    assert set(routes(bench)) == {"theirs"}


def test_without_the_gateway_api_the_rest_works(bench: Any, shell: Shell) -> None:
    async def scenario() -> tuple[str, ...]:
        bench.api.missing_kinds.add(kinds.TLS_ROUTES.kind)
        cluster = await shell.cluster(listeners=[PLAIN, ROUTED])
        problems = (await shell.apply(cluster)).problems
        assert len(bench.api.all_of(kinds.STATEFUL_SETS)) == len(IDS)
        without = replace(cluster.spec, listeners=cluster.spec.listeners[:1])
        assert await shell.apply(replace(cluster, spec=without)) == Applied()
        bench.api.missing_kinds.clear()
        assert await shell.apply(cluster) == DONE
        return problems

    (problem,) = bench.run(scenario())
    assert "listeners of type tlsroute are not supported by this Kubernetes cluster" in problem
    assert "install the Gateway API" in problem
    assert "demo-gw-ext" in routes(bench)


@pytest.mark.parametrize(
    ("verb", "error", "found"),
    [
        ("list", Forbidden("no"), "TLSRoutes cannot be listed: no"),
        ("create", Invalid("no"), "TLSRoute demo-gw-ext is refused: no"),
        ("list", Unavailable("no"), ""),
        ("create", Unavailable("no"), ""),
    ],
)
def test_a_failure_is_reported_and_tried_again(
    bench: Any, shell: Shell, verb: str, error: Exception, found: str
) -> None:
    def fails(call: Any) -> Exception | None:
        is_it = call.kind == "TLSRoute" and call.verb == verb
        return error if is_it and call.name in {"", "demo-gw-ext"} else None

    async def scenario() -> Applied:
        bench.api.fault = fails
        cluster = await shell.cluster(listeners=[ROUTED])
        applied = await shell.apply(cluster)
        bench.api.fault = lambda _: None
        assert await shell.apply(cluster) == DONE
        return applied

    applied = bench.run(scenario())
    assert applied.is_unfinished
    assert applied.problems == ((found,) if found else ())
    assert len(routes(bench)) == 3


def test_one_of_somebody_else_stays(bench: Any, shell: Shell) -> None:
    theirs = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "TLSRoute",
        "metadata": {"name": "demo-gw-ext-1", "namespace": "shop"},
    }

    async def scenario() -> tuple[str, ...]:
        await bench.api.create(kinds.TLS_ROUTES, theirs, field_manager="kubectl")
        return (await shell.apply(await shell.cluster(listeners=[ROUTED]))).problems

    (problem,) = bench.run(scenario())
    assert "TLSRoute demo-gw-ext-1 is not this BrokerCluster's" in problem
    assert "spec" not in routes(bench)["demo-gw-ext-1"]
