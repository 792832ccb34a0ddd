"""What Argo CD and Flux make of the state of our kinds, by their own languages.

Argo CD runs Lua 5.1 (in Go); here it is PUC's. Flux runs CEL (cel-go); here it is Google's for
C++. The conditions are those that the operator writes: the last tests hold every word that the
checks compare against the sources.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lupa.lua51
import pytest
import yaml
from cel_expr_python import cel

from charts.tests.files import CHARTS, CHECKOUT, MONITORING, OPERATOR, by_kind, manifests, render
from chiplog_core.naming import api
from e2e.cluster import build
from e2e.cluster.shell import run

GITOPS = CHECKOUT / "examples" / "gitops"
KINDS = ("BrokerCluster", "Topic", "ConsumerGroup", "Verification", "Rebalance")
FLUX = {"Healthy": "Current", "Progressing": "InProgress", "Degraded": "Failed"}
"""Flux knows no Suspended: nobody should wait for what waits for a person."""

REFUSED = ("InvalidConfig", "NotSupported", "ResourceConflict", "InternalError")


@dataclass(frozen=True, slots=True)
class Case:
    """A state of an object, and what Argo CD is to call it."""

    kind: str
    expected: str
    conditions: Mapping[str, str]
    """By type: the status, for False with the reason behind a colon."""
    status: Mapping[str, Any] | None = None
    spec: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        words = [f"{name}-{value}" for name, value in self.conditions.items()]
        more = [f"{name}-{value}" for name, value in {**(self.status or {})}.items()]
        return "-".join([self.kind, *words, *more, self.expected])

    def manifest(self, *, observed: int = 7) -> dict[str, Any]:
        conditions = []
        for name, value in self.conditions.items():
            status, _, reason = value.partition(":")
            one = {"type": name, "status": status, "reason": reason or name, "message": value}
            conditions.append({**one, "observedGeneration": observed})
        return {
            "apiVersion": api.API_VERSION,
            "kind": self.kind,
            "metadata": {"name": "a", "namespace": "b", "generation": 7},
            "spec": {"clusterRef": {"name": "demo"}, **(self.spec or {})},
            "status": {
                "observedGeneration": observed,
                "conditions": conditions,
                **(self.status or {}),
            },
        }


WHOLE = {"Ready": "True", "Healthy": "True", "ConfigurationApplied": "True"}
PAUSED = {"ReconciliationPaused": "True"}
SCHEDULE = {"schedule": "0 3 * * 0"}


def cases() -> Iterator[Case]:
    yield from of_clusters()
    yield from of_topics()
    yield from of_groups()
    yield from of_verifications()
    yield from of_rebalances()
    for kind in KINDS:
        yield Case(kind, "Progressing", {"Ready": "Unknown"})
        if kind != "Rebalance":
            for reason in REFUSED:
                yield Case(kind, "Degraded", {**WHOLE, "Ready": f"False:{reason}"})
            yield Case(kind, "Suspended", {"Ready": "False:Paused", **PAUSED})
            yield Case(kind, "Degraded", {"Ready": "False:InvalidConfig", **PAUSED})


def of_clusters() -> Iterator[Case]:
    kind = "BrokerCluster"
    yield Case(kind, "Healthy", WHOLE)
    yield Case(kind, "Healthy", {**WHOLE, "Quiesced": "False:Electing", "Stable": "False:Electing"})
    yield Case(kind, "Progressing", {**WHOLE, "Ready": "False:BrokersNotReady"})
    yield Case(kind, "Progressing", {**WHOLE, "Healthy": "False:UnderReplicated"})
    yield Case(kind, "Degraded", {**WHOLE, "Healthy": "False:PartitionsOffline"})
    yield Case(kind, "Progressing", {**WHOLE, "ConfigurationApplied": "False:Restarting"})
    yield Case(kind, "Degraded", {**WHOLE, "ConfigurationApplied": "False:RestartBlocked"})
    unreadable = "Unknown:PartitionMapUnreadable"
    yield Case(kind, "Degraded", {**WHOLE, "ConfigurationApplied": unreadable})
    yield Case(kind, "Suspended", {**WHOLE, **PAUSED})
    for reason in ("WaitingForWindow", "WaitingForApproval", "UnderMaintenance"):
        applied = {"ConfigurationApplied": f"False:{reason}"}
        yield Case(kind, "Suspended", {**WHOLE, **applied})
        yield Case(kind, "Progressing", {**WHOLE, **applied, "Healthy": "False:UnderReplicated"})
    for reason in ("FailedApply", "BrokerUnreadable"):
        yield Case(kind, "Degraded", {**WHOLE, "Ready": f"False:{reason}"})
    for bad in ("MetadataRegressed", "DiskPressure"):
        yield Case(kind, "Degraded", {**WHOLE, bad: "True"})
        yield Case(kind, "Healthy", {**WHOLE, bad: "False"})


def of_topics() -> Iterator[Case]:
    kind = "Topic"
    yield Case(kind, "Healthy", {"Ready": "True", "Warning": "True"})
    for reason in ("WaitingForBrokers", "WaitingForCluster", "WaitingForDeletion"):
        yield Case(kind, "Progressing", {"Ready": f"False:{reason}"})
    yield Case(kind, "Progressing", {"Ready": "False:ClusterNotFound"})
    yield Case(kind, "Suspended", {"Ready": "False:Paused"})
    yield Case(kind, "Suspended", {"Ready": "False:Unmanaged", "Unmanaged": "True"})
    for reason in ("RecordsAtRisk", "PartitionsOffline", "MetadataMissing"):
        yield Case(kind, "Degraded", {"Ready": f"False:{reason}"})
    for bad in ("MetadataRegressed", "ReplicasDamaged"):
        yield Case(kind, "Degraded", {"Ready": "True", bad: "True"})


def of_groups() -> Iterator[Case]:
    kind = "ConsumerGroup"
    yield Case(kind, "Healthy", {"Ready": "True"})
    yield Case(kind, "Healthy", {"Ready": "True", "LagWithinObjective": "False:LagTooLarge"})
    for reason in ("Pending", "CoordinatorNotAvailable", "ClusterNotFound"):
        yield Case(kind, "Progressing", {"Ready": f"False:{reason}"})


def of_verifications() -> Iterator[Case]:
    kind, good = "Verification", {"Ready": "True", "Verified": "True"}
    yield Case(kind, "Healthy", good, {"phase": "Succeeded"})
    yield Case(kind, "Degraded", {"Ready": "True", "Verified": "False"}, {"phase": "Succeeded"})
    yield Case(kind, "Degraded", {"Ready": "False:SparkFailed"}, {"phase": "Failed"})
    yield Case(kind, "Degraded", {"Ready": "False:SparkFailed"}, {"phase": "Failed"}, SCHEDULE)
    yield Case(kind, "Suspended", {"Ready": "False:Suspended"}, {"phase": "Waiting"}, SCHEDULE)
    for reason in ("ClusterSettings", "NoImage"):
        yield Case(kind, "Degraded", {"Ready": f"False:{reason}"}, {"phase": "Waiting"}, SCHEDULE)
    for reason in ("Running", "Pending"):
        under_way = {**good, "Ready": f"False:{reason}"}
        yield Case(kind, "Progressing", under_way, {"phase": reason})
        yield Case(kind, "Healthy", under_way, {"phase": reason}, SCHEDULE)
    yield Case(kind, "Progressing", {"Ready": "False:ClusterNotFound"}, {"phase": "Waiting"})
    yield Case(kind, "Healthy", {"Ready": "False:Scheduled"}, {"phase": "Waiting"}, SCHEDULE)


def of_rebalances() -> Iterator[Case]:
    kind = "Rebalance"
    expected = {
        "New": "Progressing",
        "PendingProposal": "Progressing",
        "ProposalReady": "Suspended",
        "Rebalancing": "Progressing",
        "Stopped": "Suspended",
        "NotReady": "Degraded",
        "ReconciliationPaused": "Suspended",
    }
    for state, health in expected.items():
        yield Case(kind, health, {"Ready": f"False:{state}", state: "True"}, {"state": state})
    yield Case(kind, "Healthy", {"Ready": "True"}, {"state": "Ready"})


CASES = tuple(cases())


# ---- Argo CD ----


def lua_of(kind: str) -> str:
    (config,) = manifests((GITOPS / "argocd" / "argocd-cm.yaml").read_text())
    found = config["data"][f"resource.customizations.health.{api.GROUP}_{kind}"]
    assert isinstance(found, str)
    return found


def argo(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """(status, message) as Argo CD shows them."""
    lua = lupa.lua51.LuaRuntime(unpack_returned_tuples=True, register_eval=False)
    lua.globals()["obj"] = lua.table_from(manifest, recursive=True)
    told = lua.execute(lua_of(manifest["kind"]))
    return told["status"], told["message"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_argo_cd_calls_it_by_its_name(case: Case) -> None:
    status, message = argo(case.manifest())
    assert status == case.expected
    ready = case.conditions.get("Ready", "")
    if status == "Degraded" and ready.startswith("False"):
        assert message == ready, "the condition's own words"


@pytest.mark.parametrize("kind", KINDS)
def test_argo_cd_waits_until_the_newest_spec_was_seen(kind: str) -> None:
    for case in CASES:
        if case.kind == kind:
            status, message = argo(case.manifest(observed=6))
            assert (status, "newest spec" in message) == ("Progressing", True)
    unseen = {key: one for key, one in CASES[0].manifest().items() if key != "status"}
    assert argo({**unseen, "kind": kind})[0] == "Progressing"
    assert argo({**unseen, "kind": kind, "status": {}})[0] == "Progressing"


# ---- Flux ----


def health_checks() -> dict[str, dict[str, str]]:
    (patch,) = manifests((GITOPS / "flux" / "health.yaml").read_text())
    found: list[dict[str, str]] = patch["spec"]["healthCheckExprs"]
    assert {one["apiVersion"] for one in found} == {api.API_VERSION}
    return {one["kind"]: one for one in found}


def cel_says(expression: str, manifest: Mapping[str, Any]) -> bool:
    """Raises where it is no expression, or has no answer."""
    names = ("apiVersion", "kind", "metadata", "spec", "status")
    environment = cel.NewEnv(variables=dict.fromkeys(names, cel.Type.DYN))
    found = environment.compile(expression).eval(data=dict(manifest))
    assert found.type() == cel.Type.BOOL, found.value()
    return bool(found.value())


def flux(manifest: Mapping[str, Any]) -> str:
    """In Flux's own order: the generation, inProgress, failed, current."""
    if manifest["status"].get("observedGeneration") != manifest["metadata"]["generation"]:
        return "InProgress"
    checks = health_checks()[manifest["kind"]]
    assert set(checks) <= {"apiVersion", "kind", "failed", "current"}
    if cel_says(checks["failed"], manifest):
        return "Failed"
    return "Current" if cel_says(checks["current"], manifest) else "InProgress"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_flux_agrees_with_argo_cd(case: Case) -> None:
    assert flux(case.manifest()) == FLUX.get(case.expected, "Current")


