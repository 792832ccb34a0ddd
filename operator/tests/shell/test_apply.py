"""Objects made from a BrokerCluster: made once, mended, and removed only when that is safe."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import Broker, BrokerIntent, BrokerSpec
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.metadata import Metadata
from chiplog_core.model.network_policy import NetworkPolicySettings
from chiplog_core.naming import labels
from chiplog_core.quantities import Quantity
from chiplog_kube import kinds
from chiplog_kube.api import Forbidden, Unavailable
from chiplog_kube.kinds import Kind
from chiplog_operator.apply import TAKE_BACK_AGAIN_S, Applied, Applier
from chiplog_operator.caches import LABELLED_KINDS, Caches
from chiplog_operator.resources import build
from chiplog_operator.writes import NotActive

IDS = (BrokerId(1), BrokerId(2))
CREATE_SERVICE = ("create", "Service")
STRANGER = {
    "metadata": {"namespace": "shop", "name": "mine", "labels": {"chiplog.dev/cluster": "demo"}}
}
"""An object of somebody else, with a label of ours."""


class Deaf:
    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class Shell:
    """The applier with what it works on."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.caches = Caches(Deaf(), Deaf())
        self.applier = Applier(
            bench.api,
            self.caches,
            clock=bench.clock,
            authority=bench.authority,
            broker_image="chiplog/broker:1",
            operator_namespace="chiplog-system",
        )

    async def cluster(self, **spec: Any) -> BrokerCluster:
        return BrokerCluster.from_manifest(await self.bench.apply_cluster(2, **spec))

    async def apply(self, cluster: BrokerCluster, ids: Any = IDS, brokers: Any = None) -> Applied:
        await self.look()
        applied = await self.applier.apply(cluster, ids, brokers or {})
        await self.look()
        return applied

    async def look(self) -> None:
        """As the watches would."""
        for kind in LABELLED_KINDS:
            found = await self.bench.api.list_(kind, labels=labels.CLUSTER)
            self.caches[kind].replace(found)

    async def writes_of_a_second_time(self, cluster: BrokerCluster) -> list[str]:
        self.bench.api.calls.clear()
        applied = await self.apply(cluster)
        assert (applied.problems, applied.is_unfinished) == ((), False)
        return [f"{call.verb} {call.kind} {call.name}" for call in self.bench.api.writes()]


@pytest.fixture
def shell(bench: Any) -> Shell:
    return Shell(bench)


def test_everything_is_made_once(bench: Any, shell: Shell) -> None:
    async def scenario() -> list[str]:
        cluster = await shell.cluster()
        assert await shell.apply(cluster) == Applied()
        return await shell.writes_of_a_second_time(cluster)

    assert bench.run(scenario()) == []
    assert len(bench.api.all_of(kinds.STATEFUL_SETS)) == 2
    assert len(bench.api.all_of(kinds.LEASES)) == 2


