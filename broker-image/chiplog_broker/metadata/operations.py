"""What an admin client asks of the cluster, and what it is told.

The same four acts whichever store carries them out: a file in standalone mode, the
operator on Kubernetes. `None` stands for "the cluster's default".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from chiplog_broker.metadata.config_change import ConfigChange
from chiplog_broker.metadata.view import TopicView
from chiplog_broker.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Make a topic. With `assignments` (partition -> broker ids) the counts follow from them."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Remove a topic and its records."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic:
    """Raise the number of partitions; `assignments` are those of the new ones, if given."""

    name: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] = ()
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTopic:
    """Change a topic's own configuration, or replace it with what `changes` set."""

    name: str
    changes: tuple[ConfigChange, ...]
    replace: bool = False
    validate_only: bool = False


Operation: TypeAlias = CreateTopic | DeleteTopic | GrowTopic | ConfigureTopic


@dataclass(frozen=True, slots=True)
class Outcome:
    """Kafka's code, a text where it is an error, and the topic as it is now."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None
    topic: TopicView | None = None
