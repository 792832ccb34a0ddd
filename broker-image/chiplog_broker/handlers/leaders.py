"""Finds the partition that a client names, and checks whether this broker leads it.

A partition that another broker leads and a partition that does not exist give different errors: the
first makes a client look for the leader, the second says that there is none.
"""

from typing import Final

from chiplog_broker.metadata.view import ClusterView
from chiplog_broker.partitions.errors import ROUTINE, PartitionError
from chiplog_broker.partitions.partition import Partition
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.server.peer import Peer
from chiplog_core.topic_name import is_internal
from chiplog_wire.protocol.errors import ErrorCode
from chiplog_wire.protocol.messages import LeaderIdAndEpoch, NodeEndpoint

LARGEST_CONSUMER_ID = -1
"""Replica ids up to this one are consumers."""
DEBUGGING_CONSUMER_ID = -2
"""A consumer that reads the replica of the broker that it contacts (Kafka's name)."""
SENT_AGAIN: Final = frozenset({ErrorCode.not_enough_replicas, ErrorCode.concurrent_transactions})
"""The codes of batches that could not be verified and are sent again."""


class Leaders:
    """Finds the partitions of this broker by the topic and index in a request."""

    def __init__(self, cluster: ClusterView, replicas: Replicas) -> None:
        self._cluster = cluster
        self._replicas = replicas

    def get(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The partition, which this broker must lead. Raises `PartitionError`.

        `current_leader_epoch` is the leader epoch that the client knows, or -1; another one than
        the present epoch is an error.
        """
        try:
            return self._replicas.leader(topic, index, current_leader_epoch)
        except PartitionError:
            self._check_exists(topic, index)
            raise

    def changeable(self, topic: str, index: int) -> Partition:
        """The partition, for a client that adds or deletes records. Raises `PartitionError`.

        Not for internal topics: a foreign record there could make committed offsets unreadable.
        Apache Kafka allows it to a client with the id `__admin_client`.
        """
        if is_internal(topic):
            message = f"{topic} is an internal topic: clients cannot write to it"
            raise PartitionError(ErrorCode.invalid_topic_exception, message)
        return self.get(topic, index)

    def with_current_high_watermark(self, topic: str, index: int) -> Partition:
        """The partition, with a high watermark that covers all acknowledged records.

        Raises `PartitionError` if this leader is isolated or fenced, because another broker may
        lead now. Also raises it for a new leader whose high watermark may still be below that of
        the previous leader.
        """
        partition = self.get(topic, index)
        if partition.is_isolated or self._cluster.broker_id not in self._cluster.brokers:
            raise PartitionError(ErrorCode.not_leader_or_follower)
        if not partition.high_watermark_is_current:
            raise PartitionError(ErrorCode.offset_not_available)
        return partition

    def readable(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        """The partition, for a consumer that may also read from a follower (KIP-392). Raises
        `PartitionError` if it cannot be read here.

        A fenced broker serves only the partitions that it leads. `current_leader_epoch` is the
        leader epoch that the client knows, or -1.
        """
        if self._cluster.broker_id not in self._cluster.brokers:
            return self.get(topic, index, current_leader_epoch)
        try:
            return self._replicas.readable(topic, index, current_leader_epoch)
        except PartitionError:
            self._check_exists(topic, index)
            raise

    def replica_of_any_role(
        self, topic: str, index: int, current_leader_epoch: int = -1
    ) -> Partition:
        """This broker's replica of the partition, be it leader or follower. Raises
        `PartitionError` if there is none, or it cannot be read.

        `current_leader_epoch` is the leader epoch that the client knows, or -1.
        """
        try:
            return self._replicas.replica_of_any_role(topic, index, current_leader_epoch)
        except PartitionError:
            self._check_exists(topic, index)
            raise

    def soon(self, topic: str, index: int) -> Partition | None:
        """The replica of the partition here, if a client that takes it for the leader may know a
        newer map than this broker; else None."""
        partition = self._replicas.get(topic, index)
        return partition if partition is not None and partition.may_lead_soon else None

    def elsewhere(
        self, topic: str, index: int, listener: str
    ) -> tuple[LeaderIdAndEpoch, NodeEndpoint] | None:
        """The leader of a partition that this broker does not lead, and its address for clients of
        this listener; None if it is not known here."""
        return self._cluster.leader_elsewhere(topic, index, listener)

    def produce_failed(self, topic: str, index: int, code: ErrorCode) -> None:
        """Count a refused batch, unless the error is routine or there is no replica here.

        If another broker leads the partition, this one may lead it a moment later, when the client
        sends the batch again. So the replica notes the refusal.
        """
        partition = self._replicas.get(topic, index)
        if partition is None:
            return
        if code not in ROUTINE:
            partition.counters.failed_produces += 1
        elif code is ErrorCode.not_leader_or_follower and not partition.is_leader:
            partition.note_refusal(code)

    def not_verified(self, topic: str, index: int, code: ErrorCode, records: memoryview) -> None:
        """Have the partition's leader remember a batch whose transaction could not be verified, if
        the client sends it again: its next batches must not overtake it."""
        partition = self._replicas.get(topic, index)
        if partition is not None and partition.is_leader and code in SENT_AGAIN:
            partition.note_refused(code, records)

    def fetch_failed(self, topic: str, index: int, code: ErrorCode) -> None:
        """Count a fetch of a partition that got an error, unless the error is routine or there is
        no replica here."""
        partition = self._replicas.get(topic, index)
        if partition is not None and code not in ROUTINE:
            partition.counters.failed_fetches += 1

    def _check_exists(self, topic: str, index: int) -> None:
        """Raises `PartitionError` if the partition does not exist: this error then replaces the one
        that another broker leads it."""
        view = self._cluster.topic(topic)
        if view is None or not 0 <= index < len(view.partitions):
            raise PartitionError(ErrorCode.unknown_topic_or_partition) from None

    def for_replica(self, replica_id: int, peer: Peer) -> "Leaders":
        """The partitions that a request with this replica id may use: all of these, or none if it
        comes from a client that poses as a broker.

        A follower's fetch can delay or advance the high watermark (CVE-2018-1288).
        """
        if replica_id > LARGEST_CONSUMER_ID and not peer.is_internal:
            return NoLeaders(self._cluster, self._replicas)
        return self


class NoLeaders(Leaders):
    """Refuses every partition: for a client that poses as a broker."""

    def get(self, topic: str, index: int, current_leader_epoch: int = -1) -> Partition:
        raise PartitionError(ErrorCode.cluster_authorization_failed)
