"""Which partition a client means, and whether it is led here.

A partition that is led elsewhere and one that does not exist are different news: the first
makes a client look for the leader, the second tells it that there is nothing to look for.
"""

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.protocol.errors import ErrorCode


class Leaders:
    """The partitions that this broker leads, as requests name them."""

    def __init__(self, cluster: ClusterView, replicas: Replicas) -> None:
        self._cluster = cluster
        self._replicas = replicas

    def get(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The partition in the leader epoch that the client knows. Raises `PartitionError`."""
        try:
            return self._replicas.leader(topic, index, current_leader_epoch)
        except PartitionError:
            view = self._cluster.topic(topic)
            if view is None or not 0 <= index < len(view.partitions):
                raise PartitionError(ErrorCode.unknown_topic_or_partition) from None
            raise
