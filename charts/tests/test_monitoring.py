"""The chart chiplog-monitoring as Helm renders it. Needs the program helm, and no cluster."""

import json
import re
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import pytest
import yaml

from charts.tests.files import MONITORING, OPERATOR, Manifest, by_kind, manifests, render
from charts.tests.rules import ALERTS, LIST, RULES, RUNBOOKS
from chiplog_core.ids import BrokerId
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_operator.resources.pod import pod_template
from chiplog_operator.resources.settings import BuildSettings
from e2e.cluster import tools
from e2e.cluster.shell import run

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SCRAPE = MONITORING / "scrape.yaml"
DASHBOARDS = sorted((MONITORING / "dashboards").glob("*.json"))
FENCED = re.MULTILINE | re.DOTALL
OFF = {"NoMessageForTooLong", "UnderReplicatedPartition"}


@pytest.fixture(scope="module")
def helm() -> Path:
    return tools.program("helm")


def rendered(helm: Path, *arguments: str, **values: object) -> list[Manifest]:
    given = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
    return manifests(render(helm, MONITORING, *given, *arguments, "--namespace", "watch"))


def rules_of(found: list[Manifest]) -> dict[str, dict[str, Any]]:
    """By alert."""
    return {
        rule["alert"]: rule
        for one in by_kind(found, "PrometheusRule")
        for group in one["spec"]["groups"]
        for rule in group["rules"]
    }


def refused(helm: Path, **values: object) -> str:
    with pytest.raises(CalledProcessError) as failed:
        rendered(helm, **values)
    return str(failed.value.stderr)


def test_lint_finds_nothing_and_the_notes_can_be_written(helm: Path) -> None:
    for values in ("{}", '{"enabled":false}'):
        settings = ("--set-json", f"podMonitors.brokers={values}")
        said = run(str(helm), "lint", "--strict", str(MONITORING), *settings)
        assert "0 chart(s) failed" in said


# ---- rules ----


def test_the_chart_gives_the_rules_as_they_are_tested(helm: Path) -> None:
    found = rendered(helm, runbooks="https://r.example/{alert}/", labels={"release": "prometheus"})
    made = {one["metadata"]["name"]: one for one in by_kind(found, "PrometheusRule")}
    assert set(made) == {f"chiplog-{path.stem}" for path in RULES} - {"chiplog-optional"}
    for path in RULES:
        if path.stem == "optional":
            continue
        one = made[f"chiplog-{path.stem}"]
        text = re.sub(r"docs/runbooks/(\w+)\.md", r"https://r.example/\1/", path.read_text())
        assert one["spec"] == yaml.safe_load(text)
        assert one["metadata"]["namespace"] == "watch"
        assert one["metadata"]["labels"]["release"] == "prometheus"


def test_a_runbook_url_is_absolute_or_absent(helm: Path) -> None:
    for rule in rules_of(rendered(helm)).values():
        assert "runbook_url" not in rule["annotations"]
        assert rule["annotations"]["summary"]
    for wrong in ("docs/runbooks/{alert}.md", "runbooks.example.org/{alert}", "ftp://x/{alert}"):
        with pytest.raises(CalledProcessError) as failed:
            rendered(helm, runbooks=wrong)
        assert "/runbooks" in str(failed.value.stderr)


def test_what_is_off_can_be_switched_on_and_the_rest_off(helm: Path) -> None:
    every = {rule["alert"] for _, rule in ALERTS}
    assert set(rules_of(rendered(helm))) == every - OFF
    turned = {name: {"enabled": name in OFF} for name in every}
    found = rendered(helm, alerts=turned)
    assert set(rules_of(found)) == OFF
    assert len(by_kind(found, "PrometheusRule")) == 1
    assert rules_of(rendered(helm, "--set", "rules.enabled=false")) == {}


