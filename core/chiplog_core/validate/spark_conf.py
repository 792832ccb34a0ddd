"""Which Spark configuration a user may set, and what to set instead of other keys.

The driver may create pods, so a user who makes it run other code can use every ServiceAccount and
Secret of its namespace. Configuration can do that in many ways: JVM options load an agent, a class
name loads a class, a variable changes which modules Python imports, a label makes a pod part of
another Service, and without `spark.authenticate` everybody who reaches the driver's port can send
it tasks. So users may set only the listed keys, which are for sizes, times and the placement of
pods. Keys as of Spark 4.2: https://spark.apache.org/docs/4.2.0/configuration.html and
https://spark.apache.org/docs/4.2.0/running-on-kubernetes.html#configuration
"""

import re
from collections.abc import Iterator, Mapping

from chiplog_core.model.spark import (
    SparkDriver,
    SparkExecutor,
    SparkLauncher,
    SparkOverrides,
    SparkSettings,
)
from chiplog_core.model.spark_scheduling import BatchScheduler, SparkScheduling
from chiplog_core.problems import Problem, nearest
from chiplog_core.quantities import QUANTITY_MEANING, QUANTITY_PATTERN

DRIVER_OVERHEAD = "spark.driver.memoryOverhead"
EXECUTOR_OVERHEAD = "spark.executor.memoryOverhead"
DRIVER_CPU_REQUEST = "spark.kubernetes.driver.request.cores"
DRIVER_CPU_LIMIT = "spark.kubernetes.driver.limit.cores"
EXECUTOR_CPU_REQUEST = "spark.kubernetes.executor.request.cores"
EXECUTOR_CPU_LIMIT = "spark.kubernetes.executor.limit.cores"

WHERE_LISTED = "docs/verification.md"
"""The page that lists the keys that users may set."""

MIN_MEMORY_MIB = 450
"""Spark's own minimum for driver and executors: 1.5 times its reserved 300 MiB
(`UnifiedMemoryManager`)."""

_CPU_KEYS = (DRIVER_CPU_REQUEST, DRIVER_CPU_LIMIT, EXECUTOR_CPU_REQUEST, EXECUTOR_CPU_LIMIT)

OF_THE_SYSTEM = "system-"
"""Prefix of Kubernetes' own priority classes."""

_OF_OPERATOR = "remove it; the operator sets it"
_IN_IMAGE = "remove it, and build what the job needs into an image of your own: {spark}.image"
_OVERHEAD = f"set {DRIVER_OVERHEAD} and {EXECUTOR_OVERHEAD}"

OURS: Mapping[str, str] = {
    "spark.app.id": _OF_OPERATOR,
    "spark.app.name": _OF_OPERATOR,
    "spark.authenticate": "remove it; it is always on, because otherwise everybody who can "
    "connect could run code",
    "spark.blockManager.port": _OF_OPERATOR,
    "spark.driver.bindAddress": _OF_OPERATOR,
    "spark.driver.blockManager.port": _OF_OPERATOR,
    "spark.driver.cores": "set {spark}.driver.cores",
    "spark.driver.host": _OF_OPERATOR,
    "spark.driver.memory": "set {spark}.driver.memory",
    "spark.driver.memoryOverheadFactor": _OVERHEAD,
    "spark.driver.minMemoryOverhead": _OVERHEAD,
    "spark.driver.port": _OF_OPERATOR,
    "spark.executor.cores": "set {spark}.executor.cores",
    "spark.executor.instances": "set {spark}.executor.instances",
    "spark.executor.memory": "set {spark}.executor.memory",
    "spark.executor.memoryOverheadFactor": _OVERHEAD,
    "spark.executor.minMemoryOverhead": _OVERHEAD,
    "spark.kubernetes.authenticate.driver.serviceAccountName": "set {spark}.serviceAccountName",
    "spark.kubernetes.container.image": "set {spark}.image",
    "spark.kubernetes.container.image.pullPolicy": "set spec.imagePullPolicy of the BrokerCluster",
    "spark.kubernetes.container.image.pullSecrets": "set spec.template.imagePullSecrets of the "
    "BrokerCluster",
    "spark.kubernetes.driver.container.image": "set {spark}.image",
    "spark.kubernetes.executor.container.image": "set {spark}.image",
    "spark.kubernetes.memoryOverheadFactor": _OVERHEAD,
    "spark.kubernetes.namespace": "remove it; a job runs in the namespace of its Verification or "
    "Rebalance",
    "spark.local.dir": "remove it; pods have a directory for it and can write nowhere else",
    "spark.master": _OF_OPERATOR,
    "spark.pyspark.driver.python": _IN_IMAGE,
    "spark.pyspark.python": _IN_IMAGE,
}
"""Keys that Chiplog sets itself, with what users can do instead. `{spark}` is replaced by the path
of the user's settings, like spec.spark."""

