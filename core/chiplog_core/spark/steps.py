"""What the state machines of `spark` ask for: actions, then the status, then Events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from chiplog_core.ids import BrokerId
from chiplog_core.model.broker import RefetchOrder
from chiplog_core.model.spark import SparkLauncher

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Launch:
    """Make an application with its request and an empty result; what is there already stays."""

    name: str
    launcher: SparkLauncher
    job: Mapping[str, Any]
    """The kind's own part of the request."""


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete an application and all that was made for it; nothing may be there."""

    name: str
    launcher: SparkLauncher


@dataclass(frozen=True, slots=True)
class TakeAwayAnnotation:
    """Remove the annotation by which a person steers; it was read and counts once."""


@dataclass(frozen=True, slots=True)
class StepEvent:
    """An Event."""

    is_warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class OrderRefetch:
    """Write an order into a Broker's spec, beside those that are there."""

    replica: BrokerId
    order: RefetchOrder


Action: TypeAlias = Launch | Remove | TakeAwayAnnotation | OrderRefetch


@dataclass(slots=True)
class Step(Generic[S]):
    """The result of one pass. The status is written when all actions are done, and not before: what
    failed is asked for again. Events follow the status that says the same."""

    status: S
    actions: list[Action] = field(default_factory=list)
    events: list[StepEvent] = field(default_factory=list)
    requeue_after_ms: int | None = None
    """When to reconcile again even if nothing changes; None if that is not needed."""
