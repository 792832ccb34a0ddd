"""What an admin client asks of the cluster.

The same acts whichever store carries them out: a file in standalone mode, the operator on
Kubernetes. `None` stands for "the cluster's default".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from chiplog_core.admin.config_change import ConfigChange
from chiplog_core.ids import TopicId

DEFAULT_TIMEOUT_MS = 30_000
"""How long a client waits for an operation whose request does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Make a topic. With `assignments` (partition -> broker ids) the counts follow from them."""

    name: str
    partitions: int | None = None
    replicas: int | None = None
    assignments: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    validate_only: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Remove a topic and its records.

    With `topic_id`, as the broker that was asked knows it, another topic that has got the name
    in the meantime is left alone, however late or often this is carried out.
    """

    name: str
    topic_id: TopicId | None = None
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowTopic:
    """Raise the number of partitions; `assignments` are those of the new ones, if given."""

    name: str
    partitions: int
    assignments: tuple[tuple[int, ...], ...] = ()
    validate_only: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTopic:
    """Change a topic's own configuration, or replace it with what `changes` set."""

    name: str
    changes: tuple[ConfigChange, ...]
    replace: bool = False
    validate_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """Have partitions of a topic led by their preferred leader, or by any replica that is left.

    Each partition comes with the leader epoch that the broker which was asked knows: a higher
    one under the wanted leader is what was asked for, the same one means it was not needed.
    """

    name: str
    partitions: Mapping[int, int]
    topic_id: TopicId | None = None
    is_unclean: bool = False
    timeout_ms: int = DEFAULT_TIMEOUT_MS


Operation: TypeAlias = CreateTopic | DeleteTopic | GrowTopic | ConfigureTopic
"""What changes a topic, in any store."""

Request: TypeAlias = Operation | ElectLeaders
"""What the operator is asked for. Where there is no operator, there is nobody to elect."""