OUR_PREFIXES: Mapping[str, str] = {
    "spark.archives": _IN_IMAGE,
    "spark.files": _IN_IMAGE,
    "spark.jars": _IN_IMAGE,
    "spark.submit.": _OF_OPERATOR,
}
"""Prefixes of keys that Chiplog sets itself, with what users can do instead; `{spark}` as in
`OURS`."""

GIVEN = frozenset(
    {
        DRIVER_OVERHEAD,
        EXECUTOR_OVERHEAD,
        *_CPU_KEYS,
        "spark.default.parallelism",
        "spark.driver.maxResultSize",
        "spark.eventLog.enabled",
        "spark.executor.heartbeatInterval",
        "spark.kubernetes.allocation.batch.delay",
        "spark.kubernetes.allocation.batch.size",
        "spark.kubernetes.allocation.driver.readinessTimeout",
        "spark.kubernetes.allocation.executor.timeout",
        "spark.kubernetes.allocation.maxPendingPods",
        "spark.kubernetes.driver.connectionTimeout",
        "spark.kubernetes.driver.requestTimeout",
        "spark.kubernetes.driver.scheduler.name",
        "spark.kubernetes.executor.apiPollingInterval",
        "spark.kubernetes.executor.eventProcessingInterval",
        "spark.kubernetes.executor.missingPodDetectDelta",
        "spark.kubernetes.executor.scheduler.name",
        "spark.kubernetes.executor.terminationGracePeriodSeconds",
        "spark.kubernetes.local.dirs.tmpfs",
        "spark.kubernetes.scheduler.name",
        "spark.locality.wait",
        "spark.log.level",
        "spark.memory.fraction",
        "spark.memory.offHeap.enabled",
        "spark.memory.offHeap.size",
        "spark.memory.storageFraction",
        "spark.network.timeout",
        "spark.rdd.compress",
        "spark.reducer.maxSizeInFlight",
        "spark.rpc.askTimeout",
        "spark.rpc.message.maxSize",
        "spark.scheduler.mode",
        "spark.shuffle.compress",
        "spark.shuffle.file.buffer",
        "spark.shuffle.spill.compress",
        "spark.speculation",
        "spark.speculation.interval",
        "spark.speculation.multiplier",
        "spark.speculation.quantile",
        "spark.sql.adaptive.advisoryPartitionSizeInBytes",
        "spark.sql.adaptive.coalescePartitions.enabled",
        "spark.sql.adaptive.enabled",
        "spark.sql.adaptive.skewJoin.enabled",
        "spark.sql.autoBroadcastJoinThreshold",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.shuffle.partitions",
        "spark.task.cpus",
        "spark.task.maxFailures",
        "spark.ui.enabled",
    }
)
"""The keys that users may set. No value of them is a class, a file, an option of a process or an
object of Kubernetes."""

GIVEN_PREFIXES = (
    "spark.kubernetes.driver.node.selector.",
    "spark.kubernetes.executor.node.selector.",
    "spark.kubernetes.node.selector.",
)
"""Users may also set all keys with these prefixes."""

