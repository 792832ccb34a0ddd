"""How Spark jobs are run for a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.durations import Duration
from chiplog_core.manifest.constraints import Entries, Length, Pattern, Range
from chiplog_core.model.pod import Image
from chiplog_core.model.references import ObjectName
from chiplog_core.model.spark_scheduling import SparkMonitoring, SparkScheduling
from chiplog_core.quantities import Quantity

ONE_DAY = Duration("1d")
FIFTEEN_MINUTES = Duration("15m")

SparkMemory = Annotated[
    str,
    Length(16, minimum=2),
    Pattern("[0-9]{1,9}[kmgt]", "a number followed by k, m, g or t, like 1g"),
]


class SparkLauncher(StrEnum):
    """What runs a Spark job."""

    AUTO = "Auto"
    KUBEFLOW = "Kubeflow"
    APACHE = "Apache"
    JOB = "Job"


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkDriver:
    """The driver of a Spark job."""

    cores: Annotated[int, "Number of CPU cores of the Spark driver.", Range(1, 64)] = 1
    memory: Annotated[SparkMemory, "Heap size of the Spark driver, like 1g."] = "1g"
    cpu_limit: Annotated[
        Quantity | None,
        "CPU limit of the Spark driver, like 2; for namespaces whose ResourceQuota "
        "requires limits.cpu.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkExecutor:
    """The executors of a Spark job."""

    instances: Annotated[int, "Number of Spark executors.", Range(1, 1_000)] = 2
    cores: Annotated[int, "Number of CPU cores of each Spark executor.", Range(1, 64)] = 1
    memory: Annotated[SparkMemory, "Heap size of each Spark executor, like 1g."] = "1g"
    cpu_limit: Annotated[
        Quantity | None,
        "CPU limit of each Spark executor, like 2; for namespaces whose ResourceQuota "
        "requires limits.cpu.",
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How jobs that verify, rebalance or export data are run."""

    launcher: Annotated[
        SparkLauncher,
        "What runs the Spark jobs. Kubeflow: the Spark operator of "
        "sparkoperator.k8s.io. Apache: that of spark.apache.org. Job: spark-submit in a "
        "plain Job, for clusters without a Spark operator. Auto: whichever of them the "
        "API server offers.",
    ] = SparkLauncher.AUTO
    image: Annotated[
        Image | None,
        "Container image of the jobs in this namespace; default: the image that the operator was "
        "installed with. The author of the object must be allowed to create pods here, or the "
        "operator's chart "
        "must list it in spark.allowedImages.",
    ] = None
    service_account_name: Annotated[
        ObjectName | None,
        "ServiceAccount that drivers in this namespace run as; default: one that the operator "
        "creates. The author of the object must be allowed to create pods here, or the operator's "
        "chart must list it in spark.allowedServiceAccounts.",
    ] = None
    user: Annotated[
        ObjectName | None,
        "User of this cluster as which jobs in this namespace connect to the brokers, of type tls "
        "or scram-sha-512. Its rules must let it read what the jobs read. Default: nobody, through "
        "a listener without authentication.",
    ] = None
    driver: Annotated[SparkDriver | None, "CPU and memory of the Spark driver of each job."] = None
    executor: Annotated[
        SparkExecutor | None, "Number, CPU and memory of the Spark executors of each job."
    ] = None
    spark_conf: Annotated[
        Mapping[str, Annotated[str, Length(4_096)]],
        "More Spark configuration, like spark.sql.shuffle.partitions: sizes, times, and where "
        "pods run.",
        Entries(100),
    ] = field(default_factory=dict)
    retries: Annotated[int, "How often a failed job is retried.", Range(0, 20)] = 2
    time_to_live: Annotated[
        Duration, "How long a finished job's objects are kept, for its logs, like 1d."
    ] = ONE_DAY
    start_time_limit: Annotated[
        Duration,
        "How long a job may wait for its driver or for executors before it fails. Raise it if "
        "jobs wait in a queue.",
    ] = FIFTEEN_MINUTES
    scheduling: Annotated[
        SparkScheduling | None, "How the pods of drivers and executors are scheduled."
    ] = None
    monitoring: Annotated[SparkMonitoring | None, "Metrics and event logs of the jobs."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkOverrides:
    """Settings of this job that differ from the cluster's spec.spark."""

    image: Annotated[
        Image | None,
        "Container image of the job. The author of the object must be allowed to create pods here, "
        "or the operator's chart must list it in spark.allowedImages.",
    ] = None
    service_account_name: Annotated[
        ObjectName | None,
        "ServiceAccount the driver runs as, in this object's namespace. The author of the object "
        "must be allowed to create pods here, or the operator's chart must list it in "
        "spark.allowedServiceAccounts.",
    ] = None
    driver: Annotated[SparkDriver | None, "CPU and memory of the Spark driver."] = None
    executor: Annotated[SparkExecutor | None, "Number, CPU and memory of the Spark executors."] = (
        None
    )
    spark_conf: Annotated[
        Mapping[str, Annotated[str, Length(4_096)]] | None,
        "More Spark configuration; its keys override those in spec.spark.sparkConf of "
        "the BrokerCluster.",
        Entries(100),
    ] = None
    retries: Annotated[int | None, "How often a failed job is retried.", Range(0, 20)] = None
    time_to_live: Annotated[
        Duration | None, "How long a finished job's objects are kept, for its logs, like 1d."
    ] = None