def test_a_new_operator_finds_what_the_old_one_made(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        before = bench.one(kinds.SECRETS, "demo-internal")
        another = Shell(bench)
        await another.apply(cluster)
        assert bench.one(kinds.SECRETS, "demo-internal") == before

    bench.run(scenario())


def test_each_cluster_has_a_password_of_its_own(bench: Any, shell: Shell) -> None:
    bench.run(shell.apply(bench.run(shell.cluster())))
    data = bench.one(kinds.SECRETS, "demo-internal")["data"]
    assert len(base64.b64decode(data["password"])) >= 32


def test_a_change_of_the_spec_changes_only_what_follows_from_it(bench: Any, shell: Shell) -> None:
    async def scenario() -> list[str]:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        template = replace(cluster.spec, termination_grace_period_seconds=99)
        return await shell.writes_of_a_second_time(replace(cluster, spec=template))

    writes = bench.run(scenario())
    assert writes == [
        "apply StatefulSet demo-broker-1",
        "apply StatefulSet demo-broker-2",
    ]


def test_manifests_are_built_anew_only_for_another_cluster(
    bench: Any, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Most looks at a cluster find it as it was."""
    built = []
    original = build.manifests

    def counted(*given: Any) -> list[Any]:
        built.append(given)
        return original(*given)

    monkeypatch.setattr(build, "manifests", counted)

    async def scenario() -> tuple[int, int, int]:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        told = replace(cluster.status, observed_generation=7)
        who = replace(cluster.metadata, resource_version="77")
        await shell.apply(replace(cluster, metadata=who, status=told))
        once = len(built)
        await shell.apply(cluster, (*IDS, BrokerId(3)))
        larger = len(built)
        other = replace(cluster.spec, termination_grace_period_seconds=99)
        await shell.apply(replace(cluster, spec=other), (*IDS, BrokerId(3)))
        return once, larger, len(built)

    assert bench.run(scenario()) == (1, 2, 3)


CHANGES: dict[str, tuple[Kind, str, Any]] = {
    "another value": (
        kinds.SERVICES,
        "demo-kafka-brokers",
        {"spec": {"publishNotReadyAddresses": False}},
    ),
    "more than we said": (
        kinds.SERVICES,
        "demo-kafka-brokers",
        {"spec": {"selector": {"app": "another"}}},
    ),
    "data": (kinds.CONFIG_MAPS, "demo-broker-config", {"data": {"server.properties": ""}}),
    "a label": (
        kinds.SERVICES,
        "demo-kafka-bootstrap",
        {"metadata": {"labels": {labels.CLUSTER: "other"}}},
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_by_hand_is_taken_back(bench: Any, shell: Shell, change: Any) -> None:
    """But not at once again, should somebody insist."""
    kind, name, patch = change

    async def scenario() -> tuple[list[str], list[str], list[str]]:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        await bench.api.patch(kind, "shop", name, patch, field_manager="kubectl")
        assert (await shell.apply(cluster)).requeue_after_s == TAKE_BACK_AGAIN_S
        max_concurrent = await shell.writes_of_a_second_time(cluster)
        bench.clock.jump(TAKE_BACK_AGAIN_S + 1)
        soon = await shell.writes_of_a_second_time(cluster)
        bench.clock.jump(TAKE_BACK_AGAIN_S + 1)
        return max_concurrent, soon, await shell.writes_of_a_second_time(cluster)

    made = f"apply {kind.kind} {name}"
    assert bench.run(scenario()) == ([], [made], [])


def test_a_lease_is_the_brokers_to_write(bench: Any, shell: Shell) -> None:
    async def scenario() -> list[str]:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        renewed = {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}
        await bench.api.patch(kinds.LEASES, "shop", "demo-1", renewed, field_manager="broker")
        bench.clock.jump(TAKE_BACK_AGAIN_S + 1)
        return await shell.writes_of_a_second_time(cluster)

    assert bench.run(scenario()) == []


def test_a_larger_volume_makes_the_stateful_set_anew_around_its_pod(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        storage = replace(cluster.spec.storage, size=Quantity("2Gi"))
        larger = replace(cluster, spec=replace(cluster.spec, storage=storage))
        bench.api.calls.clear()
        assert (await shell.apply(larger)).is_unfinished
        verbs = {call.verb for call in bench.api.writes()}
        assert verbs == {"orphan"}
        assert await shell.apply(larger) == Applied()

    bench.run(scenario())
    (claim,) = bench.one(kinds.STATEFUL_SETS, "demo-broker-1")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"


def claim(size: str, phase: str = "Bound") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "shop",
            "name": "data-demo-broker-1-0",
            "labels": {"chiplog.dev/cluster": "demo", "chiplog.dev/broker-id": "1"},
        },
        "spec": {"resources": {"requests": {"storage": size}}},
        "status": {"phase": phase},
    }


@pytest.mark.parametrize(
    ("size", "phase", "expected"),
    [("512Mi", "Bound", "1Gi"), ("2Gi", "Bound", "2Gi"), ("512Mi", "Pending", "512Mi")],
)
def test_a_claim_grows_and_never_shrinks(
    bench: Any, shell: Shell, size: str, phase: str, expected: str
) -> None:
    async def scenario() -> None:
        await bench.api.create(kinds.VOLUME_CLAIMS, claim(size, phase), field_manager="k")
        await shell.apply(await shell.cluster())

    bench.run(scenario())
    (found,) = bench.api.all_of(kinds.VOLUME_CLAIMS)
    assert found["spec"]["resources"]["requests"]["storage"] == expected


def broker(number: int, *, retired: bool) -> Broker:
    return Broker(
        metadata=Metadata(name=f"demo-{number}", namespace="shop"),
        spec=BrokerSpec(
            cluster="demo",
            cluster_id="c",
            broker_id=BrokerId(number),
            intent=BrokerIntent.SERVE,
            retired=retired,
        ),
    )


@pytest.mark.parametrize("retired", [False, True])
def test_a_brokers_objects_go_only_when_it_is_retired(
    bench: Any, shell: Shell, retired: bool
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        await bench.api.create(kinds.VOLUME_CLAIMS, claim("1Gi"), field_manager="k")
        await shell.apply(cluster)
        brokers = {BrokerId(2): broker(2, retired=retired)}
        await shell.apply(cluster, IDS[:1], brokers)

    bench.run(scenario())
    assert len(bench.api.all_of(kinds.STATEFUL_SETS)) == (1 if retired else 2)
    assert len(bench.api.all_of(kinds.VOLUME_CLAIMS)) == 1


def test_a_forgotten_broker_is_not_stopped(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        await shell.apply(cluster, (), {})

    bench.run(scenario())
    assert len(bench.api.all_of(kinds.STATEFUL_SETS)) == 2


def test_what_is_not_ours_is_left_alone(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await bench.api.create(kinds.CONFIG_MAPS, STRANGER, field_manager="kubectl")
        await shell.apply(await shell.cluster())

    bench.run(scenario())
    assert bench.one(kinds.CONFIG_MAPS, "mine")


def test_an_external_listener_taken_away_takes_its_services(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        listeners = [
            {"name": "plain", "type": "internal", "port": 9092},
            {"name": "external", "type": "nodeport", "port": 9094},
        ]
        cluster = await shell.cluster(listeners=listeners)
        await shell.apply(cluster)
        assert bench.one(kinds.SERVICES, "demo-broker-2-external")
        inside = replace(cluster.spec, listeners=cluster.spec.listeners[:1])
        brokers = {number: broker(number, retired=False) for number in IDS}
        await shell.apply(replace(cluster, spec=inside), IDS, brokers)

    bench.run(scenario())
    names = [one["metadata"]["name"] for one in bench.api.all_of(kinds.SERVICES)]
    assert names == ["demo-kafka-bootstrap", "demo-kafka-brokers"]


def test_the_network_policy_is_repaired_and_goes_when_it_is_turned_off(
    bench: Any, shell: Shell
) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        await shell.apply(cluster)
        (made,) = bench.api.all_of(kinds.NETWORK_POLICIES)
        name = made["metadata"]["name"]
        opened = {"metadata": {"annotations": None}, "spec": {"ingress": [{}]}}
        await bench.api.patch(kinds.NETWORK_POLICIES, "shop", name, opened, field_manager="kubectl")
        assert await shell.writes_of_a_second_time(cluster) == [f"apply NetworkPolicy {name}"]
        (mended,) = bench.api.all_of(kinds.NETWORK_POLICIES)
        assert mended["spec"] == made["spec"]
        without = replace(cluster.spec, network_policy=NetworkPolicySettings(enabled=False))
        await shell.apply(replace(cluster, spec=without))
        assert bench.api.all_of(kinds.NETWORK_POLICIES) == []
        await shell.apply(cluster)
        assert bench.one(kinds.NETWORK_POLICIES, name)["spec"] == made["spec"]

    bench.run(scenario())


def test_a_network_policy_of_somebody_else_stays(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        await bench.api.create(kinds.NETWORK_POLICIES, STRANGER, field_manager="kubectl")
        cluster = await shell.cluster(networkPolicy={"enabled": False})
        await shell.apply(cluster)

    bench.run(scenario())
    (left,) = bench.api.all_of(kinds.NETWORK_POLICIES)
    assert left["metadata"]["name"] == "mine"


def test_a_refusal_is_told_and_no_answer_is_tried_again(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        bench.api.fault = lambda call: (
            Forbidden("exceeded quota") if (call.verb, call.kind) == CREATE_SERVICE else None
        )
        applied = await shell.apply(cluster)
        assert any("exceeded quota" in problem for problem in applied.problems)
        bench.api.fault = lambda call: Unavailable("?") if call.verb == "create" else None
        assert await shell.apply(cluster) == Applied((), is_unfinished=True)
        bench.api.fault = lambda _: None
        assert await shell.apply(cluster) == Applied()

    bench.run(scenario())


def test_a_namespace_that_ends_is_not_argued_with(bench: Any, shell: Shell) -> None:
    async def scenario() -> Applied:
        cluster = await shell.cluster()
        said = "unable to create new content in namespace shop because it is being terminated"
        bench.api.fault = lambda call: Forbidden(said) if call.verb == "create" else None
        return await shell.apply(cluster)

    assert bench.run(scenario()) == Applied((), is_unfinished=True)


def test_nothing_runs_on_after_the_lease_is_lost(bench: Any, shell: Shell) -> None:
    async def scenario() -> None:
        cluster = await shell.cluster()
        bench.authority.held = False
        with pytest.raises(NotActive):
            await shell.apply(cluster)

    bench.run(scenario())
    assert bench.api.all_of(kinds.CONFIG_MAPS) == []
