"""What the launchers are given, held against the models that their makers publish.

Kubernetes' and Kubeflow's classes are generated from their APIs' descriptions: they check names,
types and what is required, not enumerations or ranges. Kubeflow's drop a field that they do not
know, so what comes back out of them has to be what went in. No package registry has the CRD of
Apache's operator: its fields are listed here as read in its repository, pod templates are held
against Kubernetes' models.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication
from kubernetes import client
from pydantic import BaseModel, ValidationError

from chiplog_core.model.api_access import projected_volume
from chiplog_core.model.spark import SparkLauncher
from chiplog_core.spark.application import Application, Owner
from chiplog_core.spark.choice import launch, owned_by
from chiplog_core.spark.plain_job import TEMPLATE_KEY
from chiplog_core.spark.properties import FIXED
from chiplog_core.validate.spark_conf import GIVEN
from tests.spark import applications, golden
from tests.validate.test_spark_conf import keys_of_spark

Made = dict[str, Any]

EACH = [
    pytest.param(launcher, application, id=f"{launcher.value}-{name}")
    for launcher in golden.LAUNCHERS
    for name, application in applications.ALL.items()
]
MODELS: Mapping[str, type[BaseModel]] = {
    "ConfigMap": client.V1ConfigMap,
    "Job": client.V1Job,
    "Role": client.V1Role,
    "RoleBinding": client.V1RoleBinding,
    "ServiceAccount": client.V1ServiceAccount,
}

# build-tools/helm/spark-kubernetes-operator/crds/sparkapplications.spark.apache.org-v1.yaml and
# the classes in spark-operator-api of apache/spark-kubernetes-operator, as of version v1.
APACHE_SPEC: Made = {
    "mainClass": str,
    "runtimeVersions": {"sparkVersion": str, "scalaVersion": str, "jdkVersion": str},
    "jars": str,
    "pyFiles": str,
    "sparkRFiles": str,
    "files": str,
    "deploymentMode": {"ClientMode", "ClusterMode"},
    "proxyUser": str,
    "driverArgs": list,
    "sparkConf": dict,
    "driverSpec": {"podTemplateSpec": client.V1PodTemplateSpec},
    "executorSpec": {"podTemplateSpec": client.V1PodTemplateSpec},
    "driverServiceIngressList": list,
    "configMapSpecs": list,
    "applicationTolerations": {
        "resourceRetainPolicy": {"Always", "Never", "OnFailure"},
        "resourceRetainDurationMillis": int,
        "ttlAfterStopMillis": int,
        "restartConfig": {
            "restartPolicy": {"Always", "Never", "OnFailure", "OnInfrastructureFailure"},
            "maxRestartAttempts": int,
            "restartBackoffMillis": int,
        },
        "applicationTimeoutConfig": dict,
        "instanceConfig": dict,
    },
}


def check_apache(given: Any, wanted: Any, path: str) -> None:
    if isinstance(wanted, set):
        assert given in wanted, path
    elif isinstance(wanted, dict):
        assert set(given) <= set(wanted), path
        for name, value in given.items():
            check_apache(value, wanted[name], f"{path}.{name}")
    elif issubclass(wanted, BaseModel):
        wanted.model_validate(given)
    else:
        assert type(given) is wanted, path


def all_objects(launcher: SparkLauncher, application: Application) -> list[Made]:
    made = launch(launcher, application)
    return [*made.before, made.launched]


def pod_specs(launcher: SparkLauncher, application: Application) -> Iterator[Made]:
    """The driver's pod, then the executors'."""
    *others, launched = all_objects(launcher, application)
    spec = launched["spec"]
    if launcher is SparkLauncher.KUBEFLOW:
        yield from (spec[role]["template"] for role in ("driver", "executor"))
    elif launcher is SparkLauncher.APACHE:
        yield from (spec[f"{role}Spec"]["podTemplateSpec"] for role in ("driver", "executor"))
    else:
        yield spec["template"]
        yield json.loads(others[-1]["data"][TEMPLATE_KEY])


@pytest.mark.parametrize(("launcher", "application"), EACH)
def test_every_object_is_as_written_down(launcher: SparkLauncher, application: Application) -> None:
    name = next(name for name, one in applications.ALL.items() if one is application)
    written = golden.path(launcher, name).read_text(encoding="utf-8")
    assert golden.rendered(launcher, application) == written, "see golden.py"


@pytest.mark.parametrize(("launcher", "application"), EACH)
def test_kubernetes_own_models_know_every_field(
    launcher: SparkLauncher, application: Application
) -> None:
    checked = [one for one in all_objects(launcher, application) if one["kind"] in MODELS]
    for one in checked:
        MODELS[one["kind"]].model_validate(one)
    assert {one["kind"] for one in checked} >= {"ServiceAccount", "Role", "RoleBinding"}
    for pod in pod_specs(launcher, application):
        client.V1Pod.model_validate(pod)


def test_a_field_that_kubernetes_does_not_know_is_found(plain: Application) -> None:
    job = launch(SparkLauncher.JOB, plain).launched
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolice"] = "Always"
    with pytest.raises(ValidationError, match="imagePullPolice"):
        client.V1Job.model_validate(job)


@pytest.mark.parametrize("application", applications.ALL.values(), ids=applications.ALL)
def test_kubeflows_models_give_back_what_they_were_given(application: Application) -> None:
    made = launch(SparkLauncher.KUBEFLOW, application).launched
    read = SparkV1beta2SparkApplication.from_dict(made)
    assert read is not None
    assert read.to_dict() == made


@pytest.mark.parametrize("path", [("driver",), ("executor", "template", "spec"), ()])
def test_a_field_that_kubeflow_does_not_know_is_found(
    path: tuple[str, ...], plain: Application
) -> None:
    made = launch(SparkLauncher.KUBEFLOW, plain).launched
    place = made["spec"]
    for name in path:
        place = place[name]
    place["serviceAcount"] = "x"
    read = SparkV1beta2SparkApplication.from_dict(made)
    assert read is not None
    assert read.to_dict() != made


@pytest.mark.parametrize("application", applications.ALL.values(), ids=applications.ALL)
def test_apaches_fields_are_those_of_its_definition(application: Application) -> None:
    made = launch(SparkLauncher.APACHE, application).launched
    check_apache(made["spec"], APACHE_SPEC, "spec")
    assert made["spec"]["runtimeVersions"]["sparkVersion"], "required"


@pytest.mark.parametrize(("launcher", "application"), EACH)
def test_pods_pass_the_restricted_standard(
    launcher: SparkLauncher, application: Application
) -> None:
    for pod in pod_specs(launcher, application):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == 185
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        allowed = {"emptyDir", "configMap", "secret", "projected", "persistentVolumeClaim"}
        assert all(set(one) <= {"name", *allowed} for one in spec["volumes"])
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounted = {one["name"] for one in container["volumeMounts"]}
        assert mounted == {one["name"] for one in spec["volumes"]}
        writable = {
            one["mountPath"] for one in container["volumeMounts"] if not one.get("readOnly")
        }
        assert container["workingDir"] in writable


@pytest.mark.parametrize(("launcher", "application"), EACH)
def test_only_the_driver_may_use_the_api(launcher: SparkLauncher, application: Application) -> None:
    driver, executor = pod_specs(launcher, application)
    for pod in (driver, executor):
        assert pod["spec"]["automountServiceAccountToken"] is False
    (mount,) = [one for one in _mounts(driver) if one["mountPath"].startswith("/var/run/secrets")]
    assert mount["mountPath"] == "/var/run/secrets/kubernetes.io/serviceaccount"
    (volume,) = [one for one in driver["spec"]["volumes"] if one["name"] == mount["name"]]
    assert volume == {"name": mount["name"], **projected_volume()}
    assert not [one for one in executor["spec"]["volumes"] if "projected" in one]


def _mounts(pod: Made) -> list[Made]:
    (container,) = pod["spec"]["containers"]
    mounts: list[Made] = container["volumeMounts"]
    return mounts


@pytest.mark.parametrize(("launcher", "application"), EACH)
def test_everything_is_found_by_its_label_and_goes_with_its_owner(
    launcher: SparkLauncher, application: Application
) -> None:
    job = Owner(api_version="batch/v1", kind="Job", name=application.name, uid="u")
    for owner, one in (
        *((application.owner, one) for one in all_objects(launcher, application)),
        *((job, one) for one in launch(launcher, owned_by(job, application)).before),
    ):
        assert one["metadata"]["ownerReferences"] == [owner.to_reference()]
        assert one["metadata"]["labels"] == application.all_labels
        assert one["metadata"]["namespace"] == application.namespace
    for pod in pod_specs(launcher, application):
        assert application.all_labels.items() <= pod["metadata"]["labels"].items()


def test_sparks_configuration_is_one_that_spark_knows(
    plain: Application, rich: Application
) -> None:
    known = keys_of_spark()
    said = set(FIXED)
    for application in (plain, rich):
        said |= set(launch(SparkLauncher.APACHE, application).launched["spec"]["sparkConf"])
        (container,) = next(pod_specs(SparkLauncher.JOB, application))["spec"]["containers"]
        said |= {one.partition("=")[0] for one in container["args"] if one.startswith("spark.")}
    prefixes = ("selector.", "authenticate.")
    plain_keys = {one for one in said if not any(part in one for part in prefixes)}
    assert plain_keys <= known
    assert set(FIXED) & GIVEN == set(), "what rights and safety rest on is nobody's to change"


def test_the_kubelet_fills_in_our_variables_and_nobody_elses(rich: Application) -> None:
    (container,) = next(pod_specs(SparkLauncher.JOB, rich))["spec"]["containers"]
    filled = [one for one in container["args"] if "$(" in one.replace("$$", "")]
    assert filled == [
        "spark.driver.host=$(SPARK_DRIVER_BIND_ADDRESS)",
        "spark.kubernetes.driver.pod.name=$(POD_NAME)",
    ]
    assert "spark.kubernetes.node.selector.pool=a$$(b)" in container["args"]


@pytest.mark.parametrize("launcher", golden.LAUNCHERS)
def test_no_launcher_tries_again_for_ever(
    launcher: SparkLauncher, plain: Application, rich: Application
) -> None:
    def tries(application: Application) -> object:
        spec = launch(launcher, application).launched["spec"]
        if launcher is SparkLauncher.JOB:
            return spec["backoffLimit"]
        if launcher is SparkLauncher.APACHE:
            restart = spec["applicationTolerations"]["restartConfig"]
            return restart.get("maxRestartAttempts", restart["restartPolicy"])
        return spec["restartPolicy"].get("onFailureRetries", spec["restartPolicy"]["type"])

    assert tries(plain) == plain.retries == 2
    assert rich.retries == 0
    assert tries(rich) in (0, "Never")
