"""The notifications of a broker's replicas, as a protocol that is passed to them when they are
created.

Each method is called on the event loop's thread, in the middle of other work: it must not raise or
wait.
"""

from typing import Protocol
from uuid import UUID

from chiplog_broker.metadata.port import ReplicaReports
from chiplog_broker.storage.names import TopicPartition


class ReplicaEvents(ReplicaReports, Protocol):
    """The notifications of replicas to other parts of the broker, in addition to
    `ReplicaReports`."""

    def topic_changed(self, topic: str) -> None:
        """Replicas of this topic were added or removed, or became or ceased to be leaders."""

    def topic_deleted(self, topic_id: UUID) -> None:
        """A topic was deleted with its data."""

    def follower_fetched(self, partition: TopicPartition) -> None:
        """A follower fetched from a leader that was isolated."""