def test_a_threshold_takes_the_place_of_the_number_at_the_end(helm: Path, tmp_path: Path) -> None:
    """Of whatever alert has one, and Prometheus takes what comes of it."""
    numbers = {
        rule["alert"]: rule["expr"]
        for _, rule in ALERTS
        if re.search(r"[<>] [0-9.]+$", rule["expr"])
    }
    assert {"KafkaRunningOutOfSpace", "TooLargeConsumerGroupLag"} <= set(numbers)
    for index, (wanted, value) in enumerate(((0.25, 0.25), (12_000_000, 1.2e7), (0, 0))):
        values = {name: {"threshold": wanted, "enabled": True} for name in numbers}
        rules = rules_of(rendered(helm, alerts=values))
        for name, expr in numbers.items():
            before, _, number = rules[name]["expr"].rpartition(" ")
            assert before == expr.rpartition(" ")[0]
            assert float(number) == value
        file = tmp_path / f"{index}.yaml"
        groups = [{"name": "all", "rules": list(rules.values())}]
        file.write_text(yaml.safe_dump({"groups": groups}))
        assert "SUCCESS" in run(str(tools.promtool()), "check", "rules", str(file))


def test_an_alert_can_be_other_in_every_way_and_the_others_stay(helm: Path) -> None:
    before = rules_of(rendered(helm))
    other = {"for": "30s", "severity": "page", "expr": "vector(1) > 0"}
    after = rules_of(rendered(helm, alerts={"OfflinePartitions": other}))
    changed = after.pop("OfflinePartitions")
    original = before.pop("OfflinePartitions")
    assert after == before
    assert changed == {
        **original,
        "for": "30s",
        "labels": {"severity": "page"},
        "expr": "vector(1) > 0",
    }


def test_an_expression_and_a_threshold_are_not_taken_together(helm: Path) -> None:
    """One of them would be forgotten without a word."""
    said = refused(helm, alerts={"OfflinePartitions": {"threshold": 5, "expr": "vector(1) > 0"}})
    assert "don't meet the specifications" in said
    assert "'/alerts/OfflinePartitions'" in said


def test_values_that_the_pages_show_are_taken(helm: Path, tmp_path: Path) -> None:
    shown = [
        block
        for page in (LIST, *RUNBOOKS.iterdir())
        for block in re.findall(r"^```yaml\n(alerts:\n.*?)^```", page.read_text(), FENCED)
    ]
    assert len(shown) == 2
    for block in shown:
        (tmp_path / "values.yaml").write_text(block)
        changed = yaml.safe_load(block)["alerts"]
        rules = rules_of(rendered(helm, "--values", str(tmp_path / "values.yaml")))
        for name, change in changed.items():
            assert (name in rules) is change.get("enabled", True)
            assert "for" not in change or rules[name]["for"] == change["for"]
            assert str(change.get("threshold", "")) in rules.get(name, {}).get("expr", "")


def test_a_mistake_in_the_values_is_refused(helm: Path) -> None:
    assert "no alert is called so" in refused(helm, alerts={"OfflinePartition": {"for": "1m"}})
    assert "this alert has none" in refused(helm, alerts={"ScrapeProblem": {"threshold": 1}})
    for wrong in ({"for": "1 minute"}, {"threshold": "many"}, {"thresholds": 1}):
        said = refused(helm, alerts={"OfflinePartitions": wrong})
        assert "don't meet the specifications" in said
    assert "namespace" in refused(helm, podMonitors={"brokers": {"namespace": "shop"}})


# ---- scraping ----


def monitors(found: list[Manifest]) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in by_kind(found, "PodMonitor")}


def scrape_jobs() -> dict[str, Any]:
    return {one["job_name"]: one for one in yaml.safe_load(SCRAPE.read_text())["scrape_configs"]}


def test_pod_monitors_look_everywhere_or_where_they_are_told(helm: Path) -> None:
    found = rendered(helm, labels={"release": "p"})
    assert set(monitors(found)) == {"chiplog-brokers", "chiplog-operator"}
    for one in by_kind(found, "PodMonitor"):
        assert one["metadata"]["labels"]["release"] == "p"
        assert one["spec"]["namespaceSelector"] == {"any": True}
    only = monitors(rendered(helm, podMonitors={"brokers": {"namespaces": ["a", "b"]}}))
    assert only["chiplog-brokers"]["namespaceSelector"] == {"matchNames": ["a", "b"]}
    off = {"brokers": {"enabled": False}, "operator": {"enabled": False}}
    assert monitors(rendered(helm, podMonitors=off)) == {}


