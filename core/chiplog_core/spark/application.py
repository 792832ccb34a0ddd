"""A Spark application to run, independent of the launcher that will run it.

An `Application` is complete: every default is resolved, every setting checked (by `settings.py`).
The launchers' modules turn it into manifests and add no setting that a user can make.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chiplog_core.model.pod import PullPolicy
from chiplog_core.model.spark_scheduling import BatchScheduler, SparkScheduling
from chiplog_core.naming import api

SPARK_VERSION = "4.2.0"
"""The version in the jobs' image. Driver, executors and the launchers' manifests must all name
it."""

USER_ID = 185
"""User id and group id of the processes: those of Spark's own images."""

APPLICATION_LABEL = f"{api.GROUP}/spark-application"
"""Label of every object of an application, its pods included; the value is the application's
name."""

MAX_NAME_LENGTH = 48
"""With this limit a name is still a DNS label after launchers and Spark have appended a suffix
like `-driver-svc`."""

REQUEST_FOLDER = "/etc/chiplog/job"
REQUEST_PATH = f"{REQUEST_FOLDER}/request.json"
"""The driver's first argument: the file with the request."""

JOBS_FOLDER = "/opt/chiplog/jobs"
"""The directory in the image with the main files of the jobs."""

KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/"""

METRICS_PORT = 4040
"""The port of Spark's UI, which serves the metrics."""

_NAME = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


class Job(StrEnum):
    """The jobs in the image, by the names of their main files."""

    VERIFY = "verify"
    EXPORT = "export"
    REBALANCE = "rebalance"

    @property
    def main_file(self) -> str:
        """The address of the main file. Spark's scheme `local:` means a file in the image."""
        return f"local://{JOBS_FOLDER}/{self.value}.py"


class VolumeKind(StrEnum):
    """Kind of the object that a volume mounts."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - the kind of object
    CLAIM = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume that driver and executors mount, like a Secret with a password or a claim."""

    name: str
    """Unique in the pod: a DNS label that does not begin with `chiplog-` or `spark-`, because the
    names of Chiplog's and Spark's own volumes do."""
    kind: VolumeKind
    source: str
    """Name of the ConfigMap, Secret or PersistentVolumeClaim, in the application's namespace."""
    path: str
    """The directory where it is mounted."""
    read_only: bool = True
    """False only for a claim, the one kind that can be written to."""
    is_optional: bool = False
    """Only for a Secret: whether the pods start even if the Secret does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The owner of an application's objects: Kubernetes deletes them together with it."""

    api_version: str
    kind: str
    name: str
    uid: str

    def to_reference(self) -> dict[str, object]:
        """The entry of `metadata.ownerReferences`."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """CPU and memory of the driver's pod, or of each executor's."""

    cores: int
    """How many tasks an executor runs at the same time; for the driver: number of threads."""
    memory_mib: int
    """Heap of the JVM, in MiB."""
    overhead_mib: int
    """Memory of the pod besides the JVM's heap, in MiB; Python's processes use it."""
    cpu_request: str
    """The pod's CPU request, as a Kubernetes quantity."""
    cpu_limit: str | None = None
    """The pod's CPU limit, as a Kubernetes quantity; None is no limit."""

    @property
    def memory(self) -> str:
        """The heap as Spark writes it, like `1024m`."""
        return f"{self.memory_mib}m"

    @property
    def overhead(self) -> str:
        """The memory beside the heap, as Spark writes it."""
        return f"{self.overhead_mib}m"

    @property
    def pod_memory(self) -> str:
        """Request and limit of the pod's memory, as a Kubernetes quantity."""
        return f"{self.memory_mib + self.overhead_mib}Mi"


def result_key_of(application: str) -> str:
    """Name of the Secret with the key with which operator and driver of this application sign the
    request and the result."""
    return f"{application}-result-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A Spark application with all its settings.

    Raises `ValueError` if the names of pods and Services cannot begin with its name. The operator
    makes the names, so this is a bug of the operator and not a user's mistake.
    """

    name: str
    """At most `MAX_NAME_LENGTH` characters, a DNS label that begins with a letter."""
    namespace: str
    owner: Owner
    """The user's object that asked for it, in the same namespace."""
    job: Job
    image: str
    driver: Size
    executor: Size
    executors: int
    """How many executors there are."""
    service_account: str
    """ServiceAccount of the driver; `own_service_account` if the user named none."""
    retries: int
    """How often it is started again after it failed, at most."""
    ttl_s: int
    """How long its objects are kept after it ended, in seconds."""
    active_deadline_s: int | None = None
    """How long it may run in all, retries included, in seconds; None is no limit. Kubernetes
    enforces it for a `Job`; a `SparkApplication` has no such field, so the operator deletes it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of all its objects, beside `APPLICATION_LABEL`."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[str, ...] = ()
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Further Spark configuration, without the keys that the other fields here set."""
    volumes: tuple[Volume, ...] = ()
    scheduling: SparkScheduling = field(default_factory=SparkScheduling)
    has_metrics: bool = False
    """Whether the driver serves metrics for Prometheus at `METRICS_PORT`."""

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME_LENGTH or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a valid application name: use a DNS label of at most "
                f"{MAX_NAME_LENGTH} characters that begins with a letter"
            )

    @property
    def request_config_map(self) -> str:
        """The ConfigMap with the request, which the operator creates first."""
        return f"{self.name}-request"

    @property
    def result_config_map(self) -> str:
        """The ConfigMap for the result, which the operator creates empty before the run."""
        return f"{self.name}-result"

    @property
    def result_key(self) -> str:
        """Name of the Secret with the key that the driver signs its result with."""
        return result_key_of(self.name)

    @property
    def template_config_map(self) -> str:
        """The ConfigMap with the executors' pod template, for launchers that need it."""
        return f"{self.name}-executor"

    @property
    def own_service_account(self) -> str:
        """The ServiceAccount that the operator creates for the driver, unless the spec names
        one."""
        return f"{self.name}-driver"

    @property
    def executor_service_account(self) -> str:
        """The ServiceAccount of the executors, which has no permissions."""
        return f"{self.name}-executor"

    @property
    def pod_labels(self) -> dict[str, str]:
        """The labels of driver and executors. YuniKorn gets two more, by which it schedules the
        pods of an application together."""
        scheduling = self.scheduling
        if scheduling.batch_scheduler is not BatchScheduler.YUNIKORN:
            return self.all_labels
        queue = {} if scheduling.queue is None else {"queue": scheduling.queue}
        return {**self.all_labels, "applicationId": self.name, **queue}

    @property
    def launched_labels(self) -> dict[str, str]:
        """Labels of the `SparkApplication` or Job; with Kueue also the label of its queue."""
        scheduling = self.scheduling
        if scheduling.batch_scheduler is not BatchScheduler.KUEUE or scheduling.queue is None:
            return self.all_labels
        return {**self.all_labels, KUEUE_LABEL: scheduling.queue}

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of every object of the application."""
        return {**self.labels, APPLICATION_LABEL: self.name}
