"""The result of an admin operation."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chiplog_broker.metadata.view import TopicView
from chiplog_core.admin.codes import Refused
from chiplog_core.config.effective import TopicConfig
from chiplog_wire.protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class PlannedTopic:
    """The topic that would be created, if its creation was only validated."""

    partitions: int
    replicas: int
    config: TopicConfig


@dataclass(frozen=True, slots=True)
class Outcome:
    """Kafka's error code, a message for an error, and the topic as it is now or would be."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None
    topic: TopicView | None = None
    planned: PlannedTopic | None = None
    partitions: Mapping[int, "Outcome"] = field(default_factory=dict)
    """Results of single partitions; the other fields do not apply to those."""

    @classmethod
    def refused(cls, why: Refused) -> "Outcome":
        """The result of an operation that was refused, with the code and the message of `why`."""
        return cls(ErrorCode(why.code), str(why))
