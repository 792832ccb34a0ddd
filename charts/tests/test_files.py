"""What can be said of the charts without rendering them."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts import generate, versions
from charts.tests.files import CHARTS, CHECKOUT, CLUSTER, MONITORING, OPERATOR
from chiplog_core.model.broker_cluster import BrokerCluster
from chiplog_core.model.topic import Topic
from chiplog_core.naming.api import API_VERSION
from chiplog_core.validate.broker_cluster import check_cluster
from chiplog_core.validate.topic import check_topic
from chiplog_core.version import VERSION

ALL = [OPERATOR, CLUSTER, MONITORING]
# Of JSON schema, draft 7, what Helm's validator takes and these files use.
WORDS: Mapping[str, type | tuple[type, ...]] = {
    "$schema": str,
    "$comment": str,
    "$ref": str,
    "title": str,
    "description": str,
    "default": (str, int, float, bool),
    "type": (str, list),
    "enum": list,
    "anyOf": list,
    "not": dict,
    "items": dict,
    "properties": dict,
    "definitions": dict,
    "additionalProperties": (bool, dict),
    "required": list,
    "uniqueItems": bool,
    "pattern": str,
    **dict.fromkeys(("minimum", "maximum"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "maxProperties"), int),
}
TYPES = {"object", "array", "string", "integer", "number", "boolean"}


def chart_name(path: Path) -> str:
    return path.name


def schema_of(chart: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((chart / "values.schema.json").read_text())
    return found


def values_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())
    return found


def schemas(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """A schema and all below it, each with where it stands."""
    yield path, schema
    for word in ("properties", "definitions"):
        for name, below in schema.get(word, {}).items():
            yield from schemas(below, f"{path}/{word}/{name}")
    for word in ("items", "additionalProperties"):
        if isinstance(schema.get(word), dict):
            yield from schemas(schema[word], f"{path}/{word}")
    for index, below in enumerate(schema.get("anyOf", [])):
        yield from schemas(below, f"{path}/anyOf/{index}")


def test_generated_files_are_up_to_date() -> None:
    assert generate.drifted(generate.FOLDER) == []


def test_drift_is_found(tmp_path: Path) -> None:
    folder = tmp_path / generate.DEFINITIONS_FOLDER
    for path, text in generate.files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert generate.drifted(tmp_path) == []
    orphan, edited = folder / "gone.chiplog.dev.yaml", folder / "topics.chiplog.dev.yaml"
    orphan.write_text("")
    edited.write_text(edited.read_text() + "\n")
    (tmp_path / generate.CLUSTER_SCHEMA).unlink()
    assert set(generate.drifted(tmp_path)) == {
        orphan,
        edited,
        tmp_path / generate.CLUSTER_SCHEMA,
    }


def test_the_generator_runs_from_anywhere(tmp_path: Path) -> None:
    command = [sys.executable, str(CHARTS / "generate.py"), "--check"]
    assert subprocess.run(command, cwd=tmp_path, check=False, timeout=50).returncode == 0


def test_the_charts_definitions_are_those_of_crds_and_are_kept() -> None:
    """A definition that goes takes every object of its kind along."""
    templates = sorted((OPERATOR / "templates" / "crds").iterdir())
    originals = sorted((CHECKOUT / "crds").glob("*.yaml"))
    assert [one.name for one in templates] == [one.name for one in originals]
    for template, original in zip(templates, originals, strict=True):
        lines = template.read_text().splitlines()
        assert lines[1] == "{{- if .Values.crds.install }}"
        assert lines[-1] == "{{- end }}"
        assert f"{generate.KEPT}{generate.MORE_ANNOTATIONS}spec:" in template.read_text()
        plain = (line for line in lines if not line.lstrip().startswith("{{"))
        manifest = yaml.safe_load("\n".join(plain))
        annotations = manifest["metadata"].pop("annotations")
        assert annotations == {"helm.sh/resource-policy": "keep"}
        assert manifest == yaml.safe_load(original.read_text())


@pytest.mark.parametrize("chart", ALL, ids=chart_name)
def test_a_schema_is_a_schema(chart: Path) -> None:
    root = schema_of(chart)
    for path, schema in schemas(root):
        for word, value in schema.items():
            assert word in WORDS, f"{path}: {word}"
            assert isinstance(value, WORDS[word]), f"{path}: {word}"
        types = schema.get("type", [])
        assert ({types} if isinstance(types, str) else set(types)) <= TYPES, path
        re.compile(schema.get("pattern", ""))
        refused = schema.get("not", {})
        assert set(refused) <= {"required"}, path
        named = {*schema.get("required", []), *refused.get("required", [])}
        assert named <= set(schema.get("properties", {})), path
        if reference := schema.get("$ref"):
            assert reference.removeprefix("#/definitions/") in root["definitions"], path


@pytest.mark.parametrize("chart", ALL, ids=chart_name)
def test_an_unknown_value_is_refused_at_every_level(chart: Path) -> None:
    for path, schema in schemas(schema_of(chart)):
        if "properties" in schema:
            assert schema.get("additionalProperties") is False, path


@pytest.mark.parametrize("chart", ALL, ids=chart_name)
def test_every_value_has_a_schema_and_every_schema_a_value(chart: Path) -> None:
    """Down to where the chart leaves the rest to Kubernetes."""
    properties = schema_of(chart)["properties"]
    values = values_of(chart / "values.yaml")
    assert set(values) == set(properties) - {"global"}
    for name, value in values.items():
        below = properties[name].get("properties")
        if below is not None:
            assert set(value) == set(below), name


@pytest.mark.parametrize("chart", ALL, ids=chart_name)
def test_templates_ask_nobody_and_leave_nothing_to_chance(chart: Path) -> None:
    """Else the same chart and values make something else tomorrow, which GitOps tools undo."""
    asks = re.compile(
        r"\b(lookup|now|date|ago|htmlDate|uuidv4|rand[A-Z]\w+|shuffle|gen[A-Z]\w+|getHostByName|env)\b"
        # Which version the cluster has is told to whoever renders; what it has installed is not.
        r"|\.Release\.(IsInstall|IsUpgrade|Revision)\b|\.Capabilities\.(?!KubeVersion)"
    )
    for path in (chart / "templates").rglob("*"):
        if path.is_file():
            for action in re.findall(r"{{.*?}}", path.read_text(), re.DOTALL):
                assert not asks.search(re.sub(r'/\*.*?\*/|"[^"]*"', "", action)), (
                    f"{path}: {action}"
                )


def test_a_number_that_helm_would_round_is_refused() -> None:
    spec = generate.spec_schema(Topic)["properties"]
    assert spec["config"]["properties"]["retention.ms"]["maximum"] == 2**53 - 1
    assert spec["partitions"]["maximum"] == 2_000  # the kind's own bound stays


@pytest.mark.parametrize("chart", ALL, ids=chart_name)
def test_versions_are_the_projects(chart: Path) -> None:
    about = values_of(chart / "Chart.yaml")
    assert about["appVersion"] == VERSION
    # Helm wants a hyphen where Python has a dot: 0.1.0-dev.0.
    assert about["version"].replace("-dev.", ".dev").replace("-rc.", "rc") == VERSION


@pytest.mark.parametrize(
    ("python", "helm"),
    [("0.1.0.dev0", "0.1.0-dev.0"), ("1.20.3rc12", "1.20.3-rc.12"), ("0.1.0", "0.1.0")],
)
def test_a_version_as_helm_wants_it(python: str, helm: str) -> None:
    assert versions.chart_version(python) == helm


@pytest.mark.parametrize("version", ["0.1", "0.1.0.post1", "0.1.0+local", "v0.1.0", "0.1.0.dev"])
def test_a_version_that_no_chart_can_have(version: str) -> None:
    with pytest.raises(ValueError, match=re.escape(version)):
        versions.chart_version(version)


def test_the_example_values_say_what_the_example_says() -> None:
    values = values_of(CLUSTER / "examples" / "orders.yaml")
    example = CHECKOUT / "examples" / "orders.yaml"
    cluster, topic = yaml.safe_load_all(example.read_text())
    assert values["cluster"]["name"] == cluster["metadata"]["name"]
    assert values["cluster"]["spec"] == cluster["spec"]
    (one,) = values["topics"]
    assert one["name"] == topic["metadata"]["name"]
    assert {**one["spec"], "clusterRef": topic["spec"]["clusterRef"]} == topic["spec"]


@pytest.mark.parametrize("path", ["values.yaml", "examples/orders.yaml"])
def test_the_values_make_a_cluster_that_works_as_it_is(path: str) -> None:
    values = values_of(CLUSTER / path)

    def manifest(kind: str, name: str, spec: object) -> dict[str, object]:
        about = {"name": name, "namespace": "team"}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": about, "spec": spec}

    cluster = manifest("BrokerCluster", "demo", values["cluster"]["spec"])
    assert check_cluster(BrokerCluster.from_manifest(cluster)) == ()
    for one in values["topics"]:
        spec = {**one["spec"], "clusterRef": {"name": "demo"}}
        assert check_topic(Topic.from_manifest(manifest("Topic", one["name"], spec))) == ()
