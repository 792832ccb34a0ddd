"""An application as `SparkApplication` of Apache Spark's own operator (`spark.apache.org`).

Fields: https://github.com/apache/spark-kubernetes-operator/blob/main/docs/spark_custom_resources.md.
Nearly everything is Spark configuration there; the rest is in pod templates.
"""

from chiplog_core.spark.application import REQUEST_PATH, SPARK_VERSION, Application
from chiplog_core.spark.pods import Manifest, driver_template, executor_template, launched_of
from chiplog_core.spark.properties import FIXED, described

GROUP = "spark.apache.org"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "SparkApplication"

RETRY_INTERVAL_MS = 30_000


def spark_application(application: Application) -> Manifest:
    """The `SparkApplication`, the only object to create.

    `pyFiles` is the main file of a Python application in this API. Resources are kept until the
    time to live is over, for their logs, so the final state is `TerminatedWithoutReleaseResources`.
    """
    spec: Manifest = {
        "runtimeVersions": {"sparkVersion": SPARK_VERSION},
        "deploymentMode": "ClusterMode",
        "pyFiles": application.job.main_file,
        "driverArgs": [REQUEST_PATH],
        "sparkConf": {
            **application.spark_conf,
            **FIXED,
            **described(application),
            "spark.app.name": application.name,
        },
        "driverSpec": {"podTemplateSpec": driver_template(application)},
        "executorSpec": {"podTemplateSpec": executor_template(application)},
        "applicationTolerations": {
            "resourceRetainPolicy": "Always",
            "ttlAfterStopMillis": application.ttl_s * 1_000,
            "restartConfig": _restart_config(application.retries),
        },
    }
    return launched_of(application, API_VERSION, KIND, spec)


def _restart_config(retries: int) -> Manifest:
    """How often the launcher starts the application again."""
    if retries == 0:
        return {"restartPolicy": "Never"}
    return {
        "restartPolicy": "OnFailure",
        "maxRestartAttempts": retries,
        "restartBackoffMillis": RETRY_INTERVAL_MS,
    }