@pytest.mark.parametrize("kind", KINDS)
def test_flux_waits_where_nothing_is_told_yet(kind: str) -> None:
    about = {"apiVersion": api.API_VERSION, "kind": kind, "spec": {}}
    nothing = {**about, "metadata": {"generation": 1}, "status": {"observedGeneration": 1}}
    assert flux(nothing) == "InProgress"


# ---- both ----


def test_every_kind_of_users_has_its_checks() -> None:
    assert set(health_checks()) == set(KINDS) == {case.kind for case in CASES}


@pytest.mark.parametrize("kind", KINDS)
def test_every_word_that_is_compared_is_one_the_operator_writes(kind: str) -> None:
    """A reason that is renamed would turn into patience."""
    parts = ("core/chiplog_core", "operator/chiplog_operator")
    sources = [path for part in parts for path in (CHECKOUT / part).rglob("*.py")]
    written = set(re.findall(r'"([A-Za-z]+)"', "\n".join(path.read_text() for path in sources)))
    lua = re.sub(r"--.*", "", lua_of(kind))
    of_argo = set(re.findall(r'"([A-Z][A-Za-z]+)"|\b([A-Z][A-Za-z]+) =', lua))
    words = {one or other for one, other in of_argo}
    words |= set(re.findall(r"'([A-Z][A-Za-z]+)'", str(health_checks()[kind])))
    words -= {"Healthy", "Progressing", "Degraded", "Suspended"}
    assert words
    assert words <= written


