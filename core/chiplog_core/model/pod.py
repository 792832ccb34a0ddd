"""The settings of pods that users may change.

Everybody who can write a BrokerCluster can use them, so they must not allow to run arbitrary pods:
host paths, privileges, extra containers and service accounts cannot be set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import MAX_INT32
from chiplog_core.limits import MAX_LABEL_LENGTH
from chiplog_core.manifest.constraints import Entries, Items, Length, Pattern, Range
from chiplog_core.model.references import ObjectName
from chiplog_core.quantities import Quantity

Image = Annotated[
    str, Length(512, minimum=1), Pattern(r"[^\s]+", "an image reference without blanks")
]
LabelKey = Annotated[str, Length(316, minimum=1)]
LabelValue = Annotated[str, Length(MAX_LABEL_LENGTH)]


class PullPolicy(StrEnum):
    """When a node pulls an image."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class TolerationOperator(StrEnum):
    """How a toleration compares its value."""

    EXISTS = "Exists"
    EQUAL = "Equal"


class TaintEffect(StrEnum):
    """What a taint does to pods."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """CPU and memory of a container, as in a pod."""

    requests: Annotated[
        Mapping[str, Quantity],
        "Resources requested for each pod, like cpu: 500m and memory: 1Gi.",
        Entries(10),
    ] = field(default_factory=dict)
    limits: Annotated[
        Mapping[str, Quantity],
        "Resource limits of each pod. A broker that exceeds its memory limit is killed.",
        Entries(10),
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Lets a pod run on nodes with a taint; as in the spec of a pod."""

    key: Annotated[LabelKey | None, "Key of the tolerated taint; default: every taint."] = None
    # No default in the schema: a default inside a list shows as drift in every `kubectl apply`.
    operator: Annotated[
        TolerationOperator | None,
        "How the taint is compared. Equal: key and value must be equal. Exists: only "
        "the key. Default: Equal.",
    ] = None
    value: Annotated[LabelValue, "Value of the tolerated taint; only for operator Equal."] = ""
    effect: Annotated[
        TaintEffect | None, "Effect of the tolerated taint; default: every effect."
    ] = None
    toleration_seconds: Annotated[
        int | None,
        "How long the pod stays on a node that gets a NoExecute taint; default: for ever.",
        Range(0, MAX_INT32),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """Settings of the brokers' pods."""

    labels: Annotated[
        Mapping[str, LabelValue], "Labels added to each broker's pod.", Entries(50)
    ] = field(default_factory=dict)
    annotations: Annotated[
        Mapping[str, Annotated[str, Length(8_192)]],
        "Annotations added to each broker's pod.",
        Entries(50),
    ] = field(default_factory=dict)
    node_selector: Annotated[
        Mapping[str, LabelValue], "Labels a node must have to run a broker.", Entries(50)
    ] = field(default_factory=dict)
    tolerations: Annotated[
        tuple[Toleration, ...], "Taints of nodes that the brokers' pods tolerate.", Items(50)
    ] = ()
    priority_class_name: Annotated[
        ObjectName | None, "Name of the PriorityClass of the brokers' pods."
    ] = None
    image_pull_secrets: Annotated[
        tuple[ObjectName, ...],
        "Names of the Secrets with which nodes pull the brokers' image.",
        Items(20, unique=True),
    ] = ()
