"""The example for Kubeflow's Spark operator: every field is one, and its parts fit together."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from kubeflow_spark_api.models.spark_v1beta2_scheduled_spark_application import (
    SparkV1beta2ScheduledSparkApplication,
)
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from chiplog_core.spark.access import POD_VERBS
from chiplog_core.spark.application import SPARK_VERSION, USER_ID, Job
from chiplog_core.spark.properties import FIXED
from chiplog_core.spark.requests import REQUEST_KEY, JobKind, Request
from chiplog_spark.export.request import ExportJob

EXAMPLE = Path(__file__).parents[3] / "examples" / "spark" / "export-kubeflow.yaml"


@pytest.fixture(scope="module")
def manifests() -> dict[tuple[str, str], Any]:
    found = yaml.safe_load_all(EXAMPLE.read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def test_kubeflows_models_give_back_what_they_were_given(
    manifests: dict[tuple[str, str], Any],
) -> None:
    once = manifests["SparkApplication", "export"]
    read = SparkV1beta2SparkApplication.from_dict(once)
    assert read is not None
    assert read.to_dict() == once
    hourly = manifests["ScheduledSparkApplication", "export-hourly"]
    scheduled = SparkV1beta2ScheduledSparkApplication.from_dict(hourly)
    assert scheduled is not None
    assert scheduled.to_dict() == hourly


def test_once_and_every_hour_are_the_same_export(manifests: dict[tuple[str, str], Any]) -> None:
    hourly = manifests["ScheduledSparkApplication", "export-hourly"]["spec"]
    assert hourly["template"] == manifests["SparkApplication", "export"]["spec"]
    assert hourly["concurrencyPolicy"] == "Forbid"


def test_its_parts_fit_together(manifests: dict[tuple[str, str], Any]) -> None:
    spec = manifests["SparkApplication", "export"]["spec"]
    assert spec["mainApplicationFile"] == Job.EXPORT.main_file
    assert spec["sparkVersion"] == SPARK_VERSION
    assert FIXED.items() <= spec["sparkConf"].items()
    request = Request.from_json(manifests["ConfigMap", "export-request"]["data"][REQUEST_KEY])
    assert request.kind is JobKind.EXPORT
    target = request.job_as(ExportJob).target
    for role in ("driver", "executor"):
        assert ("ServiceAccount", spec[role]["serviceAccount"]) in manifests
        pod = spec[role]["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == USER_ID
        (container,) = pod["containers"]
        assert container["name"] == f"spark-kubernetes-{role}"
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert set(mounts) == {one["name"] for one in pod["volumes"]}
        assert target.startswith(f"file://{mounts['exports']}/"), "both write the files"
    of_pods, of_result = manifests["Role", "export"]["rules"]
    assert of_pods["verbs"] == sorted(POD_VERBS)
    assert of_result["resourceNames"] == [request.result.config_map]
