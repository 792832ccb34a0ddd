"""The notifications of storage, as protocols that are passed to it when a data directory is opened.

Each method is called on the event loop's thread, in the middle of other work: it must not raise or
wait.
"""

from typing import Protocol

from chiplog_broker.storage.directory_report import Progress
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import TopicPartition


class LogEvents(Protocol):
    """The notifications of one log to its directory."""

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        """An open log was found damaged. Called once for each log."""

    def log_compacts(self) -> None:
        """The topic's configuration now enables compaction."""


class DirectoryEvents(LogEvents, Protocol):
    """The notifications of a data directory to its broker: those of its logs, and these."""

    def logs_opened(self, progress: Progress) -> None:
        """The progress of opening the directory."""

    def disk_failed(self, failure: OSError) -> None:
        """The directory went offline. Called once."""
