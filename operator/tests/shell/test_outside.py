"""Load balancers: their addresses are found, certified and then advertised; what is not needed any
more goes."""

from dataclasses import replace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from chiplog_core.certificates.servers import IN_PODS_WITHIN
from chiplog_core.ids import BrokerId
from chiplog_core.naming import labels, names
from chiplog_kube import kinds
from chiplog_kube.api import Invalid
from chiplog_operator.loop import RESYNC_S
from chiplog_operator.resources.pod import CONTAINER
from tests.shell.conftest import CLUSTER, NAMESPACE
from tests.shell.test_apply import IDS, Shell, broker
from tests.shell.test_certificates import certificates
from tests.shell.test_system import prepare

BALANCED: dict[str, Any] = {"name": "lb", "type": "loadbalancer", "port": 9094, "tls": True}
ROUTED: dict[str, Any] = {
    "name": "sni",
    "type": "ingress",
    "port": 9095,
    "tls": True,
    "configuration": {
        "hostTemplate": "broker-{nodeId}.example.com",
        "bootstrap": {"host": "kafka.example.com"},
    },
}


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


async def give_addresses(bench: Any, start: str) -> None:
    """As a controller for load balancers does."""
    for service in bench.api.all_of(kinds.SERVICES):
        if service["spec"].get("type") != "LoadBalancer":
            continue
        name = service["metadata"]["name"]
        ip = f"{start}.{100 if name.endswith('-ext') else name.rpartition('-')[2]}"
        status = {"status": {"loadBalancer": {"ingress": [{"ip": ip}]}}}
        await bench.api.patch(
            kinds.SERVICES, NAMESPACE, name, status, field_manager="cloud", subresource="status"
        )


def certified(bench: Any, broker_id: int) -> set[str]:
    (certificate,) = certificates(bench, "demo-broker-certs", f"{broker_id}.crt")
    hosts = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(one) for one in hosts.get_values_for_type(x509.IPAddress)}


def advertised(bench: Any, broker_id: int) -> str:
    endpoints = bench.one(kinds.BROKERS, f"demo-{broker_id}")["spec"]["endpoints"]
    return next((one["host"] for one in endpoints if one["listener"] == "lb"), "")


async def run_pods(bench: Any) -> None:
    """As kubelets do: the brokers' processes start now, and are ready."""
    now = bench.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    running = {"name": CONTAINER, "ready": True, "started": True}
    status = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        "containerStatuses": [{**running, "state": {"running": {"startedAt": now}}}],
    }
    for number in (1, 2, 3):
        await bench.add_pod(number, f"10.0.0.{number}")
        name = names.pod(CLUSTER, BrokerId(number))
        await bench.api.patch(
            kinds.PODS,
            NAMESPACE,
            name,
            {"status": status},
            field_manager="kubelet",
            subresource="status",
        )


def bootstrap(bench: Any) -> list[str]:
    listeners = bench.one(kinds.BROKER_CLUSTERS, CLUSTER)["status"].get("listeners", [])
    return [one["bootstrapServers"] for one in listeners]


def test_an_address_is_certified_and_then_advertised(bench: Any) -> None:
    found: dict[str, Any] = {}

    async def scenario() -> None:
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster(listeners=[BALANCED])
            await bench.clock.advance(1)
            await bench.start_brokers()
            await bench.live(3)
            found["without"] = (advertised(bench, 2), bootstrap(bench))
            await give_addresses(bench, "192.0.2")
            await bench.live(1)
            found["certified"] = certified(bench, 2)
            await bench.live(3)
            found["first"] = (advertised(bench, 2), bootstrap(bench))
            await give_addresses(bench, "198.51.100")
            await bench.live(3)
            found["moved"] = (advertised(bench, 2), bootstrap(bench))
            found["certified again"] = certified(bench, 2)

    bench.run(scenario())
    assert found["without"] == ("", [])
    assert found["certified"] == {"192.0.2.2", "192.0.2.100"}
    assert found["first"] == ("192.0.2.2", ["192.0.2.100:9094"])
    assert found["moved"] == ("198.51.100.2", ["198.51.100.100:9094"])
    assert found["certified again"] >= {"198.51.100.2", "198.51.100.100"}


def test_with_processes_that_have_an_older_certificate_it_takes_longer(bench: Any) -> None:
    """A kubelet must first update the files in the pods, and these brokers report nothing."""
    found: dict[str, Any] = {}
    limit_s = IN_PODS_WITHIN.total_seconds()

    async def scenario() -> None:
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster(listeners=[BALANCED])
            await bench.clock.advance(3)
            await run_pods(bench)
            await bench.start_brokers()
            await bench.live(9)
            found["without"] = bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)
            await give_addresses(bench, "192.0.2")
            await bench.live(limit_s - 10)
            found["certified"] = certified(bench, 2)
            found["waits"] = advertised(bench, 2), bootstrap(bench)
            found["still"] = bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)
            await bench.live(RESYNC_S + 20)
            found["later"] = advertised(bench, 2), bootstrap(bench)
            found["ready"] = bench.ready(kinds.BROKER_CLUSTERS, CLUSTER)

    bench.run(scenario())
    assert found["without"] == found["still"] == ("False", "LoadBalancerPending")
    assert found["certified"] == {"192.0.2.2", "192.0.2.100"}
    assert found["waits"] == ("", [])
    assert found["later"] == ("192.0.2.2", ["192.0.2.100:9094"])
    assert found["ready"] == ("True", "Ready")