def test_the_layouts_name_charts_and_files_that_there_are() -> None:
    named = set()
    for path in GITOPS.rglob("*.yaml"):
        text = path.read_text()
        assert manifests(text), path
        named |= set(re.findall(r"charts/[-./a-z]+", text))
        for layer in re.findall(r"path: \./(examples/gitops/[-/a-z]+)", text):
            assert (CHECKOUT / layer).is_dir(), layer
    assert {CHECKOUT / one for one in named} >= {
        CHARTS / f"chiplog-{name}" for name in ("operator", "cluster", "monitoring")
    }
    for one in named:
        assert (CHECKOUT / one).exists(), one
    environments = {
        path.stem for path in (CHARTS / "chiplog-cluster/examples/environments").iterdir()
    }
    (applications,) = manifests((GITOPS / "argocd" / "clusters.yaml").read_text())
    (generator,) = applications["spec"]["generators"]
    listed = {one["environment"] for one in generator["list"]["elements"]}
    assert listed == environments - {"common"}
    assert {path.name for path in (GITOPS / "flux").iterdir() if path.is_dir()} >= listed


def test_no_layout_prunes_a_namespace() -> None:
    """With one goes what others have put into it, and the brokers' volumes."""
    found = [one for path in GITOPS.rglob("*.yaml") for one in manifests(path.read_text())]
    namespaces = by_kind(found, "Namespace")
    assert {one["metadata"]["name"] for one in namespaces} >= {"monitoring", "chiplog-system"}
    for one in namespaces:
        annotations = one["metadata"]["annotations"]
        assert annotations["kustomize.toolkit.fluxcd.io/prune"] == "disabled"


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_a_prometheus_that_chooses_by_release_takes_the_alerts_of_both_layouts(
    tmp_path: Path,
) -> None:
    """kube-prometheus-stack does, unless it is told otherwise."""
    (argo_cd,) = manifests((GITOPS / "argocd" / "monitoring.yaml").read_text())
    (release,) = manifests((GITOPS / "flux" / "monitoring" / "release.yaml").read_text())
    for values in (argo_cd["spec"]["source"]["helm"]["valuesObject"], release["spec"]["values"]):
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        found = manifests(render(build.program("helm"), MONITORING, "--values", str(file)))
        chosen = by_kind(found, "PrometheusRule") + by_kind(found, "PodMonitor")
        assert chosen
        for one in chosen:
            assert one["metadata"]["labels"]["release"] == "kube-prometheus-stack"


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_the_operators_values_of_both_layouts_say_which_namespaces(tmp_path: Path) -> None:
    (argo_cd,) = manifests((GITOPS / "argocd" / "operator.yaml").read_text())
    (release,) = manifests((GITOPS / "flux" / "operator" / "release.yaml").read_text())
    for values in (argo_cd["spec"]["source"]["helm"]["valuesObject"], release["spec"]["values"]):
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        helm = str(build.program("helm"))
        said = run(helm, "template", "chiplog", str(OPERATOR), "--values", str(file))
        assert by_kind(manifests(said), "Deployment")


@pytest.mark.cluster
@pytest.mark.timeout(900)
def test_flux_asks_the_health_of_every_environment() -> None:
    built = manifests(run(str(build.program("kubectl")), "kustomize", str(GITOPS / "flux")))
    layers = {one["metadata"]["name"]: one for one in built if one["kind"] == "Kustomization"}
    asked = {name for name, one in layers.items() if "healthCheckExprs" in one["spec"]}
    assert asked == {f"chiplog-{name}" for name in ("dev", "staging", "production")}
    for name in asked:
        exprs = layers[name]["spec"]["healthCheckExprs"]
        assert exprs == list(health_checks().values())
        assert {one["kind"] for one in layers[name]["spec"]["healthChecks"]} <= {
            *KINDS,
            "HelmRelease",
        }
        assert layers[name]["spec"]["dependsOn"] == [{"name": "chiplog-operator"}]
