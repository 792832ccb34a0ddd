"""How the settings of an `Application` are determined: from the object with the job, else from its
BrokerCluster, else from Chiplog's defaults.

`spark_conf.check_spark` has checked the settings before, those of the cluster and of the object
separately. `sparkConf` is merged key by key; every other field is taken as a whole. So an object's
`driver: {cores: 2}` does not get its memory from the cluster's `driver`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from chiplog_core.durations import duration_ms
from chiplog_core.model.pod import PullPolicy
from chiplog_core.model.spark import SparkDriver, SparkExecutor, SparkOverrides, SparkSettings
from chiplog_core.model.spark_scheduling import BatchScheduler, SparkScheduling
from chiplog_core.spark.application import Application, Job, Owner, Size, Volume
from chiplog_core.validate import spark_conf

OVERHEAD_PERCENT = 40
MIN_OVERHEAD_MIB = 384
"""Memory of a pod besides the JVM heap: this percentage of the heap, but at least this many MiB.
These are Spark's own defaults for programs outside the JVM:
`spark.kubernetes.memoryOverheadFactor`."""

DEFAULTS: Mapping[str, str] = {
    # The UI is not needed, and it would be one more open port.
    "spark.ui.enabled": "false",
}
"""Chiplog's defaults of Spark configuration, which users can change."""

METRICS: Mapping[str, str] = {
    "spark.ui.enabled": "true",
    # A client that reaches the port may read, but not stop anything.
    "spark.ui.killEnabled": "false",
    "spark.ui.prometheus.enabled": "true",
    "spark.metrics.conf.*.sink.prometheusServlet.class": (
        "org.apache.spark.metrics.sink.PrometheusServlet"
    ),
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
}
"""Spark configuration for metrics: https://spark.apache.org/docs/4.2.0/monitoring.html#metrics"""

_IN_SIZES = frozenset(
    {
        spark_conf.DRIVER_OVERHEAD,
        spark_conf.EXECUTOR_OVERHEAD,
        spark_conf.DRIVER_CPU_REQUEST,
        spark_conf.DRIVER_CPU_LIMIT,
        spark_conf.EXECUTOR_CPU_REQUEST,
        spark_conf.EXECUTOR_CPU_LIMIT,
    }
)
"""The keys of sparkConf that become fields of `Size`, so that each launcher sets them its own
way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a job, as the object with the job asks for it. See `Application` for the
    fields."""

    name: str
    namespace: str
    owner: Owner
    job: Job
    labels: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    active_deadline_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDefaults:
    """The image of the pods, and how the operator and the BrokerCluster have images pulled."""

    image: str
    """The operator's image for jobs, used if the user names none."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[str, ...] = ()


def merged(settings: SparkSettings | None, overrides: SparkOverrides | None) -> SparkSettings:
    """The cluster's settings with an object's overrides. The launcher is always the cluster's."""
    base = settings or SparkSettings()
    over = overrides or SparkOverrides()
    return SparkSettings(
        launcher=base.launcher,
        image=over.image or base.image,
        service_account_name=over.service_account_name or base.service_account_name,
        user=base.user,
        driver=over.driver or base.driver,
        executor=over.executor or base.executor,
        spark_conf={**base.spark_conf, **(over.spark_conf or {})},
        retries=base.retries if over.retries is None else over.retries,
        time_to_live=over.time_to_live or base.time_to_live,
        start_time_limit=base.start_time_limit,
        scheduling=base.scheduling,
        monitoring=base.monitoring,
    )


def in_foreign_namespace(settings: SparkSettings) -> SparkSettings:
    """The settings of a cluster for jobs in another namespace: without its priority class, queue
    and batch scheduler, which are meant for its own namespace."""
    if settings.scheduling is None:
        return settings
    scheduling = replace(
        settings.scheduling, priority_class_name=None, queue=None, batch_scheduler=None
    )
    return replace(settings, scheduling=scheduling)


def application(run: Run, settings: SparkSettings, defaults: PodDefaults) -> Application:
    """The application to run.

    `settings` come from `merged`, and `check_spark` has found no problem with them. A `ValueError`
    here is a bug.
    """
    given = settings.spark_conf
    driver = settings.driver or SparkDriver()
    executor = settings.executor or SparkExecutor()
    return Application(
        name=run.name,
        namespace=run.namespace,
        owner=run.owner,
        job=run.job,
        labels=run.labels,
        volumes=run.volumes,
        active_deadline_s=run.active_deadline_s,
        image=settings.image or defaults.image,
        image_pull_policy=defaults.image_pull_policy,
        image_pull_secrets=defaults.image_pull_secrets,
        driver=Size(
            cores=driver.cores,
            memory_mib=spark_conf.memory_mib(driver.memory),
            overhead_mib=_overhead_mib(driver.memory, given.get(spark_conf.DRIVER_OVERHEAD)),
            cpu_request=given.get(spark_conf.DRIVER_CPU_REQUEST, str(driver.cores)),
            cpu_limit=given.get(spark_conf.DRIVER_CPU_LIMIT, driver.cpu_limit),
        ),
        executor=Size(
            cores=executor.cores,
            memory_mib=spark_conf.memory_mib(executor.memory),
            overhead_mib=_overhead_mib(executor.memory, given.get(spark_conf.EXECUTOR_OVERHEAD)),
            cpu_request=given.get(spark_conf.EXECUTOR_CPU_REQUEST, str(executor.cores)),
            cpu_limit=given.get(spark_conf.EXECUTOR_CPU_LIMIT, executor.cpu_limit),
        ),
        executors=executor.instances,
        service_account=settings.service_account_name or f"{run.name}-driver",
        retries=settings.retries,
        ttl_s=-(-duration_ms(settings.time_to_live) // 1000),
        scheduling=settings.scheduling or SparkScheduling(),
        has_metrics=settings.monitoring is not None and settings.monitoring.prometheus,
        spark_conf={
            key: value
            for key, value in {**DEFAULTS, **given, **_of_blocks(settings)}.items()
            if key not in _IN_SIZES
        },
    )


def _of_blocks(settings: SparkSettings) -> dict[str, str]:
    """The Spark configuration for the blocks of the spec. It takes precedence over sparkConf."""
    found: dict[str, str] = {}
    scheduling, monitoring = settings.scheduling, settings.monitoring
    if scheduling is not None and scheduling.batch_scheduler is BatchScheduler.YUNIKORN:
        found["spark.kubernetes.scheduler.name"] = "yunikorn"
    if monitoring is not None and monitoring.prometheus:
        found |= METRICS
    if monitoring is not None and monitoring.event_log_directory is not None:
        found["spark.eventLog.enabled"] = "true"
        found["spark.eventLog.dir"] = monitoring.event_log_directory
    return found


def _overhead_mib(heap: str, given: str | None) -> int:
    """Memory of a pod besides a JVM heap of this size, in MiB: the `given` one, else by Spark's
    rule."""
    if given is not None:
        return spark_conf.memory_mib(given)
    return max(MIN_OVERHEAD_MIB, spark_conf.memory_mib(heap) * OVERHEAD_PERCENT // 100)
