"""Status conditions, shaped as Kubernetes' metav1.Condition.

The planner makes verdicts, and conditions are published from them. The difference is the time:
`lastTransitionTime` is when a condition's status last changed, so it must stay as long as
evaluations come to the same result. `merge` is the only place where it is set.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import MAX_INT64
from chiplog_core.limits import MAX_MESSAGE_LENGTH
from chiplog_core.manifest.constraints import Length, Pattern, Range


class ConditionType(StrEnum):
    """The conditions that objects of Chiplog carry."""

    READY = "Ready"
    """The object matches its spec."""

    WARNING = "Warning"
    """It works, but there is something that its owner should know, like keys that moved to other
    partitions."""

    UNMANAGED = "Unmanaged"
    """The operator does not manage the object, because an annotation says so."""

    RECONCILIATION_PAUSED = "ReconciliationPaused"
    """The operator changes nothing until the annotation that paused it is gone."""

    CHANGED_BY_CLIENTS = "ChangedByClients"
    """Kafka clients have set fields of a Topic that its owner's manifest does not name."""

    HEALTHY = "Healthy"
    """Every partition has a leader and all its replicas in sync."""

    CONFIGURATION_APPLIED = "ConfigurationApplied"
    """Every broker runs with the configuration of the spec."""

    QUIESCED = "Quiesced"
    """Nothing is in progress: no move, no roll, no election outstanding."""

    STABLE = "Stable"
    """Ready, healthy, applied and quiesced, all at once."""

    MAINTENANCE = "Maintenance"
    """Brokers are under maintenance, as the spec asks for."""

    METADATA_REGRESSED = "MetadataRegressed"
    """A broker has applied newer metadata than the API server holds, as after a restored etcd."""

    REPLICAS_DAMAGED = "ReplicasDamaged"
    """Stored data of a replica is not what was written; the replica may be being fetched again."""

    DISK_PRESSURE = "DiskPressure"
    """A broker's volume is nearly full, and it refuses writes until there is enough space."""

    CERTIFICATES_CHANGING = "CertificatesChanging"
    """A CA of the cluster is being replaced."""

    REBUILD_REFUSED = "RebuildRefused"
    """An annotation asks for a new volume of a broker, but the present one is still needed."""

    LAG_WITHIN_OBJECTIVE = "LagWithinObjective"
    """A consumer group's lag is below what its spec allows."""

    VERIFIED = "Verified"
    """The last completed run of a Verification found no violations."""

    SCALED = "Scaled"
    """The Deployment of a consumer group's consumers follows the group's lag."""


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The content of a condition, before it is published: without times."""

    type: str
    status: ConditionStatus
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of the object."""

    type: Annotated[
        str,
        "Type of the condition, like Ready.",
        Length(316, minimum=1),
        Pattern("[A-Za-z][A-Za-z0-9./-]*", "a condition type, like Ready"),
    ]
    status: Annotated[ConditionStatus, "Status of the condition: True, False or Unknown."]
    observed_generation: Annotated[
        int,
        "The metadata.generation that this condition is about. If it is lower than the object's "
        "own generation, the condition does not cover the newest spec yet.",
        Range(0, MAX_INT64),
    ]
    last_transition_time: Annotated[datetime, "When the status last changed."]
    reason: Annotated[
        str,
        "Reason of the status, as one CamelCase word that programs can compare.",
        Length(1024, minimum=1),
        Pattern("[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?", "one CamelCase word"),
    ]
    message: Annotated[
        str,
        "Explanation for people: why the status is what it is, and what to do about it.",
        Length(MAX_MESSAGE_LENGTH),
    ] = ""


def merge(
    previous: Iterable[Condition],
    wanted: Iterable[Verdict],
    *,
    observed_generation: int,
    now: datetime,
) -> tuple[Condition, ...]:
    """The conditions to publish: the `wanted` verdicts, with the time when each status last
    changed.

    A `previous` condition without a verdict is dropped, because it no longer applies. The order is
    that of the verdicts, so that equal results are equal objects and cause no write.
    """
    published = {condition.type: condition for condition in previous}
    return tuple(
        Condition(
            type=verdict.type,
            status=verdict.status,
            observed_generation=observed_generation,
            last_transition_time=_transition_time(published.get(verdict.type), verdict, now),
            reason=verdict.reason,
            message=verdict.message,
        )
        for verdict in wanted
    )


def _transition_time(before: Condition | None, verdict: Verdict, now: datetime) -> datetime:
    """When the condition's status last changed: now, unless the published one has this status."""
    if before is not None and before.status == verdict.status:
        return before.last_transition_time
    return now.replace(microsecond=0)  # Kubernetes keeps whole seconds
