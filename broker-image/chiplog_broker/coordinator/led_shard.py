"""Whether a shard of a coordinator may answer: it is loaded, and this broker still leads."""

from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_wire.protocol.errors import ErrorCode


class LedShard:
    """One partition of a coordinator's topic, while this broker leads it in one leader epoch."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        """The leader epoch in which this broker coordinates what is stored there."""
        self.is_loaded = False
        self.failure = ""
        """Why the partition could not be loaded; empty if it was, or is still being loaded."""
        self._is_over = False

    @property
    def is_current(self) -> bool:
        """Whether this broker still leads the partition in the leader epoch of this shard."""
        return self.partition.leader_epoch == self.leader_epoch

    @property
    def is_leading(self) -> bool:
        """Whether this broker may coordinate, now or once the partition is loaded."""
        if self._is_over or self.partition.is_isolated:
            return False
        try:
            self.partition.check_epoch(self.leader_epoch)
        except PartitionError:
            return False
        return True

    @property
    def is_loading(self) -> bool:
        """Whether the partition is still being read."""
        return self.is_leading and not self.is_loaded and not self.failure

    @property
    def is_serving(self) -> bool:
        """Whether this broker coordinates what is stored there now."""
        return self.is_loaded and self.is_leading

    def refusal(self) -> tuple[ErrorCode, str]:
        """The code for requests, with a reason that may be empty; `none` if this broker coordinates
        what is stored there now."""
        if not self.is_leading:
            return ErrorCode.not_coordinator, ""
        if self.failure:
            return ErrorCode.coordinator_not_available, self.failure
        if not self.is_loaded:
            return ErrorCode.coordinator_load_in_progress, ""
        return ErrorCode.none, ""
