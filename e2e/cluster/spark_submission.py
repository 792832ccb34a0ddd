"""What `spark-submit` is called with for a `SparkApplication`: values in, values out.

The fields are translated as Kubeflow's operator translates them
(https://github.com/kubeflow/spark-operator/blob/master/docs/api-docs.md). A field that is not
translated here is refused: a test must not pass because a wish was ignored.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Manifest = dict[str, Any]

DRIVER_CONTAINER: Final = "spark-kubernetes-driver"
EXECUTOR_CONTAINER: Final = "spark-kubernetes-executor"
APPLICATION_LABEL: Final = "sparkoperator.k8s.io/app-name"

# Fields that say nothing to spark-submit: the runner's loop reads them, or nobody need.
OF_THE_LOOP: Final = frozenset(
    {"pythonVersion", "restartPolicy", "sparkVersion", "timeToLiveSeconds", "type"}
)
TRANSLATED: Final = frozenset(
    {
        *("arguments", "driver", "executor", "image", "imagePullPolicy", "imagePullSecrets"),
        *("mainApplicationFile", "mode", "sparkConf"),
    }
)
# Field of driver or executor -> configuration key; {} is which of the two.
OF_PODS: Final = {
    "cores": "spark.{}.cores",
    "coreRequest": "spark.kubernetes.{}.request.cores",
    "coreLimit": "spark.kubernetes.{}.limit.cores",
    "memory": "spark.{}.memory",
    "memoryOverhead": "spark.{}.memoryOverhead",
    "serviceAccount": "spark.kubernetes.authenticate.{}.serviceAccountName",
}


class Unsubmittable(ValueError):  # noqa: N818 - named for what it says
    """The manifest asks for what this cannot translate; says which field."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A call of spark-submit."""

    arguments: tuple[str, ...]
    templates: Mapping[Path, Manifest]
    """The pods' templates, and the files in which the arguments expect them."""


def driver_pod(application: Manifest) -> str:
    """Name of the driver's pod."""
    return f"{application['metadata']['name']}-driver"


def submission(application: Manifest, server: str, directory: Path) -> Submission:
    """The call for a `SparkApplication`, to an API server like `https://10.0.0.1:6443`.

    `directory` is where the templates will be. Raises `Unsubmittable`.
    """
    spec = application["spec"]
    _refuse(sorted(set(spec) - OF_THE_LOOP - TRANSLATED), "spec")
    if spec["type"] != "Python" or spec.get("mode", "cluster") != "cluster":
        raise Unsubmittable("spec.type and spec.mode: only Python in cluster mode is run here")
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
    known = {*OF_PODS, "template", *(["instances"] if role == "executor" else [])}
    _refuse(sorted(set(fields) - known), f"spec.{role}")
    for field, key in OF_PODS.items():
        if field in fields:
            yield key.format(role), str(fields[field])
    if "instances" in fields:
        yield "spark.executor.instances", str(fields["instances"])


def _template(fields: Manifest, metadata: Manifest) -> Manifest:
    given = fields.get("template", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**given.get("metadata", {}), **metadata},
        # Without a container Spark has nothing to add image and arguments to.
        "spec": given.get("spec", {"containers": []}),
    }


def _owned(application: Manifest) -> Manifest:
    """The driver's pod goes when its application goes; everything else goes with the pod."""
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
    if unknown:
        fields = ", ".join(f"{where}.{name}" for name in unknown)
        raise Unsubmittable(f"{fields}: not translated by the runner of tests")
