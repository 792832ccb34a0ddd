"""What storage notifies others of, as protocols that are given when a data directory is opened.

Each method is called on the event loop's thread, in the middle of other work: none may raise, or
wait.
"""

from typing import Protocol

from chiplog_broker.storage.directory_report import Progress
from chiplog_broker.storage.errors import DamagedLogError
from chiplog_broker.storage.names import TopicPartition


class LogEvents(Protocol):
    """What one log notifies its directory of."""

    def log_damaged(self, partition: TopicPartition, found: DamagedLogError) -> None:
        """An open log turned out to be damaged. Once for each."""

    def log_compacts(self) -> None:
        """A log is to be compacted from now on."""


class DirectoryEvents(LogEvents, Protocol):
    """What a data directory notifies its broker of: what its logs do, and this."""

    def logs_opened(self, progress: Progress) -> None:
        """The opening of the directory has come so far."""

    def disk_failed(self, failure: OSError) -> None:
        """The directory went offline. Once."""
