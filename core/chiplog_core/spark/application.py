"""What is to be run with Spark, whichever launcher will run it.

An `Application` is complete: every default is resolved, every setting checked (by `settings.py`).
The launchers' modules turn it into manifests and add nothing that a user could have said.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from chiplog_core.model.pod import PullPolicy
from chiplog_core.model.spark_scheduling import BatchScheduler, SparkScheduling
from chiplog_core.naming import api

SPARK_VERSION = "4.2.0"
"""Of the jobs' image: driver, executors and the launchers' manifests have to agree on it."""

USER_ID = 185
"""Who the processes run as: the user of Spark's own images, group included."""

APPLICATION_LABEL = f"{api.GROUP}/spark-application"
"""Label of everything made for an application, its pods included: the application's name."""

MAX_NAME_LENGTH = 48
"""So that what launchers and Spark append (`-driver-svc`, `-ui-svc`) still makes a DNS label."""

REQUEST_FOLDER = "/etc/chiplog/job"
REQUEST_PATH = f"{REQUEST_FOLDER}/request.json"
"""The driver's first argument: where it finds the request."""

JOBS_FOLDER = "/opt/chiplog/jobs"
"""Where the image has the main files."""

KUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""https://kueue.sigs.k8s.io/docs/reference/labels-and-annotations/"""

METRICS_PORT = 4040
"""Of Spark's UI, which serves them."""

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
    """What a volume is made of."""

    CONFIG_MAP = "ConfigMap"
    SECRET = "Secret"  # noqa: S105 - the kind of object
    CLAIM = "PersistentVolumeClaim"


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume that driver and executors mount, like a Secret with a password or a claim."""

    name: str
    """Unique in the pod: a DNS label that does not begin with `chiplog-` or `spark-`, as those of
    ours and of Spark do."""
    kind: VolumeKind
    source: str
    """Name of the ConfigMap, Secret or PersistentVolumeClaim, in the application's namespace."""
    path: str
    """Where it is mounted."""
    read_only: bool = True
    """Only a claim can be written to."""
    is_optional: bool = False
    """Of a Secret: the pods are started without it where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The object that everything made for an application goes with."""

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
    """Tasks at a time (of the driver: threads)."""
    memory_mib: int
    """Heap of the JVM."""
    overhead_mib: int
    """What the pod may use beside that heap; Python's processes live in it."""
    cpu_request: str
    """CPU that is reserved, as a Kubernetes quantity."""
    cpu_limit: str | None = None
    """CPU that is never exceeded, as a Kubernetes quantity; None is no limit."""

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
    """Name of the Secret with the key of an application, by which operator and driver sign."""
    return f"{application}-result-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """A Spark application, complete.

    Raises `ValueError` where the name cannot be the stem of pods' and Services' names: names are
    made by the operator, so that is a fault of ours and no user's mistake.
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
    """What the driver runs as; `own_service_account` where the user named none."""
    retries: int
    """How often it is started again after it failed, at most."""
    ttl_s: int
    """How long its objects are kept after it ended, in seconds."""
    active_deadline_s: int | None = None
    """How long it may run in all, retries included, in seconds; None is as long as it takes.
    Only a `Job` has such a field: of a `SparkApplication` our operator has to end it."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of all its objects, beside `APPLICATION_LABEL`."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    image_pull_secrets: tuple[str, ...] = ()
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """Further configuration: what `Size` and the other fields here say is not in it."""
    volumes: tuple[Volume, ...] = ()
    scheduling: SparkScheduling = field(default_factory=SparkScheduling)
    has_metrics: bool = False
    """The driver serves metrics for Prometheus at `METRICS_PORT`."""

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME_LENGTH or not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a valid application name: use a DNS label of at most "
                f"{MAX_NAME_LENGTH} characters that begins with a letter can"
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
        """The labels of driver and executors. A scheduler finds the pods that belong together by
        them."""
        scheduling = self.scheduling
        if scheduling.batch_scheduler is not BatchScheduler.YUNIKORN:
            return self.all_labels
        queue = {} if scheduling.queue is None else {"queue": scheduling.queue}
        return {**self.all_labels, "applicationId": self.name, **queue}

    @property
    def launched_labels(self) -> dict[str, str]:
        """Labels of the `SparkApplication` or Job."""
        scheduling = self.scheduling
        if scheduling.batch_scheduler is not BatchScheduler.KUEUE or scheduling.queue is None:
            return self.all_labels
        return {**self.all_labels, KUEUE_LABEL: scheduling.queue}

    @property
    def all_labels(self) -> dict[str, str]:
        """The labels of every object of the application."""
        return {**self.labels, APPLICATION_LABEL: self.name}
