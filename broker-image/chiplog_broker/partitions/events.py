"""What the replicas of a broker notify others of, as a protocol that is given when they are made.

Each method is called on the event loop's thread, in the middle of other work: none may raise, or
wait.
"""

from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from chiplog_broker.metadata.port import ReplicaReports

if TYPE_CHECKING:
    from chiplog_broker.partitions.partition import Partition


class ReplicaEvents(ReplicaReports, Protocol):
    """What metadata is to know, and this."""

    def topic_changed(self, topic: str) -> None:
        """Replicas of this topic came, went, lead now or do not any more."""

    def topic_deleted(self, topic_id: UUID) -> None:
        """A topic was deleted with its data."""

    def follower_heard(self, partition: "Partition") -> None:
        """A follower that counts was heard by a leader that was isolated."""
