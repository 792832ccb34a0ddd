"""Which parts of a broker are notified of which events.

Each part gets these events when it is created. The part that an event concerns may not exist yet,
or not any more. No event is lost by that, because each part checks everything when it starts.
"""

import logging
from dataclasses import dataclass
from uuid import UUID

from chiplog_broker.coordinator.coordinator import Coordinator
from chiplog_broker.metadata.port import Membership
from chiplog_broker.partitions.housekeeping import Housekeeping
from chiplog_broker.partitions.replicas import Replicas
from chiplog_broker.partitions.silence import SilenceWatch
from chiplog_broker.server.health import Health
from chiplog_broker.storage.directory_report import Progress
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import TopicPartition
from chiplog_broker.transaction_coordinator.coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class BrokerParts:
    """The parts of a broker that are notified; each is None until the broker has created it."""

    replicas: Replicas | None = None
    coordinator: Coordinator | None = None
    transactions: TransactionCoordinator | None = None
    housekeeping: Housekeeping | None = None
    silence: SilenceWatch | None = None


class BrokerEvents:
    """The `DirectoryEvents`, `ReplicaEvents` and `MembershipEvents` of one broker."""

    def __init__(self, parts: BrokerParts, membership: Membership, health: Health) -> None:
        self._parts = parts
        self._membership = membership
        self._health = health

    # -- of the data directory

    def logs_opened(self, progress: Progress) -> None:
        """Report the progress of opening the data directory at the health address."""
        self._health.logs_recovered = progress.partitions_done
        self._health.logs_total = progress.partitions_total

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        """An open log was found to be damaged: its replica stops."""
        if self._parts.replicas is not None:
            self._parts.replicas.log_damaged(partition, found)

    def log_compacts(self) -> None:
        """A new configuration has enabled compaction for a log here."""
        if self._parts.housekeeping is not None:
            self._parts.housekeeping.log_compacts()

    def disk_failed(self, failure: OSError) -> None:
        """A write or sync failed: the data directory is offline from now on. Does nothing while the
        directory is being opened, because then the start fails."""
        if self._parts.replicas is None:
            return
        self._parts.replicas.go_offline(failure)
        self._health.log_directory_offline = str(failure)
        self._membership.disk_failed()
        logger.error("log_directory_offline", extra={"reason": str(failure)})

    # -- of the replicas

    def proposals_changed(self) -> None:
        """Leaders here made a new proposal, or one was answered."""
        self._membership.proposals_changed()

    def problems_changed(self) -> None:
        """A replica here stopped because of an error, or works again."""
        self._membership.problems_changed()

    def partition_settled(self) -> None:
        """A partition led here was moved, and the old replicas are not needed any more."""
        self._membership.partition_settled()

    def topic_outdated(self, topic: str) -> None:
        """A replica here differs from the topic's PartitionMap (its leaders and replicas), so the
        membership applies this map again."""
        self._membership.topic_outdated(topic)

    def topic_changed(self, topic: str) -> None:
        """Replicas of this topic were added or removed here, or became leaders or followers."""
        if self._parts.coordinator is not None:
            self._parts.coordinator.topic_changed(topic)
        if self._parts.transactions is not None:
            self._parts.transactions.topic_changed(topic)

    def topic_deleted(self, topic_id: UUID) -> None:
        """A topic was deleted with its data: delete the offsets that were committed for it."""
        if self._parts.coordinator is not None:
            self._parts.coordinator.topic_deleted(topic_id)

    def follower_fetched(self, partition: TopicPartition) -> None:
        """A follower fetched from a leader that was isolated."""
        if self._parts.silence is not None:
            self._parts.silence.follower_fetched(partition)

    # -- of the membership

    def waits_for(self, what: str) -> None:
        """Report at the health address what the start waits for; empty if it waits for nothing."""
        self._health.waiting_for = what

    def authority_answered(self) -> None:
        """The API server has answered: leaders here may not be isolated any more."""
        if self._parts.silence is not None:
            self._parts.silence.authority_answered()
