"""Settings of a BrokerCluster for where and when the pods of its Spark jobs run.

A Verification or Rebalance cannot change them, so that its author cannot choose a priority or a
queue. Node affinity has the same fields as in a pod.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from chiplog_core.manifest.constraints import Items, Length, Pattern, Range
from chiplog_core.model.pod import LabelKey, LabelValue, Toleration
from chiplog_core.model.references import ObjectName


class NodeOperator(StrEnum):
    """How the label of a node is compared."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class BatchScheduler(StrEnum):
    """A batch scheduler, which places all pods of a job together or lets the job wait in a
    queue."""

    KUEUE = "Kueue"
    VOLCANO = "Volcano"
    YUNIKORN = "YuniKorn"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorRequirement:
    """Requirement for the labels of a node; as in the spec of a pod."""

    key: Annotated[LabelKey, "Key of the node label that is compared."]
    operator: Annotated[NodeOperator, "How the value of the node label is compared with values."]
    values: Annotated[
        tuple[LabelValue, ...],
        "Values that the node label is compared with; empty for Exists and DoesNotExist.",
        Items(50),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelectorTerm:
    """Requirements that a node must meet, all of them."""

    match_expressions: Annotated[
        tuple[NodeSelectorRequirement, ...],
        "Requirements for labels of the node, which must all be met.",
        Items(20, minimum=1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSelector:
    """Selects nodes that match at least one term."""

    node_selector_terms: Annotated[
        tuple[NodeSelectorTerm, ...],
        "Terms for nodes, of which at least one must match.",
        Items(10, minimum=1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredSchedulingTerm:
    """Nodes that are preferred."""

    weight: Annotated[
        int, "Weight of the preference, compared with that of the other preferences.", Range(1, 100)
    ]
    preference: Annotated[NodeSelectorTerm, "Term for the nodes that are preferred."]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAffinity:
    """Node affinity, as in a pod."""

    required_during_scheduling_ignored_during_execution: Annotated[
        NodeSelector | None, "Required node affinity: pods run only on these nodes."
    ] = None
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...],
        "Preferred node affinity: pods run on these nodes if possible.",
        Items(20),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkAffinity:
    """Affinity of pods, as in a pod; only node affinity can be set."""

    node_affinity: Annotated[
        NodeAffinity | None, "Labels of nodes on which the pods must or should run."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkScheduling:
    """Where and when the drivers and executors of jobs run."""

    tolerations: Annotated[
        tuple[Toleration, ...],
        "Taints of nodes that the pods of drivers and executors tolerate.",
        Items(50),
    ] = ()
    affinity: Annotated[SparkAffinity | None, "Affinity of the pods of drivers and executors."] = (
        None
    )
    priority_class_name: Annotated[
        ObjectName | None,
        "Name of the PriorityClass of the pods. It applies only to jobs in the "
        "namespace of the BrokerCluster, and names that start with system- are refused.",
    ] = None
    batch_scheduler: Annotated[
        BatchScheduler | None,
        "Batch scheduler for the Spark jobs. Kueue: its queue label is set on the "
        "launched object. Volcano: works only with Kubeflow's Spark operator, which "
        "must be started with Volcano enabled. YuniKorn: becomes the scheduler of all "
        "pods. It applies only to jobs in the namespace of the BrokerCluster.",
    ] = None
    queue: Annotated[
        str | None,
        "Queue of the batch scheduler in which the Spark jobs wait. It applies only to "
        "jobs in the namespace of the BrokerCluster.",
        Length(63, minimum=1),
        Pattern(
            "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "the value of a label, like root.default"
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMonitoring:
    """Metrics of jobs while they run, and their event logs."""

    prometheus: Annotated[
        bool,
        "Drivers serve metrics on port 4040: their own at /metrics/prometheus, the executors' at "
        "/metrics/executors/prometheus; pod annotations point Prometheus there. This also turns "
        "on Spark's UI, which shows the configuration but no Secrets.",
    ] = False
    event_log_directory: Annotated[
        str | None,
        "Where event logs are written for a Spark history server, like s3a://bucket/spark-events. "
        "The image contains the libraries for file and hdfs.",
        Length(1_024),
        Pattern(
            "(s3a|gs|abfss|hdfs|file)://[^\\s$]+",
            "an address that begins with s3a, gs, abfss, hdfs or file, and ://",
        ),
    ] = None
