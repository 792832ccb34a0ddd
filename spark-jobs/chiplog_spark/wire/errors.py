"""What can keep a job from reading, each with what is to be done about it.

A job ends with the `reason` of one of these in its result; a user reads `str()` of it.
"""

from typing import ClassVar

NO_PARTITION = -1


class WireError(Exception):
    """Something was not read. Says which topic and partition, what happened and the remedy."""

    reason: ClassVar[str] = "ReadFailed"

    def __init__(
        self, what: str, remedy: str, topic: str = "", partition: int = NO_PARTITION
    ) -> None:
        # All in `args`: it travels from an executor to the driver by pickle.
        super().__init__(what, remedy, topic, partition)
        self.what = what
        self.remedy = remedy
        self.topic = topic
        self.partition = partition

    @property
    def place(self) -> str:
        """`orders-3`, `orders` where it is about the whole topic, or nothing."""
        if not self.topic or self.partition < 0:
            return self.topic
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{self.reason}: {where}{self.what}; {self.remedy}"


class UnknownTopic(WireError):  # noqa: N818 - the reason that a user reads
    """No such topic or partition, or another topic has its name by now."""

    reason = "UnknownTopic"


class OffsetOutOfRange(WireError):  # noqa: N818
    """Before the log start, or beyond what may be read."""

    reason = "OffsetOutOfRange"


class NotAuthorized(WireError):  # noqa: N818
    """The brokers do not know this user, or it may not read."""

    reason = "NotAuthorized"


class Unreachable(WireError):  # noqa: N818
    """Nobody answers at an address, or not in time."""

    reason = "Unreachable"


class NoLeader(WireError):  # noqa: N818
    """Nobody leads the partition, or nobody can say yet what may be read of it."""

    reason = "NoLeader"


class ReplicaNotThere(WireError):  # noqa: N818
    """The broker that was asked has no replica of the partition."""

    reason = "ReplicaNotThere"


class ReplicaBehind(WireError):  # noqa: N818
    """The replica does not reach the end that was planned to be read."""

    reason = "ReplicaBehind"


class ReplicaDamaged(WireError):  # noqa: N818
    """The broker does not serve its replica: its disk failed, or it found it damaged."""

    reason = "ReplicaDamaged"


class DamagedBatch(WireError):  # noqa: N818
    """A batch is not what was written."""

    reason = "DamagedBatch"


class ProtocolError(WireError):
    """A broker answered what no broker should, or refuses what is asked of it."""

    reason = "ProtocolError"
