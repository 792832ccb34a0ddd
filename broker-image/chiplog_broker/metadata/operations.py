"""What an admin client is told about an operation it asked for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_broker.metadata.view import TopicView
from chiplog_core.admin.codes import Refused
from chiplog_core.config.effective import TopicConfig
from chiplog_wire.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """What a topic would be whose creation was only validated."""

    partitions: int
    replicas: int
    config: TopicConfig


@dataclass(frozen=True, slots=True)
class Outcome:
    """Kafka's code, a text where it is an error, and the topic as it is now or would be."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None
    topic: TopicView | None = None
    planned: PlannedTopic | None = None
    partitions: Mapping[int, "Outcome"] = field(default_factory=dict)
    """Of the partitions that have an answer of their own; the rest says nothing of those."""

    @classmethod
    def refused(cls, why: Refused) -> "Outcome":
        """The operation cannot be carried out."""
        return cls(ErrorCode(why.code), str(why))
