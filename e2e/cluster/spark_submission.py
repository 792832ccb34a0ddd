"""The arguments of `spark-submit` for a `SparkApplication`: pure functions.

Fields are translated as by Kubeflow's operator
(https://github.com/kubeflow/spark-operator/blob/master/docs/api-docs.md). A field that is not
translated here is refused: a test must not pass because its field was ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Manifest = dict[str, Any]

DRIVER_CONTAINER: Final = "spark-kubernetes-driver"
EXECUTOR_CONTAINER: Final = "spark-kubernetes-executor"
APPLICATION_LABEL: Final = "sparkoperator.k8s.io/app-name"

# Accepted fields that spark-submit does not need: the runner's loop reads some, others are ignored.
OF_THE_LOOP: Final = frozenset(
    {"pythonVersion", "restartPolicy", "sparkVersion", "timeToLiveSeconds", "type"}
)
TRANSLATED: Final = frozenset(
    {
        *("arguments", "driver", "executor", "image", "imagePullPolicy", "imagePullSecrets"),
        *("mainApplicationFile", "mode", "sparkConf"),
    }
)
# Field of driver or executor -> Spark configuration key; {} stands for "driver" or "executor".
OF_PODS: Final = {
    "cores": "spark.{}.cores",
    "coreRequest": "spark.kubernetes.{}.request.cores",
    "coreLimit": "spark.kubernetes.{}.limit.cores",
    "memory": "spark.{}.memory",
    "memoryOverhead": "spark.{}.memoryOverhead",
    "serviceAccount": "spark.kubernetes.authenticate.{}.serviceAccountName",
}


class Unsubmittable(ValueError):  # noqa: N818 - named for what it says
    """The manifest has a field or value that is not translated here; the text names it."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The arguments of a call of spark-submit, and the files that it reads."""

    arguments: tuple[str, ...]
    templates: Mapping[Path, Manifest]
    """Path, as used in the arguments -> the pod template that must be written there."""


def driver_pod(application: Manifest) -> str:
    """Name of the driver's pod."""
    return f"{application['metadata']['name']}-driver"


def submission(application: Manifest, server: str, directory: Path) -> Submission:
    """The call of spark-submit for a `SparkApplication`.

    `server` is the API server's address, like https://10.0.0.1:6443; `directory` is where the
    caller will write the templates. Raises `Unsubmittable` for fields that are not translated.
    """
    spec = application["spec"]
    _refuse(sorted(set(spec) - OF_THE_LOOP - TRANSLATED), "spec")
    if spec["type"] != "Python" or spec.get("mode", "cluster") != "cluster":
        raise Unsubmittable(
            "spec.type and spec.mode: this test runner supports only Python in cluster mode"
        )
    templates = {
        directory / "driver.json": _template(spec["driver"], _owned(application)),
        directory / "executor.json": _template(spec["executor"], {}),
    }
    driver_file, executor_file = templates
    conf = {
        **dict(_general(application)),
        **spec.get("sparkConf", {}),
        **dict(_pods("driver", spec["driver"])),
        **dict(_pods("executor", spec["executor"])),
        "spark.kubernetes.driver.podTemplateFile": str(driver_file),
        "spark.kubernetes.driver.podTemplateContainerName": DRIVER_CONTAINER,
        "spark.kubernetes.executor.podTemplateFile": str(executor_file),
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR_CONTAINER,
    }
    arguments = [
        *("--master", f"k8s://{server}", "--deploy-mode", "cluster"),
        *("--name", application["metadata"]["name"]),
        *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
        spec["mainApplicationFile"],
        *spec.get("arguments", []),
    ]
    return Submission(tuple(arguments), templates)


def _general(application: Manifest) -> Iterator[tuple[str, str]]:
    """Spark configuration (key, value) that is not specific to driver or executor."""
    metadata, spec = application["metadata"], application["spec"]
    yield "spark.kubernetes.namespace", metadata["namespace"]
    yield "spark.kubernetes.driver.pod.name", driver_pod(application)
    yield "spark.kubernetes.submission.waitAppCompletion", "false"
    for role in ("driver", "executor"):
        yield f"spark.kubernetes.{role}.label.{APPLICATION_LABEL}", metadata["name"]
    if "image" in spec:
        yield "spark.kubernetes.container.image", spec["image"]
    if "imagePullPolicy" in spec:
        yield "spark.kubernetes.container.image.pullPolicy", spec["imagePullPolicy"]
    if "imagePullSecrets" in spec:
        yield "spark.kubernetes.container.image.pullSecrets", ",".join(spec["imagePullSecrets"])


def _pods(role: str, fields: Manifest) -> Iterator[tuple[str, str]]:
    """Spark configuration (key, value) of a role, "driver" or "executor"."""
    translated = {*OF_PODS, "template", *(["instances"] if role == "executor" else [])}
    _refuse(sorted(set(fields) - translated), f"spec.{role}")
    for field, key in OF_PODS.items():
        if field in fields:
            yield key.format(role), str(fields[field])
    if "instances" in fields:
        yield "spark.executor.instances", str(fields["instances"])


def _template(fields: Manifest, metadata: Manifest) -> Manifest:
    """The pod template of driver or executor, with further metadata."""
    given = fields.get("template", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**given.get("metadata", {}), **metadata},
        # The list must exist: Spark adds image and arguments to a container of the template.
        "spec": given.get("spec", {"containers": []}),
    }


def _owned(application: Manifest) -> Manifest:
    """Metadata that makes the application own the driver's pod.

    If the application is deleted, Kubernetes deletes the pod, and with it what the pod owns.
    """
    metadata = application["metadata"]
    reference = {
        "apiVersion": application["apiVersion"],
        "kind": application["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {"ownerReferences": [reference]}


def _refuse(unknown: list[str], where: str) -> None:
    """Raise `Unsubmittable` if there are unknown fields in this part of the manifest."""
    if unknown:
        fields = ", ".join(f"{where}.{name}" for name in unknown)
        raise Unsubmittable(f"{fields}: not supported by this test runner")