def test_pod_monitors_find_the_pods_that_there_are(helm: Path) -> None:
    found = monitors(rendered(helm))
    manifest = {
        "apiVersion": "chiplog.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": "demo", "namespace": "shop"},
        "spec": {"replicas": 1, "storage": {"size": "1Gi"}},
    }
    cluster = BrokerCluster.from_manifest(manifest)
    settings = BuildSettings(broker_image="b", internal_password="")
    broker: Any = pod_template(cluster, BrokerId(1), settings)
    (deployment,) = by_kind(manifests(render(helm, OPERATOR)), "Deployment")
    operator = deployment["spec"]["template"]
    for name, pod in (("chiplog-brokers", broker), ("chiplog-operator", operator)):
        wanted = found[name]["selector"]["matchLabels"]
        assert wanted.items() <= pod["metadata"]["labels"].items()
        (endpoint,) = found[name]["podMetricsEndpoints"]
        (container,) = pod["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert ports[endpoint["port"]] == 9404
    assert broker["metadata"]["labels"]["chiplog.dev/cluster"] == "demo"


def test_a_plain_prometheus_gets_the_same_targets_with_the_same_labels(helm: Path) -> None:
    """namespace and pod are set by the Prometheus operator itself."""
    for name, spec in monitors(rendered(helm)).items():
        job = scrape_jobs()[name]
        (endpoint,) = spec["podMetricsEndpoints"]
        assert endpoint.get("honorLabels", False) == job.get("honor_labels", False)
        first, *rules = job["relabel_configs"]
        chosen = {
            f"__meta_kubernetes_pod_label_{meta(k)}": v
            for k, v in spec["selector"]["matchLabels"].items()
        }
        chosen["__meta_kubernetes_pod_container_port_name"] = endpoint["port"]
        assert first == {
            "source_labels": list(chosen),
            "regex": ";".join(chosen.values()),
            "action": "keep",
        }
        sources = {
            rule["target_label"]: rule["source_labels"] for rule in rules if "target_label" in rule
        }
        assert sources.pop("namespace") == ["__meta_kubernetes_namespace"]
        assert sources.pop("pod") == ["__meta_kubernetes_pod_name"]
        relabelled = {rule["targetLabel"]: rule for rule in endpoint["relabelings"]}
        assert relabelled.pop("job")["replacement"] == name
        assert sources == {key: rule["sourceLabels"] for key, rule in relabelled.items()}


def meta(label: str) -> str:
    """A label as Kubernetes' discovery writes it."""
    return re.sub(r"[^a-z0-9_]", "_", label)


def test_prometheus_takes_the_scrape_configuration(tmp_path: Path) -> None:
    """Debian's promtool has no Kubernetes discovery: a file stands for it."""
    text = SCRAPE.read_text().replace(
        "kubernetes_sd_configs: [{ role: pod }]", "file_sd_configs: [{ files: [a.json] }]"
    )
    assert text.count("file_sd_configs") == 2
    (tmp_path / "prometheus.yml").write_text(text)
    said = run(str(tools.promtool()), "check", "config", str(tmp_path / "prometheus.yml"))
    assert "SUCCESS" in said


# ---- dashboards ----


def test_dashboards_come_as_they_are_where_grafana_looks(helm: Path) -> None:
    made = by_kind(rendered(helm), "ConfigMap")
    assert [one["metadata"]["name"] for one in made] == [
        f"chiplog-dashboard-{path.stem}" for path in DASHBOARDS
    ]
    for path, one in zip(DASHBOARDS, made, strict=True):
        assert one["metadata"]["labels"]["grafana_dashboard"] == "1"
        assert one["metadata"]["annotations"] == {"grafana_folder": "Chiplog"}
        assert one["data"] == {f"chiplog-{path.name}": path.read_text().strip()}
    off = rendered(helm, "--set", "dashboards.enabled=false")
    assert by_kind(off, "ConfigMap") == []


@pytest.mark.parametrize("length", [1, 40, 53])
def test_objects_have_names_of_their_own_however_long_the_releases_is(
    helm: Path, length: int
) -> None:
    """53 characters are the most that Helm takes."""
    found = manifests(render(helm, MONITORING, release="m" * length))
    names = [(one["kind"], one["metadata"]["name"]) for one in found]
    assert len(names) == len(set(names))
    assert all(len(name) <= 253 for _, name in names)
    ends = {name.removeprefix("m" * length + "-") for _, name in names}
    assert ends >= {f"dashboard-{path.stem}" for path in DASHBOARDS}


def test_rendering_twice_gives_the_same_bytes(helm: Path) -> None:
    assert render(helm, MONITORING) == render(helm, MONITORING)
