"""An application as a `Job` whose pod is the driver, for clusters without a Spark operator.

The pod runs `spark-submit` in client mode; Spark itself creates the executors' pods. They are owned
by the driver's pod, which is owned by the Job, so all are deleted with the Job.
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
"""The ports that Spark uses by default in cluster mode. Executors connect to the address of the
driver's pod, so no Service is needed."""

TEMPLATE_FOLDER = "/etc/chiplog/executor"
TEMPLATE_KEY = "pod.json"

LOCAL_VOLUME = "chiplog-local"
LOCAL_FOLDER = "/var/data/spark-local"
"""The driver's directory for temporary data, an emptyDir. For executors, and for drivers in cluster
mode, Spark creates it."""

ADDRESS = "SPARK_DRIVER_BIND_ADDRESS"
"""The environment variable with the address that the driver listens on; the image's entry point
reads it."""

ENVIRONMENT: tuple[Manifest, ...] = (
    {"name": ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "SPARK_LOCAL_DIRS", "value": LOCAL_FOLDER},
)
"""The driver's environment. Users cannot add variables, because a variable can change which code
Python and Java load."""

EXIT_WITH_RESULT = 3
"""Exit code of a job that failed and wrote a result with the reason; a retry would fail, too."""

EXIT_OUT_OF_HEAP = 52
"""`SparkExitCode.OOM`: the JVM's heap was too small."""

EXIT_KILLED = 137
"""128 + SIGKILL: in general the container exceeded its memory limit."""

_EVICTED = [{"type": "DisruptionTarget", "status": "True"}]
"""The pod condition that Kubernetes sets when it evicts or preempts a pod, or loses its node."""


def objects(application: Application) -> tuple[Manifest, ...]:
    """The ConfigMap with the executors' pod template, and the Job, in the order in which to
    create them."""
    return (_template_config_map(application), _job(application))


def _template_config_map(application: Application) -> Manifest:
    """The ConfigMap with the executors' pod template. Spark reads it from a file."""
    pod = {"apiVersion": "v1", "kind": "Pod", **executor_template(application)}
    data = {TEMPLATE_KEY: json.dumps(pod, indent=1, sort_keys=True)}
    name = application.template_config_map
    return object_of(application, "v1", "ConfigMap", name, {"data": data})


def _job(application: Application) -> Manifest:
    """The Job. It does not retry failures that a retry cannot help, like too little memory."""
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
        "nodeSelector": _with_prefix(conf, "spark.kubernetes.node.selector.")
        | _with_prefix(conf, "spark.kubernetes.driver.node.selector."),
        "imagePullSecrets": [{"name": name} for name in application.image_pull_secrets],
        "schedulerName": scheduler,
    }
    return {name: value for name, value in fields.items() if value}


def _resources(application: Application) -> Manifest:
    """The driver's resource requests and limits. Memory has the same request and limit."""
    size = application.driver
    limits = {"memory": size.pod_memory}
    if size.cpu_limit is not None:
        limits["cpu"] = size.cpu_limit
    return {"requests": {"cpu": size.cpu_request, "memory": size.pod_memory}, "limits": limits}


def _arguments(application: Application) -> list[str]:
    """Arguments of `spark-submit`. The kubelet substitutes `$(…)` with environment variables, so
    only `from_pod` contains such references; all other values are escaped."""
    from_pod = {
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
    conf = {key: _literal(value) for key, value in spark_conf.items()} | from_pod
    return [
        *("--master", f"k8s://{API_SERVER}"),
        *("--name", application.name),
        *(part for key in sorted(conf) for part in ("--conf", f"{key}={conf[key]}")),
        f"{JOBS_FOLDER}/{application.job.value}.py",
        REQUEST_PATH,
    ]


def _with_prefix(conf: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The entries whose keys begin with the prefix, which is removed from the keys."""
    length = len(prefix)
    return {key[length:]: value for key, value in conf.items() if key.startswith(prefix)}


def _literal(text: str) -> str:
    """The text escaped for the kubelet, which substitutes `$(NAME)`."""
    return text.replace("$", "$$")