def test_brokers_that_report_the_new_certificate_advertise_the_address_at_once(bench: Any) -> None:
    found: dict[str, Any] = {}

    async def report() -> None:
        for number in (1, 2, 3):
            (shown,) = certificates(bench, "demo-broker-certs", f"{number}.crt")
            reported = {"listener": "lb", "fingerprint": shown.fingerprint(SHA256()).hex()}
            await bench.brokers[number]._patch_status({"listenerCertificates": [reported]})

    async def scenario() -> None:
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster(listeners=[BALANCED])
            await bench.clock.advance(3)
            await run_pods(bench)
            await bench.start_brokers()
            await bench.live(3)
            await report()
            await give_addresses(bench, "192.0.2")
            await bench.live(9)
            found["certified"] = certified(bench, 2)
            found["waits"] = advertised(bench, 2), bootstrap(bench)
            await report()
            await bench.live(3)
            found["reported"] = advertised(bench, 2), bootstrap(bench)

    bench.run(scenario())
    assert found["certified"] == {"192.0.2.2", "192.0.2.100"}
    assert found["waits"] == ("", [])
    assert found["reported"] == ("192.0.2.2", ["192.0.2.100:9094"])


def test_what_a_listener_and_a_broker_leave_behind_goes(bench: Any, shell: Shell) -> None:
    seen: list[set[tuple[str, str]]] = []

    def outside() -> set[tuple[str, str]]:
        found = [*bench.api.all_of(kinds.SERVICES), *bench.api.all_of(kinds.INGRESSES)]
        pairs = {(one["kind"], one["metadata"]["name"]) for one in found}
        return {(kind, name.removeprefix("demo-")) for kind, name in pairs if "-ext" in name}

    async def scenario() -> None:
        cluster = await shell.cluster(listeners=[BALANCED, ROUTED])
        brokers = {number: broker(number, retired=False) for number in IDS}
        await shell.apply(cluster, IDS, brokers)
        seen.append(outside())
        last = IDS[-1]
        brokers[last] = broker(last, retired=True)
        await shell.apply(cluster, IDS[:-1], brokers)
        seen.append(outside())
        left = replace(cluster.spec, listeners=cluster.spec.listeners[1:])
        await shell.apply(replace(cluster, spec=left), IDS[:-1], brokers)
        seen.append(outside())

    bench.run(scenario())
    routed = {(kind, f"sni-ext{end}") for kind in ("Service", "Ingress") for end in ("", "-1")}
    balanced = {("Service", f"lb-ext{end}") for end in ("", "-1")}
    second = {("Service", "lb-ext-2"), ("Service", "sni-ext-2"), ("Ingress", "sni-ext-2")}
    assert seen == [routed | balanced | second, routed | balanced, routed]


def test_another_class_is_refused_with_what_to_do(bench: Any, shell: Shell) -> None:
    why = "Service is invalid: spec.loadBalancerClass: Invalid value: null: may not change once set"

    async def scenario() -> tuple[str, ...]:
        bench.api.fault = lambda call: Invalid(why) if call.name == "demo-lb-ext" else None
        return (await shell.apply(await shell.cluster(listeners=[BALANCED]))).problems

    (problem,) = bench.run(scenario())
    assert problem.startswith("Service demo-lb-ext is refused")
    assert "Give the listener another name, or delete the Service" in problem


def test_a_service_of_somebody_else_is_not_advertised(bench: Any) -> None:
    """Although it has the name and the label by which the operator finds its own."""
    theirs = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "demo-lb-ext-2",
            "namespace": NAMESPACE,
            "labels": {labels.CLUSTER: CLUSTER},
        },
        "spec": {"type": "LoadBalancer"},
        "status": {"loadBalancer": {"ingress": [{"ip": "203.0.113.66"}]}},
    }

    async def scenario() -> None:
        await bench.api.create(kinds.SERVICES, theirs, field_manager="them")
        async with bench.running():
            await prepare(bench)
            await bench.apply_cluster(listeners=[{**BALANCED, "tls": False}])
            await bench.clock.advance(1)
            await bench.start_brokers()
            await bench.live(3)
            await give_addresses(bench, "192.0.2")
            await bench.live(3)

    bench.run(scenario())
    assert (advertised(bench, 1), advertised(bench, 2)) == ("192.0.2.1", "")
    assert bench.one(kinds.SERVICES, "demo-lb-ext-2")["spec"] == theirs["spec"]
