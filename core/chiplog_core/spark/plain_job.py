"""An application as a `Job` whose pod is the driver, for clusters without a Spark operator.

The pod runs `spark-submit` in client mode; Spark itself makes the executors' pods. They belong to
the driver's pod, which belongs to the Job, so everything goes with it.
https://spark.apache.org/docs/4.2.0/running-on-kubernetes.html#client-mode
"""

import json
from collections.abc import Mapping

from chiplog_core.spark.application import (
    JOBS_FOLDER,
    REQUEST_PATH,
    Application,
    Volume,
    VolumeKind,
)
from chiplog_core.spark.pods import (
    Manifest,
    driver_template,
    executor_template,
    launched_of,
    object_of,
)
from chiplog_core.spark.properties import FIXED, described

API_VERSION = "batch/v1"
KIND = "Job"

API_SERVER = "https://kubernetes.default.svc:443"
DRIVER_PORT = 7078
BLOCK_MANAGER_PORT = 7079
"""The ports that Spark takes on its own in cluster mode. Executors find the driver by its pod's
address, so no Service is needed."""

TEMPLATE_FOLDER = "/etc/chiplog/executor"
TEMPLATE_KEY = "pod.json"

LOCAL_VOLUME = "chiplog-local"
LOCAL_FOLDER = "/var/data/spark-local"
"""Spark's scratch space, an emptyDir. The executors' and, elsewhere, the driver's is Spark's own
doing."""

ADDRESS = "SPARK_DRIVER_BIND_ADDRESS"
"""The variable from which the image's entry point has the address to listen on."""

ENVIRONMENT: tuple[Manifest, ...] = (
    {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "SPARK_LOCAL_DIRS", "value": LOCAL_FOLDER},
)
"""Of the driver; nobody adds to it, as a variable can change what Python and Java load."""

EXIT_WITH_RESULT = 3
"""How a job ends that has written a result saying it failed: to do it again would be no use."""

EXIT_OUT_OF_HEAP = 52
"""`SparkExitCode.OOM`: a JVM without memory."""

EXIT_KILLED = 137
"""128 + SIGKILL: a container without memory."""

_EVICTED = [{"type": "DisruptionTarget", "status": "True"}]


def objects(application: Application) -> tuple[Manifest, ...]:
    """The ConfigMap with the executors' pod template, and the Job, in the order in which to
    create them."""
    return (_template_config_map(application), _job(application))


def _template_config_map(application: Application) -> Manifest:
    pod = {"apiVersion": "v1", "kind": "Pod", **executor_template(application)}
    data = {TEMPLATE_KEY: json.dumps(pod, indent=1, sort_keys=True)}
    name = application.template_config_map
    return object_of(application, "v1", "ConfigMap", name, {"data": data})


def _job(application: Application) -> Manifest:
    spec: Manifest = {
        "backoffLimit": application.retries,
        "ttlSecondsAfterFinished": application.ttl_s,
        "podFailurePolicy": {
            "rules": [
                # The loss of a node is not a failure of the job.
                {"action": "Ignore", "onPodConditions": _EVICTED},
                {
                    "action": "FailJob",
                    "onExitCodes": {
                        "operator": "In",
                        "values": [EXIT_WITH_RESULT, EXIT_OUT_OF_HEAP, EXIT_KILLED],
                    },
                },
            ]
        },
        "template": _driver(application),
    }
    if application.active_deadline_s is not None:
        spec["activeDeadlineSeconds"] = application.active_deadline_s
    return launched_of(application, API_VERSION, KIND, spec)


def _driver(application: Application) -> Manifest:
    """The driver's pod. It has what Spark would take from its configuration in cluster mode,
    because in client mode the pod exists before Spark runs."""
    template = driver_template(application)
    metadata, spec = template["metadata"], template["spec"]
    (container,) = spec["containers"]
    volume = Volume(
        name="chiplog-executor",
        kind=VolumeKind.CONFIG_MAP,
        source=application.template_config_map,
        path=TEMPLATE_FOLDER,
    )
    spec["volumes"] += [
        {"name": LOCAL_VOLUME, "emptyDir": {}},
        {"name": volume.name, "configMap": {"name": volume.source}},
    ]
    container["volumeMounts"] += [
        {"name": LOCAL_VOLUME, "mountPath": LOCAL_FOLDER},
        {"name": volume.name, "mountPath": volume.path, "readOnly": True},
    ]
    metadata["labels"] = {"spark-role": "driver", **metadata["labels"]}
    container |= {
        "image": application.image,
        "imagePullPolicy": application.image_pull_policy.value,
        "args": ["driver", *_arguments(application)],
        "env": list(ENVIRONMENT),
        "ports": [
            {"name": "driver", "containerPort": DRIVER_PORT, "protocol": "TCP"},
            {"name": "block-manager", "containerPort": BLOCK_MANAGER_PORT, "protocol": "TCP"},
        ],
        "resources": _resources(application),
    }
    spec |= {
        "containers": [container],
        "serviceAccountName": application.service_account,
        # podFailurePolicy requires this. The Job controller, not the kubelet, restarts a driver.
        "restartPolicy": "Never",
    }
    return {"metadata": metadata, "spec": spec | _scheduling_fields(application)}


def _scheduling_fields(application: Application) -> Manifest:
    """Fields that decide where the driver's pod runs."""
    conf = application.spark_conf
    scheduler = conf.get(
        "spark.kubernetes.driver.scheduler.name", conf.get("spark.kubernetes.scheduler.name")
    )
    fields: Manifest = {
        "nodeSelector": _given(conf, "spark.kubernetes.node.selector.")
        | _given(conf, "spark.kubernetes.driver.node.selector."),
        "imagePullSecrets": [{"name": name} for name in application.image_pull_secrets],
        "schedulerName": scheduler,
    }
    return {name: value for name, value in fields.items() if value}


def _resources(application: Application) -> Manifest:
    size = application.driver
    limits = {"memory": size.pod_memory}
    if size.cpu_limit is not None:
        limits["cpu"] = size.cpu_limit
    return {"requests": {"cpu": size.cpu_request, "memory": size.pod_memory}, "limits": limits}


def _arguments(application: Application) -> list[str]:
    """Arguments of `spark-submit`. The kubelet substitutes `$(…)`."""
    of_pod = {
        "spark.driver.host": f"$({ADDRESS})",
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
    }
    fixed = {
        **FIXED,
        "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.driver.port": str(DRIVER_PORT),
        "spark.kubernetes.executor.podTemplateFile": f"{TEMPLATE_FOLDER}/{TEMPLATE_KEY}",
        "spark.kubernetes.namespace": application.namespace,
    }
    spark_conf = {**application.spark_conf, **fixed, **described(application)}
    conf = {key: _literal(value) for key, value in spark_conf.items()} | of_pod
    return [
        *("--master", f"k8s://{API_SERVER}"),
        *("--name", application.name),
        *(part for key in sorted(conf) for part in ("--conf", f"{key}={conf[key]}")),
        f"{JOBS_FOLDER}/{application.job.value}.py",
        REQUEST_PATH,
    ]


def _given(conf: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The entries whose keys have a prefix, without it."""
    length = len(prefix)
    return {key[length:]: value for key, value in conf.items() if key.startswith(prefix)}


def _literal(text: str) -> str:
    """The text escaped for the kubelet, which substitutes `$(NAME)`."""
    return text.replace("$", "$$")
