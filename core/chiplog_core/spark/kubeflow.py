"""An application as `SparkApplication` of Kubeflow's Spark operator (`sparkoperator.k8s.io`).

Fields: https://github.com/kubeflow/spark-operator/blob/master/docs/api-docs.md. Only fields are
used that Kubeflow's operator itself passes to `spark-submit`. Volumes, security contexts and labels
are in the pod templates, so that they work without its admission webhook, too.
"""

from chiplog_core.model.spark_scheduling import BatchScheduler, SparkScheduling
from chiplog_core.spark.application import REQUEST_PATH, SPARK_VERSION, Application, Size
from chiplog_core.spark.pods import Manifest, driver_template, executor_template, launched_of
from chiplog_core.spark.properties import FIXED

GROUP = "sparkoperator.k8s.io"
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "SparkApplication"

RETRY_INTERVAL_S = 30


def spark_application(application: Application) -> Manifest:
    """The `SparkApplication`, the only object to create.

    The launcher has no deadline for a run, and waits forever for a driver whose image cannot be
    pulled (https://github.com/kubeflow/spark-operator/issues/2667). The caller of `states.observed`
    ends such a run by deleting the object.
    """
    spec: Manifest = {
        "type": "Python",
        "pythonVersion": "3",
        "mode": "cluster",
        "sparkVersion": SPARK_VERSION,
        "image": application.image,
        "imagePullPolicy": application.image_pull_policy.value,
        "mainApplicationFile": application.job.main_file,
        "arguments": [REQUEST_PATH],
        "sparkConf": {**application.spark_conf, **FIXED},
        "restartPolicy": _restart_policy(application.retries),
        "timeToLiveSeconds": application.ttl_s,
        "driver": {
            **_size(application.driver),
            "serviceAccount": application.service_account,
            "template": driver_template(application),
        },
        "executor": {
            **_size(application.executor),
            "instances": application.executors,
            "serviceAccount": application.executor_service_account,
            "template": executor_template(application),
        },
    }
    if application.image_pull_secrets:
        spec["imagePullSecrets"] = list(application.image_pull_secrets)
    spec |= _batch_scheduler(application.scheduling)
    return launched_of(application, API_VERSION, KIND, spec)


def _batch_scheduler(scheduling: SparkScheduling) -> Manifest:
    """The fields for Volcano, whose PodGroup the launcher creates. YuniKorn needs only its name
    and labels."""
    if scheduling.batch_scheduler is not BatchScheduler.VOLCANO:
        return {}
    options = {"queue": scheduling.queue, "priorityClassName": scheduling.priority_class_name}
    chosen = {name: value for name, value in options.items() if value is not None}
    return {
        "batchScheduler": "volcano",
        **({"batchSchedulerOptions": chosen} if chosen else {}),
    }


def _size(size: Size) -> Manifest:
    """The fields for CPU and memory of the driver or the executors."""
    fields: Manifest = {
        "cores": size.cores,
        "coreRequest": size.cpu_request,
        "memory": size.memory,
        "memoryOverhead": size.overhead,
    }
    return fields if size.cpu_limit is None else {**fields, "coreLimit": size.cpu_limit}


def _restart_policy(retries: int) -> Manifest:
    """How often the launcher starts the application again, after a failed run or submission."""
    if retries == 0:
        return {"type": "Never"}
    return {
        "type": "OnFailure",
        "onFailureRetries": retries,
        "onFailureRetryInterval": RETRY_INTERVAL_S,
        "onSubmissionFailureRetries": retries,
        "onSubmissionFailureRetryInterval": RETRY_INTERVAL_S,
    }
