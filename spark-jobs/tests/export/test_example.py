"""The example that docs/export.md names: every field is one, and its parts fit together."""

import re
from pathlib import Path
from typing import Any

import kubernetes.client
import pytest
import yaml

from chiplog_core.spark.requests import REQUEST_KEY, JobKind, Request
from chiplog_spark.container import command
from chiplog_spark.export.request import ExportJob

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "export.yaml"
MODELS = {
    "ConfigMap": "V1ConfigMap",
    "CronJob": "V1CronJob",
    "PersistentVolumeClaim": "V1PersistentVolumeClaim",
    "Role": "V1Role",
    "RoleBinding": "V1RoleBinding",
    "ServiceAccount": "V1ServiceAccount",
}


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], Any]:
    found = yaml.safe_load_all(EXAMPLE.read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def strange_fields(value: Any, model: str, path: str) -> list[str]:
    """Fields that the official model of a kind does not know, or has with another type."""
    if found := re.fullmatch(r"[Ll]ist\[(.+)\]", model):
        assert isinstance(value, list), path
        return [one for item in value for one in strange_fields(item, found[1], path)]
    if not model.startswith("V1"):
        plain = {"str": str, "int": int, "bool": bool}.get(model, object)
        return [] if isinstance(value, plain) else [f"{path} is no {model}"]
    cls = getattr(kubernetes.client, model)
    types = {cls.attribute_map[name]: kind for name, kind in cls.openapi_types.items()}
    problems = []
    for name, item in value.items():
        where = f"{path}.{name}"
        problems += (
            strange_fields(item, types[name], where) if name in types else [f"{where} is unknown"]
        )
    return problems


def test_every_field_is_one(manifests: dict[tuple[str, str], Any]) -> None:
    problems = [
        problem
        for (kind, name), one in manifests.items()
        for problem in strange_fields(one, MODELS[kind], f"{kind}/{name}")
    ]
    assert problems == []


def test_a_field_that_is_none_would_be_found() -> None:
    pod = {"containers": [{"name": "a", "image": 1, "volumeMount": []}]}
    assert strange_fields(pod, "V1PodSpec", "pod") == [
        "pod.containers.image is no str",
        "pod.containers.volumeMount is unknown",
    ]


def test_the_request_reads(manifests: dict[tuple[str, str], Any]) -> None:
    request = Request.from_json(manifests["ConfigMap", "export-request"]["data"][REQUEST_KEY])
    assert request.kind is JobKind.EXPORT
    job = request.job_as(ExportJob)
    pod = pod_of(manifests)
    (container,) = pod["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    assert job.target.startswith(f"file://{mounts['exports']}/")
    assert set(mounts) == {one["name"] for one in pod["volumes"]}


def test_the_job_may_write_its_result_and_nothing_else(
    manifests: dict[tuple[str, str], Any],
) -> None:
    request = Request.from_json(manifests["ConfigMap", "export-request"]["data"][REQUEST_KEY])
    place = request.result.config_map
    assert ("ConfigMap", place) in manifests
    (rule,) = manifests["Role", "export"]["rules"]
    assert rule == {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [place],
        "verbs": ["patch"],
    }
    assert ("ServiceAccount", pod_of(manifests)["serviceAccountName"]) in manifests
    assert manifests["CronJob", "export"]["spec"]["concurrencyPolicy"] == "Forbid"


def test_the_image_takes_its_arguments(manifests: dict[tuple[str, str], Any]) -> None:
    (container,) = pod_of(manifests)["containers"]
    environment = {one["name"]: one["value"] for one in container["env"]}
    program = command(container["args"], {"SPARK_HOME": "/opt/spark", **environment})
    assert program[0] == "/opt/spark/bin/spark-submit"
    assert program[-2:] == ["local:///opt/chiplog/jobs/export.py", "/etc/chiplog/job/request.json"]


def pod_of(manifests: dict[tuple[str, str], Any]) -> Any:
    job = manifests["CronJob", "export"]["spec"]["jobTemplate"]["spec"]
    return job["template"]["spec"]
