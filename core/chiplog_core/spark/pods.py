"""The pod templates of an application's driver and executors.

Every launcher uses these templates; Spark and the launchers add image, arguments, resources, their
labels and an emptyDir for Spark's local data. The pods comply with the Pod Security Standard
`restricted`:
https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from collections.abc import Mapping
from typing import Any

from chiplog_core.manifest.writing import write
from chiplog_core.model.api_access import TOKEN_PATH, projected_volume
from chiplog_core.model.spark_scheduling import SparkScheduling
from chiplog_core.spark.application import (
    METRICS_PORT,
    REQUEST_FOLDER,
    USER_ID,
    Application,
    Volume,
    VolumeKind,
)
from chiplog_core.spark.signing import KEY_FOLDER

Manifest = dict[str, Any]
"""An object of the Kubernetes API, or a part of one, as JSON."""

DRIVER_CONTAINER = "spark-kubernetes-driver"
EXECUTOR_CONTAINER = "spark-kubernetes-executor"
"""The names that Spark and both Spark operators expect."""

WORK_FOLDER = "/tmp"  # noqa: S108 - an emptyDir of the pod's own
"""The working directory of the processes, because Spark creates directories there; the rest of the
file system is read-only."""

WORK_VOLUME = "chiplog-work"
API_VOLUME = "chiplog-api-access"
"""The volume with the driver's token for the API server; executors have none."""

READ_BY_GROUP = 0o440
"""Mode of mounted Secrets: the pod's fsGroup reads them, others do not."""


def launched_of(
    application: Application, api_version: str, kind: str, spec: Mapping[str, object]
) -> Manifest:
    """The `SparkApplication` or Job that runs the application, with this spec."""
    manifest = object_of(application, api_version, kind, application.name, {"spec": spec})
    manifest["metadata"]["labels"] = application.launched_labels
    return manifest


def object_of(
    application: Application, api_version: str, kind: str, name: str, parts: Mapping[str, object]
) -> Manifest:
    """An object of the application, deleted with its owner. `parts` are its top-level fields
    besides the metadata, like `spec`."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": application.namespace,
            "labels": application.all_labels,
            "ownerReferences": [application.owner.to_reference()],
        },
        **parts,
    }


def driver_template(application: Application) -> Manifest:
    """The driver's `PodTemplateSpec`, without image, arguments and resources."""
    request = Volume(
        name="chiplog-request",
        kind=VolumeKind.CONFIG_MAP,
        source=application.request_config_map,
        path=REQUEST_FOLDER,
    )
    key = Volume(
        name="chiplog-result-key",
        kind=VolumeKind.SECRET,
        source=application.result_key,
        path=KEY_FOLDER,
        is_optional=True,  # in some namespaces the operator may not create Secrets
    )
    volumes = (request, key, *application.volumes)
    template = _template(application, DRIVER_CONTAINER, volumes)
    (container,) = template["spec"]["containers"]
    template["spec"]["volumes"].append({"name": API_VOLUME, **projected_volume()})
    container["volumeMounts"].append(
        {"name": API_VOLUME, "mountPath": TOKEN_PATH, "readOnly": True}
    )
    if application.has_metrics:
        template["metadata"]["annotations"] = {
            "prometheus.io/scrape": "true",
            "prometheus.io/port": str(METRICS_PORT),
            "prometheus.io/path": "/metrics/executors/prometheus",
        }
    return template


def executor_template(application: Application) -> Manifest:
    """The executors' `PodTemplateSpec`, without image, arguments and resources."""
    return _template(application, EXECUTOR_CONTAINER, application.volumes)


def _template(application: Application, container: str, volumes: tuple[Volume, ...]) -> Manifest:
    """The `PodTemplateSpec` of driver or executors."""
    return {
        "metadata": {"labels": application.pod_labels},
        "spec": {
            **_scheduling_fields(application.scheduling),
            "automountServiceAccountToken": False,
            # Without this, each pod would get environment variables for every Service of the
            # namespace.
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "runAsGroup": USER_ID,
                "fsGroup": USER_ID,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": container,
                    "workingDir": WORK_FOLDER,
                    # Shows the reason of a failure even if the driver could not write its result.
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": WORK_VOLUME, "mountPath": WORK_FOLDER},
                        *(_mount(volume) for volume in volumes),
                    ],
                }
            ],
            "volumes": [
                {"name": WORK_VOLUME, "emptyDir": {}},
                *(_volume(volume) for volume in volumes),
            ],
        },
    }


def _scheduling_fields(scheduling: SparkScheduling) -> Manifest:
    """Fields that decide where the pods run. Spark keeps fields of a template that its
    configuration does not set."""
    affinity = None if scheduling.affinity is None else write(scheduling.affinity)
    found: Manifest = {
        "tolerations": [write(toleration) for toleration in scheduling.tolerations],
        "affinity": affinity,
        "priorityClassName": scheduling.priority_class_name,
    }
    return {name: value for name, value in found.items() if value}


def _mount(volume: Volume) -> Manifest:
    return {"name": volume.name, "mountPath": volume.path, "readOnly": volume.read_only}


def _volume(volume: Volume) -> Manifest:
    """The volume as an entry of `spec.volumes` of a pod."""
    if volume.kind is VolumeKind.CONFIG_MAP:
        return {"name": volume.name, "configMap": {"name": volume.source}}
    if volume.kind is VolumeKind.SECRET:
        secret: Manifest = {"secretName": volume.source, "defaultMode": READ_BY_GROUP}
        if volume.is_optional:
            secret["optional"] = True
        return {"name": volume.name, "secret": secret}
    claim = {"claimName": volume.source, "readOnly": volume.read_only}
    return {"name": volume.name, "persistentVolumeClaim": claim}