_KEY = re.compile(r"spark\.[A-Za-z0-9_./-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_MEMORY = re.compile("([0-9]{1,9})([kmgt]?)b?", re.IGNORECASE)
_QUANTITY = re.compile(QUANTITY_PATTERN)
_KIB = {"k": 1, "": 1024, "m": 1024, "g": 1024**2, "t": 1024**3}
"""KiB per unit of memory."""


def memory_mib(text: str) -> int:
    """The size in MiB of a Spark memory setting like `1g` or `512m`. A number without a unit is
    MiB.

    It is rounded down, as in Spark. Raises `ValueError`, which says how to write memory.
    """
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a number followed by k, m, g or t, like 1g")
    return int(match[1]) * _KIB[match[2].lower()] // 1024


def check_spark(
    settings: SparkSettings | SparkOverrides, field: str = "spec.spark"
) -> tuple[Problem, ...]:
    """Problems with the settings for jobs. `field` is their path."""
    return (
        *_heap(settings.driver, f"{field}.driver.memory"),
        *_heap(settings.executor, f"{field}.executor.memory"),
        *(
            problem
            for key, value in sorted((settings.spark_conf or {}).items())
            for problem in _entry(key, value, field)
        ),
        *(_scheduling(settings, field) if isinstance(settings, SparkSettings) else ()),
    )


def _scheduling(settings: SparkSettings, spark: str) -> Iterator[Problem]:
    """Problems with the settings for scheduling."""
    scheduling = settings.scheduling or SparkScheduling()
    field, name = f"{spark}.scheduling", scheduling.priority_class_name
    if name is not None and name.startswith(OF_THE_SYSTEM):
        message = f"is {name}, which is for pods of Kubernetes itself"
        yield Problem(f"{field}.priorityClassName", message, "name a PriorityClass of your own")
    is_volcano = scheduling.batch_scheduler is BatchScheduler.VOLCANO
    if is_volcano and settings.launcher is not SparkLauncher.KUBEFLOW:
        message = f"is Volcano, and {spark}.launcher is {settings.launcher.value}"
        remedy = f"set {spark}.launcher to Kubeflow, the only launcher that supports Volcano"
        yield Problem(f"{field}.batchScheduler", message, remedy)
    if scheduling.queue is not None and scheduling.batch_scheduler is None:
        message = "is set, which requires a batch scheduler"
        yield Problem(f"{field}.queue", message, f"set {field}.batchScheduler, or remove it")


def _heap(pods: SparkDriver | SparkExecutor | None, field: str) -> Iterator[Problem]:
    """Problems with the memory of driver or executors."""
    if pods is not None and memory_mib(pods.memory) < MIN_MEMORY_MIB:
        message = f"is {pods.memory}, below the {MIN_MEMORY_MIB}m without which Spark does not run"
        yield Problem(field, message, "set it to 512m or more")


def _entry(key: str, value: str, spark: str) -> Iterator[Problem]:
    """The problem with one entry of sparkConf, if it has one. `spark` is the path of the settings,
    like spec.spark."""
    field = f"{spark}.sparkConf[{key}]"
    remedy = _refusal(key)
    if not _KEY.fullmatch(key):
        yield Problem(field, "is not a Spark key: these start with spark.", "correct or remove it")
    elif remedy is not None:
        yield Problem(field, "cannot be set by sparkConf", remedy.format(spark=spark))
    elif _CONTROL.search(value):
        yield Problem(field, "contains a control character", "write it on one line")
    elif key in (DRIVER_OVERHEAD, EXECUTOR_OVERHEAD) and not _MEMORY.fullmatch(value):
        yield Problem(field, f"is {value!r}", "write a number followed by k, m, g or t, like 512m")
    elif key in _CPU_KEYS and not _QUANTITY.fullmatch(value):
        yield Problem(field, f"is {value!r}", f"write {QUANTITY_MEANING}")


def _refusal(key: str) -> str | None:
    """What to do instead of setting this key; None if it may be set."""
    if key in OURS:
        return OURS[key]
    for prefix, remedy in OUR_PREFIXES.items():
        if key.startswith(prefix):
            return remedy
    if key in GIVEN or key.startswith(GIVEN_PREFIXES):
        return None
    near = nearest(key, GIVEN)
    hint = f"; did you mean {near}?" if near is not None else ""
    return f"remove it; the keys that can be set are listed in {WHERE_LISTED}{hint}"
