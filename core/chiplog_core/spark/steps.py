"""The results of the state machines in `spark`: actions, a new status, and Events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import RefetchOrder
from chiplog_core.model.spark import SparkLauncher
from chiplog_core.spark.broker_access import BrokerAccess

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Launch:
    """Create an application with its request and an empty result. Objects that exist already are
    kept."""

    name: str
    launcher: SparkLauncher
    job: Mapping[str, Any]
    """The request's fields for this kind of job."""
    access: BrokerAccess


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an application and all objects that were created for it, if they exist."""

    name: str
    launcher: SparkLauncher


@dataclass(frozen=True, slots=True)
class RemoveAnnotation:
    """Remove the annotation with a user's command, which was carried out and counts once."""


@dataclass(frozen=True, slots=True)
class StepEvent:
    """A Kubernetes Event to record."""

    is_warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class OrderRefetch:
    """Add to a Broker's spec the order to fetch a replica again."""

    replica: BrokerId
    order: RefetchOrder


Action: TypeAlias = Launch | Remove | RemoveAnnotation | OrderRefetch


@dataclass(slots=True)
class Step(Generic[S]):
    """The result of one pass. The status is written after all actions have succeeded: if one fails,
    the next pass repeats it. Events are recorded after the status was written."""

    status: S
    actions: list[Action] = field(default_factory=list)
    events: list[StepEvent] = field(default_factory=list)
    requeue_after_ms: int | None = None
    """When to reconcile again even if nothing changes; None if that is not needed."""
