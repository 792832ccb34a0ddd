"""The errors that keep a job from reading, each with a remedy.

A job ends with the `reason` of one of these in its result; users read its `str()`.
"""

from typing import ClassVar

NO_PARTITION = -1


class WireError(Exception):
    """A read failed. The message names topic, partition, problem and remedy."""

    reason: ClassVar[str] = "ReadFailed"

    def __init__(
        self, what: str, remedy: str, topic: str = "", partition: int = NO_PARTITION
    ) -> None:
        # Executors send errors to the driver by pickle, which needs all values in `args`.
        super().__init__(what, remedy, topic, partition)
        self.what = what
        self.remedy = remedy
        self.topic = topic
        self.partition = partition

    @property
    def place(self) -> str:
        """Partition or topic of the error, like `orders-3` or `orders`; empty if it has neither."""
        if not self.topic or self.partition < 0:
            return self.topic
        return f"{self.topic}-{self.partition}"

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return f"{self.reason}: {where}{self.what}; {self.remedy}"


class UnknownTopic(WireError):  # noqa: N818 - the reason that a user reads
    """The topic or partition does not exist, or another topic has its name now."""

    reason = "UnknownTopic"


class OffsetOutOfRange(WireError):  # noqa: N818
    """The offset is below the log start offset, or above the end that may be read."""

    reason = "OffsetOutOfRange"


class NotAuthorized(WireError):  # noqa: N818
    """The brokers do not know this user, or it has no permission."""

    reason = "NotAuthorized"


class Unreachable(WireError):  # noqa: N818
    """No broker answered at an address in time."""

    reason = "Unreachable"


class NoLeader(WireError):  # noqa: N818
    """The partition has no leader, or the leader does not know its high watermark yet."""

    reason = "NoLeader"


class ReplicaNotThere(WireError):  # noqa: N818
    """The requested broker has no replica of the partition."""

    reason = "ReplicaNotThere"


class ReplicaBehind(WireError):  # noqa: N818
    """The replica ends before the planned end offset."""

    reason = "ReplicaBehind"


class ReplicaDamaged(WireError):  # noqa: N818
    """The broker does not serve its replica: its disk failed, or the replica is damaged."""

    reason = "ReplicaDamaged"


class DamagedBatch(WireError):  # noqa: N818
    """The bytes of a batch have changed."""

    reason = "DamagedBatch"


class ProtocolError(WireError):
    """A broker sent an invalid answer, or refuses a valid request."""

    reason = "ProtocolError"
