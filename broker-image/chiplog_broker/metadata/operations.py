"""What an admin client is told about an operation it asked for."""

from dataclasses import dataclass

from chiplog_broker.metadata.view import TopicView
from chiplog_broker.protocol.errors import ErrorCode
from chiplog_core.admin.codes import Refused


@dataclass(frozen=True, slots=True)
class Outcome:
    """Kafka's code, a text where it is an error, and the topic as it is now."""

    code: ErrorCode = ErrorCode.none
    message: str | None = None
    topic: TopicView | None = None

    @classmethod
    def refused(cls, why: Refused) -> "Outcome":
        """The operation cannot be carried out."""
        return cls(ErrorCode(why.code), str(why))
